"""A seed means the same in every process: no order of a hash and no address gets into a run."""

import os
import subprocess
import sys

import pytest


def output(hash_seed: str, *arguments: str) -> bytes:
    run = subprocess.run(
        [sys.executable, "-m", "flowmesh.sim.main", *arguments],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        check=False,
        timeout=100,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


@pytest.mark.parametrize("name, stride", [("append", 1), ("clean", 1), ("node-mixed", 23), ("node-access", 23)])
def test_two_hash_seeds_give_the_same_trace_and_the_same_results(name: str, stride: int) -> None:
    arguments = ("--seed", "11", "--workload", name, "--stride", str(stride), "--trace")
    first = output("0", *arguments)
    assert first == output("4242", *arguments)
    assert b"segment-000001.log" in first


def test_another_seed_gives_another_run() -> None:
    assert output("0", "--seed", "11", "--workload", "clean") != output("0", "--seed", "12", "--workload", "clean")
