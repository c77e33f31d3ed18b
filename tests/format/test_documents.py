"""The format pages are true: their examples are what the encoders make, their sizes are what the code has."""

import re
from pathlib import Path

import pytest

from flowmesh.base import limits
from flowmesh.format import batch, block, frame, index, mark, segment
from flowmesh.operations.table import OPERATIONS
from flowmesh.streams.producers import REMEMBERED_BATCHES
from tests.format.examples import STORED

PAGES = Path(__file__).parents[2] / "docs" / "formats"
EXAMPLE = re.compile(r"^```(hex|json) example=(\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TABLE_ROW = re.compile(r"^\| (\d+) \| (\d+) \| ([a-z ]+)", re.MULTILINE)


def page(name: str) -> str:
    return (PAGES / f"{name}.md").read_text(encoding="utf-8")


def examples(name: str) -> list[tuple[str, bytes]]:
    """Name and bytes of each example on a page; in hex, what follows a `#` is for the reader."""
    found = []
    for kind, example, text in EXAMPLE.findall(page(name)):
        digits = "".join(line.partition("#")[0] for line in text.splitlines()) if kind == "hex" else ""
        found.append((example, bytes.fromhex(digits) if kind == "hex" else text.encode()))
    return found


def rows(name: str) -> list[tuple[int, int]]:
    """Offset and size of each field in a page's table, as far as they are plain numbers."""
    return [(int(offset), int(size)) for offset, size, _ in TABLE_ROW.findall(page(name))]


def test_every_page_has_an_example_and_every_example_a_page() -> None:
    assert {path.stem for path in PAGES.glob("*.md")} - {"README"} == set(STORED)


@pytest.mark.parametrize("name", sorted(STORED))
def test_example_is_what_the_encoder_makes(name: str) -> None:
    assert examples(name) == [(name, STORED[name])]


@pytest.mark.parametrize(
    "name, size",
    [
        ("segment", segment.SIZE),
        ("block", block.HEADER_SIZE),
        ("batch", batch.HEADER_SIZE),
        ("index", index.HEADER_SIZE),
        ("durable-mark", mark.SIZE),
        ("frame", frame.PREFIX_SIZE),
    ],
)
def test_table_adds_up_to_the_size_of_the_code(name: str, size: int) -> None:
    position = 0
    for offset, length in rows(name):
        assert offset == position
        position += length
    assert position == size
    stated = size + 4 if name == "index" else size
    assert re.search(rf"^{stated} (\+ 24 n )?bytes, little-endian", page(name), re.MULTILINE)


def test_stated_sizes_are_the_constants() -> None:
    assert (segment.SIZE, block.HEADER_SIZE, batch.HEADER_SIZE, mark.SIZE) == (165, 101, 64, 64)
    assert (block.PREFIX_SIZE, block.OVERHEAD, index.HEADER_SIZE, index.ENTRY_SIZE) == (105, 109, 128, 24)
    assert "takes 109 bytes beside its data" in page("entry")
    assert "header length 101" in page("entry")
    table = page("README")
    for name, size in {"segment": "165", "entry": "109 + data", "block": "101", "batch": "64 + body"}.items():
        assert re.search(rf"^\| \[{name}\]\({name}\.md\) .* \| {re.escape(size)} \|$", table, re.MULTILINE)
    assert "| 132 + 24 for each entry |" in table


def test_stated_limits_are_the_limits() -> None:
    assert limits.BATCH_BYTES_MAX == 64 * limits.MIB
    assert limits.BATCH_BYTES_DECODED_MAX == 256 * limits.MIB
    assert f"1 to {limits.BATCH_RECORDS_MAX:,}" in page("batch")
    assert f"at most {limits.INDEX_ENTRIES_MAX:,}" in page("index")
    assert f"{limits.INDEX_INTERVAL_BYTES // limits.KIB} KiB" in page("index")
    assert f"1 to {limits.CHAIN_NAME_BYTES_MAX} bytes" in page("chain")
    assert f"1 to {limits.SEGMENT_NUMBER_MAX}" in page("floor")


@pytest.mark.parametrize("flag", batch.ColumnFlag)
def test_flags_are_documented_with_their_numbers(flag: batch.ColumnFlag) -> None:
    assert flag.name is not None
    assert f"{flag.value} {flag.name.lower().replace('_', ' ')}" in page("batch")


@pytest.mark.parametrize("number", [*batch.BatchKind, *batch.Codec])
def test_kinds_and_codecs_are_documented_with_their_numbers(number: batch.BatchKind | batch.Codec) -> None:
    assert f"{number.value} {number.name.lower()}" in page("batch")


@pytest.mark.parametrize(
    "magic, name", [(segment.MAGIC, "segment"), (index.MAGIC, "index"), (mark.MAGIC, "durable-mark")]
)
def test_magics_are_documented(magic: bytes, name: str) -> None:
    assert f"`{magic.decode()}`".replace("\n", r"\n") in page(name)


def test_block_id_on_the_page_is_the_one_of_the_example() -> None:
    entry, header = STORED["entry"], STORED["segment"]
    assert block.block_id(header[-32:], entry[block.HASH]) in page("block")


@pytest.mark.parametrize("name", sorted(STORED))
def test_page_has_all_its_parts(name: str) -> None:
    text = page(name)
    for part in ("**Version.**", "## Invariants", "## Example", "## Downsides", "little-endian"):
        assert part in text, part


def test_frame_page_lists_every_kind_flag_and_operation() -> None:
    text = page("frame")
    for kind in frame.FrameKind:
        assert f"| {kind.value} {kind.name.lower()} |" in text
    for flag in frame.FrameFlag:
        assert f"{flag.value} {flag.name.lower()}" in text if flag.name else False
    for operation in OPERATIONS:
        assert f"| {operation.code} | `{operation.name}` |" in text


def test_frame_page_states_the_limits() -> None:
    assert limits.FRAME_BYTES_MAX == 33 * limits.MIB + limits.KIB
    assert limits.FRAME_HEADER_BYTES_MAX == limits.MIB
    assert limits.FRAME_REPLY_BYTES_MAX == 97 * limits.MIB
    assert limits.RECORD_BYTES_MAX == 16 * limits.MIB
    text = page("frame")
    assert f"| records in a batch | {limits.REQUEST_RECORDS_MAX:,} |" in text
    assert f"| subscriptions of a connection | {limits.SUBSCRIPTIONS_PER_CONNECTION_MAX} |" in text
    assert f"more than {limits.IN_FLIGHT_PER_CONNECTION_MAX:,} of them or 32 MiB" in text
    assert limits.IN_FLIGHT_BYTES_PER_CONNECTION_MAX == 32 * limits.MIB
    assert (limits.FRAME_HELLO_MS, limits.FRAME_UNFINISHED_MS, limits.FRAME_IDLE_MS) == (10_000, 60_000, 600_000)
    assert limits.SUBSCRIPTION_STALL_MS == 30_000
    assert f"({limits.READ_WAIT_MS_MAX:,} at most)" in text
    assert REMEMBERED_BATCHES == 5
