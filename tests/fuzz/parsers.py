"""Every parser of stored or received bytes, as one list: for the Hypothesis tests and, run as a script, for atheris.

    python tests/fuzz/parsers.py                        every parser, 60 seconds each
    python tests/fuzz/parsers.py --seconds 600 arrow    one of them, for longer

A parser may return, or raise a FlowMeshError. Anything else that comes out is a bug.
Ends with 0 when none was found, and with 3 when atheris is not installed.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import inspect
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from flowmesh.base.errors import FlowMeshError
from flowmesh.base.times import UNSTAMPED
from flowmesh.format import batch, block, chain, checkpoint, columns, floor, index, mark, names, segment
from flowmesh.format.checksum import crc32c

NO_ATHERIS = 3
GOLDEN = Path(__file__).parents[1] / "golden"
HAS_ARROW = importlib.util.find_spec("pyarrow") is not None


def parse_entry(data: bytes) -> None:
    entry = memoryview(data)
    block.crc_is_right(entry)
    header = block.decode_prefix(entry)
    _ = header.timestamp_ns
    block.hash_is_right(header, entry[block.PREFIX_SIZE :])


def parse_segment(data: bytes) -> None:
    segment.is_sound(data)
    _ = segment.decode(data).created_ns


def parse_batch(data: bytes) -> None:
    header = batch.decode_header(data)
    batch.header_fault(header)
    batch.unpacked_body(batch.decode(data))


def parse_columns(data: bytes) -> None:
    """What `check` lets pass reads as records, and those records make a batch that reads the same."""
    held = batch.decode(data)
    records = columns.check(held).records()
    assert len(records) == held.header.count
    again = columns.encode(
        [record.value for record in records],
        keys=[record.key for record in records],
        headers=[record.headers for record in records],
        times_ns=[record.time_ns for record in records] if held.header.base_time_ns != UNSTAMPED else None,
    )
    stored = batch.stamp(again.header, held.header.base_offset, 0, 0) + bytes(again.body)
    if held.header.base_time_ns != UNSTAMPED:
        assert columns.check(batch.decode(stored)).records() == records


def parse_arrow(data: bytes) -> None:
    """What `check` lets pass, Arrow finds sound."""
    from flowmesh.format import arrow

    held = batch.decode(data)
    columns.check(held)
    table = arrow.to_arrow(held)
    table.validate(full=True)
    assert table.num_rows == held.header.count


def parse_index(data: bytes) -> None:
    held = index.decode(data)
    assert held is None or index.decode(index.encode(*held)) == held


def parse_mark(data: bytes) -> None:
    held = mark.decode(data)
    assert held is None or mark.decode(mark.encode(held)) == held


def parse_chain(data: bytes) -> None:
    identity = chain.decode(data)
    assert chain.decode(chain.encode(identity)) == identity


def parse_floor(data: bytes) -> None:
    held = floor.decode(data)
    assert floor.decode(floor.encode(held)) == held


def parse_checkpoint(data: bytes) -> None:
    held = checkpoint.decode(data)
    assert checkpoint.decode(checkpoint.encode(held)) == held


def parse_name(data: bytes) -> None:
    names.classify(data.decode("utf-8", "surrogateescape"))


Parser = Callable[[bytes], None]

PARSERS: dict[str, Parser] = {
    "entry": parse_entry,
    "segment": parse_segment,
    "batch": parse_batch,
    "columns": parse_columns,
    "index": parse_index,
    "durable-mark": parse_mark,
    "chain": parse_chain,
    "floor": parse_floor,
    "checkpoint": parse_checkpoint,
    "name": parse_name,
}
if HAS_ARROW:
    PARSERS["arrow"] = parse_arrow

CORPUS = {"columns": "batch", "arrow": "batch"}
"""Where the seeds of a parser lie in tests/golden, if not under its own name."""


def with_checksum(data: bytes) -> bytes:
    return data[:-4] + crc32c(data[:-4]).to_bytes(4, "little")


def with_hash(data: bytes) -> bytes:
    fields = data[: segment.SIZE - 32]
    return fields + hashlib.sha256(fields).digest() + data[segment.SIZE :]


SEALS: dict[str, Callable[[bytes], bytes]] = {
    "entry": with_checksum,
    "segment": with_hash,
    "index": with_checksum,
    "durable-mark": with_checksum,
}
"""Puts the right checksum on damaged bytes, so that what lies behind it is reached."""


def survive(name: str, data: bytes) -> None:
    """One input to one parser, as it is and sealed; a FlowMeshError is an answer, everything else comes out."""
    for variant in (data, SEALS[name](data)) if name in SEALS else (data,):
        try:
            PARSERS[name](variant)
        except FlowMeshError:
            continue


def seeds(name: str) -> list[Path]:
    return sorted((GOLDEN / CORPUS.get(name, name)).glob("v*/*"))


def fuzz(name: str, runs: int, seconds: int) -> None:
    """Never returns: libFuzzer ends the process when a bound is reached or a bug is found."""
    import atheris

    # Only FlowMesh's own parsers: `instrument_all` takes half a minute and steers by code that is not ours.
    for module in (batch, block, chain, checkpoint, columns, floor, index, mark, names, segment):
        for _, function in inspect.getmembers(module, inspect.isfunction):
            if function.__module__ == module.__name__:
                atheris.instrument_func(function)

    def target(data: bytes) -> None:
        survive(name, data)

    with tempfile.TemporaryDirectory(prefix="flowmesh-fuzz-") as folder:
        corpus = Path(folder)
        for number, path in enumerate(seeds(name)):
            (corpus / str(number)).write_bytes(path.read_bytes())
        bounds = [f"-runs={runs}", f"-max_total_time={seconds}", "-max_len=4096", "-rss_limit_mb=2048", "-timeout=10"]
        atheris.Setup(
            [sys.argv[0], *bounds, f"-artifact_prefix={tempfile.gettempdir()}/flowmesh-{name}-", folder], target
        )
        atheris.Fuzz()


def main() -> int:
    options = argparse.ArgumentParser(description="Fuzz FlowMesh's parsers with atheris.")
    options.add_argument("parser", nargs="?", choices=sorted(PARSERS), help="one parser; without it, every one in turn")
    options.add_argument(
        "--runs", type=int, default=10_000_000, help="at most so many inputs for each (default: %(default)s)"
    )
    options.add_argument(
        "--seconds", type=int, default=60, help="at most so many seconds for each (default: %(default)s)"
    )
    chosen = options.parse_args()
    if importlib.util.find_spec("atheris") is None:
        sys.stderr.write(
            "atheris is not installed: nothing was fuzzed. `make soak` installs it where it has a wheel.\n"
        )
        return NO_ATHERIS
    if chosen.parser is not None:
        fuzz(chosen.parser, chosen.runs, chosen.seconds)
    failed = []
    for name in PARSERS:
        sys.stderr.write(f"==> {name}\n")
        bounds = ["--runs", str(chosen.runs), "--seconds", str(chosen.seconds)]
        if subprocess.run([sys.executable, __file__, *bounds, name], check=False).returncode:
            failed.append(name)
    if failed:
        sys.stderr.write(f"bugs were found in: {', '.join(failed)}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
