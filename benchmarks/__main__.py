"""`python -m benchmarks`: chooses, runs and shows. What a benchmark measures is in the module named for its subject."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from benchmarks.catalogue import BENCHMARKS, require_space
from benchmarks.harness import Result
from benchmarks.place import FULL, QUICK, TooLittleSpace, temporary_place
from benchmarks.table import show, show_json


def main(arguments: list[str] | None = None) -> int:
    """0 whatever the figures are, because a noisy machine is no failure; 1 without space, 130 after Ctrl-C."""
    choice = _parser().parse_args(arguments)
    chosen = [benchmark for benchmark in BENCHMARKS if not choice.only or _is_meant(benchmark.name, choice.only)]
    results: list[Result] = []
    try:
        with temporary_place(choice.dir, QUICK if choice.quick else FULL) as place:
            require_space(place, chosen)
            for benchmark in chosen:
                print(f"{benchmark.name} …", file=sys.stderr, flush=True)
                results += benchmark.run(place)
    except TooLittleSpace as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped; nothing is left behind.", file=sys.stderr)
        return 130
    (show_json if choice.json else show)(results)
    return 0


def _is_meant(name: str, wanted: list[str]) -> bool:
    """By its whole name, or by the first word of it: `node` means all benchmarks of the node."""
    return name in wanted or name.partition("-")[0] in wanted


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measures log and node on this machine.")
    names = [benchmark.name for benchmark in BENCHMARKS]
    words = dict.fromkeys([*names, *(name.partition("-")[0] for name in names)])
    told = f"one of {', '.join(names)}, or all that begin with the same word: `node`"
    parser.add_argument("--only", action="append", choices=list(words), metavar="NAME", help=told)
    parser.add_argument("--quick", action="store_true", help="small sizes and few rounds: figures are rough")
    parser.add_argument("--json", action="store_true", help="every sample of every round, as JSON")
    parser.add_argument(
        "--dir", type=Path, default=Path(), help="where to write (default: here), on the disk to measure"
    )
    return parser


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a `kill` cleans up like Ctrl-C
    sys.exit(main())
