"""Version 1 of every format, from files that never change: read, checked, and written again byte for byte."""

import hashlib
from pathlib import Path

import pytest

from flowmesh.base.times import UNSTAMPED
from flowmesh.format import batch, block, chain, checkpoint, columns, floor, index, mark, segment, snapshot
from tests.format import examples

GOLDEN = Path(__file__).parents[1] / "golden"


def golden(*formats: str) -> list[Path]:
    return sorted(path for name in formats for path in (GOLDEN / name / "v1").iterdir())


def path_id(path: Path) -> str:
    return str(path.relative_to(GOLDEN))


def test_no_golden_file_was_changed_added_or_removed() -> None:
    lines = (line.split("  ") for line in (GOLDEN / "SHA256SUMS").read_text().splitlines())
    listed = {name: digest for digest, name in lines}
    found = {path_id(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in GOLDEN.glob("*/v*/*")}
    assert found == listed


@pytest.mark.parametrize("path", golden("chain"), ids=path_id)
def test_chain(path: Path) -> None:
    data = path.read_bytes()
    assert chain.encode(chain.decode(data)) == data


@pytest.mark.parametrize("path", golden("floor"), ids=path_id)
def test_floor(path: Path) -> None:
    data = path.read_bytes()
    assert floor.encode(floor.decode(data)) == data


@pytest.mark.parametrize("path", golden("checkpoint"), ids=path_id)
def test_checkpoint(path: Path) -> None:
    data = path.read_bytes()
    held = checkpoint.decode(data, examples.SIGNING_KEY.public_key().public_bytes_raw())
    assert checkpoint.encode(held) == data
    # Ed25519 is deterministic, so even signing anew gives the same file.
    chain_hash, block_hash = bytes.fromhex(held.chain_hash), bytes.fromhex(held.block_hash)
    assert checkpoint.sign(examples.SIGNING_KEY, chain_hash, held.end_offset, block_hash, held.time_ns) == held


@pytest.mark.parametrize("path", golden("durable-mark"), ids=path_id)
def test_mark(path: Path) -> None:
    data = path.read_bytes()
    held = mark.decode(data)
    assert held is not None
    assert mark.encode(held) == data


@pytest.mark.parametrize("path", golden("index"), ids=path_id)
def test_index(path: Path) -> None:
    data = path.read_bytes()
    held = index.decode(data)
    assert held is not None
    assert index.encode(*held) == data


@pytest.mark.parametrize("path", golden("snapshot"), ids=path_id)
def test_snapshot(path: Path) -> None:
    data = path.read_bytes()
    held = snapshot.decode(data)
    assert held is not None
    assert snapshot.encode(held) == data


@pytest.mark.parametrize("path", golden("batch"), ids=path_id)
def test_batch(path: Path) -> None:
    data = path.read_bytes()
    held = batch.decode(data)
    assert batch.HEADER.pack(*held.header) + bytes(held.body) == data
    header = held.header
    assert batch.stamp(header, header.base_offset, header.leader_epoch, 0) == data[: batch.HEADER_SIZE]
    if header.kind == batch.BatchKind.FOREIGN:
        return
    records = columns.check(held).records()
    again = columns.encode(
        [record.value for record in records],
        keys=[record.key for record in records] if header.flags & batch.ColumnFlag.KEYS else None,
        headers=[record.headers for record in records],
        times_ns=[record.time_ns for record in records],
    )
    # Compression is not compared: the same bytes unfold from what another release of zstd may pack in another way.
    assert again.body == bytes(batch.unpacked_body(held))
    assert again.header.flags == header.flags


def test_batch_values() -> None:
    def records(name: str) -> list[columns.Record]:
        return columns.check(batch.decode((GOLDEN / "batch" / "v1" / name).read_bytes())).records()

    first, second = examples.TIMES_NS
    assert records("records.bin") == [(1, first, b"a", b"paid", ((b"n", b"1"),)), (2, second, b"b", None, ())]
    assert records("control.bin") == [
        (2**62, examples.APPENDED_NS, None, b"", ()),
        (2**62 + 1, examples.APPENDED_NS, b"", b"commit", ()),
    ]
    assert records("values.bin") == [
        (0, -1, None, b"x", ()),
        (1, -(2**62) + 1, None, b"", ()),
        (2, -1, None, b"yz", ()),
    ]
    assert [record.value for record in records("zstd.bin")] == [b"paid", None] * 20


@pytest.mark.parametrize("path", golden("entry"), ids=path_id)
def test_entry(path: Path) -> None:
    data = path.read_bytes()
    assert reencoded_entry(data) == data


@pytest.mark.parametrize("path", golden("segment"), ids=path_id)
def test_segment(path: Path) -> None:
    """A whole file: the header, and each entry chained to what stands before it."""
    data = path.read_bytes()
    assert segment.is_sound(data)
    held = segment.decode(data)
    assert (held.magic, held.size, held.version) == (segment.MAGIC, segment.SIZE, segment.VERSION)
    again = segment.encode(
        held.chain_hash, held.previous_segment_hash, held.previous_block_hash, held.base_offset, held.created_ns
    )
    position, previous = segment.SIZE, held.hash
    while position < len(data):
        header = block.decode_prefix(data, position)
        entry = data[position : position + block.entry_size(header.data_length)]
        assert header.previous_hash == previous
        assert header.data_offset == position + block.PREFIX_SIZE
        again += reencoded_entry(entry)
        position, previous = position + len(entry), header.hash
    assert again == data


def reencoded_entry(entry: bytes) -> bytes:
    header = block.decode_prefix(entry)
    data = entry[block.PREFIX_SIZE :][: header.data_length]
    assert block.crc_is_right(memoryview(entry))
    assert block.hash_is_right(header, data)
    position = header.data_offset - block.PREFIX_SIZE
    head, body = data[: batch.HEADER_SIZE], data[batch.HEADER_SIZE :]
    return block.encode_entry(header.previous_hash, header.timestamp_ns, position, head, body)


def test_index_values() -> None:
    held = index.decode((GOLDEN / "index" / "v1" / "two-blocks.idx").read_bytes())
    assert held is not None
    assert (list(held.offsets), list(held.positions)) == ([0, 1], [segment.SIZE, examples.END_POSITION])
    assert list(held.times) == [UNSTAMPED, examples.APPENDED_NS]
    assert held.header.records == held.header.end_offset == 3


def test_mark_values() -> None:
    held = mark.decode((GOLDEN / "durable-mark" / "v1" / "open.mark").read_bytes())
    assert held == (False, 999_999_999, 2**34, 2**63 - 1, b"\xee" * 32)


def test_chain_values() -> None:
    held = chain.decode((GOLDEN / "chain" / "v1" / "non-ascii.json").read_bytes())
    assert held == (b"\xff" * 8, 'bestellungen/größe "7"', 0)
