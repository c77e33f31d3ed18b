"""The command `flowmesh-sim`: replays seeds, says what was tried, and how to see a violation again. Decides nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace

import click

from flowmesh.sim.explore import Exploration, Plan, Violation, explore
from flowmesh.sim.scenarios import SCENARIOS

_TOLD_MAX = 20
"""Violations that are printed; the rest are counted."""

_HELP = """Cut the power, fail the disk, and see whether the log and the node keep their promises.

Runs the log, or a whole node with its catalog, streams and groups, on a simulated disk. Each workload is interrupted at
every one of its disk operations: by a power cut (all that was not synced is lost, or kept, or torn and reordered at
random), by kill -9, and by EIO or ENOSPC from each call in turn. After each it is started anew, checked against what
was acknowledged, used, and crashed once more; the power also fails while it recovers.

A seed fixes everything. The same seed replays the same run, operation by operation, on any machine.

\b
Examples:
  flowmesh-sim --seed 7                             all workloads, one seed
  flowmesh-sim --seed 1 --runs 100                  seeds 1 to 100
  flowmesh-sim --seed 7 --workload rolls --trace    one workload, and the disk operations it makes
  flowmesh-sim --seed 7 --thorough                  more outcomes, and every operation of every recovery
  flowmesh-sim --runs 50 --stride 10                many seeds, every tenth operation of each

\b
Workloads:
"""


def _help() -> str:
    width = max(map(len, SCENARIOS))
    return _HELP + "\n".join(f"  {name:{width}}  {scenario.about}" for name, scenario in SCENARIOS.items())


@click.command(help=_help(), epilog="Exits with 0 when every promise was kept, and with 1 when one was broken.")
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="The first seed.")
@click.option("--runs", type=click.IntRange(min=1), default=1, show_default=True, help="How many seeds, one by one.")
@click.option(
    "--workload", "names", type=click.Choice(list(SCENARIOS)), multiple=True, help="Only this; may be repeated."
)
@click.option("--trace", is_flag=True, help="Print every disk operation of the undisturbed run.")
@click.option("--thorough", is_flag=True, help="Crash at every operation of each recovery, not at a few.")
@click.option("--stride", type=click.IntRange(min=1), default=1, show_default=True, help="Only every so many-th crash.")
def main(seed: int, runs: int, names: tuple[str, ...], trace: bool, thorough: bool, stride: int) -> None:
    plan = Plan(random_outcomes=4, second_crashes_max=1000, second_outcomes=3) if thorough else Plan()
    plan = replace(plan, stride=stride)
    results = []
    for result in _explorations(range(seed, seed + runs), names or tuple(SCENARIOS), plan):
        results.append(result)
        click.echo(_line(result))
        if trace:
            for number, (operation, *rest) in enumerate(result.trace, 1):
                click.echo(f"  {number:4}  {operation:<15} {' '.join(map(str, rest))}")
    violations = [violation for result in results for violation in result.violations]
    click.echo(_summary(results, violations, runs))
    for violation in violations[:_TOLD_MAX]:
        click.echo(f"\nVIOLATION {violation.describe()}\n  replay: {_command(violation, plan, thorough)}")
    sys.exit(1 if violations else 0)


def _explorations(seeds: Iterable[int], names: tuple[str, ...], plan: Plan) -> Iterator[Exploration]:
    for seed in seeds:
        for name in names:
            yield explore(name, seed, plan)


def _line(result: Exploration) -> str:
    verdict = f"{len(result.violations)} VIOLATIONS" if result.violations else "kept"
    counts = (
        f"{result.operations:4} operations {result.crash_points:5} crash points {result.fault_points:4} faults"
        f" {result.recoveries:6} recoveries"
    )
    return f"seed {result.seed}  {result.workload:<14} {counts}  {result.digest[:16]}  {verdict}"


def _summary(results: list[Exploration], violations: list[Violation], runs: int) -> str:
    recoveries = sum(result.recoveries for result in results)
    lines = [
        "",
        f"runs          {runs}",
        f"crash points  {sum(result.crash_points for result in results)}",
        f"faults        {sum(result.fault_points for result in results)}",
        f"recoveries    {recoveries}",
        f"violations    {len(violations)}",
    ]
    if not violations:
        # The rule of three: with 95 % confidence, the rate behind zero failures in N trials is below 3/N.
        lines.append(
            f"bound         no failure in {runs} runs: under {3 / runs:.2g} per seed;"
            f" none in {recoveries} recoveries: under {3 / recoveries:.2g} each"
        )
    return "\n".join(lines)


def _command(violation: Violation, plan: Plan, thorough: bool) -> str:
    options = [" --thorough"] * thorough + [f" --stride {plan.stride}"] * (plan.stride > 1)
    return f"flowmesh-sim --seed {violation.seed} --workload {violation.workload}{''.join(options)}"


if __name__ == "__main__":
    main()
