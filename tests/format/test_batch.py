"""The batch header, its stamp and its codec; limits hold before memory is taken."""

import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from flowmesh.base.errors import BadRequest, CorruptData, TooLarge, UnsupportedVersion
from flowmesh.base.limits import BATCH_BYTES_DECODED_MAX, BATCH_BYTES_MAX, BATCH_RECORDS_MAX, MIB
from flowmesh.base.times import UNSTAMPED
from flowmesh.format import batch, columns
from tests.format.damage import I64, OFFSETS, STAMPS, U32, U64, truncations
from tests.format.examples import RECORDS_STORED

PRODUCERS = st.builds(batch.Producer, U64, U32, U64)


def stored(body: bytes, **changes: Any) -> bytes:
    """A foreign batch around `body`, with header fields as told."""
    header = batch.foreign(b"", 1).header._replace(base_time_ns=0, max_time_ns=0, body_bytes=len(body), **changes)
    return batch.HEADER.pack(*header) + body


def peak_bytes(act: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        act()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@given(st.binary(max_size=200), st.integers(1, BATCH_RECORDS_MAX), PRODUCERS, U32, st.sampled_from(batch.Codec))
def test_round_trip(body: bytes, count: int, producer: batch.Producer, schema: int, codec: batch.Codec) -> None:
    made = batch.make(body, count=count, producer=producer, schema_version=schema, codec=codec)
    data = batch.stamp(made.header, 10, 2, 99) + made.body
    assert len(data) == made.size
    held = batch.decode(data)
    assert held.header == made.header._replace(base_offset=10, leader_epoch=2, base_time_ns=99, max_time_ns=99)
    assert held.header.end_offset == 10 + count
    assert batch.unpacked_body(held) == body


@given(OFFSETS, U32, STAMPS, I64, I64)
def test_stamp_puts_in_what_only_the_log_knows(offset: int, epoch: int, now: int, base: int, latest: int) -> None:
    header = batch.foreign(b"x", 1, base_time_ns=base, max_time_ns=latest).header
    stamped = batch.decode_header(batch.stamp(header, offset, epoch, now))
    times = (now, now) if base == UNSTAMPED else (base, latest)
    assert stamped == header._replace(
        base_offset=offset, leader_epoch=epoch, base_time_ns=times[0], max_time_ns=times[1]
    )


@pytest.mark.parametrize("count", [-1, 0, BATCH_RECORDS_MAX + 1])
def test_a_batch_of_no_or_too_many_records_is_not_made(count: int) -> None:
    with pytest.raises(BadRequest):
        batch.make(b"", count=count)


def test_a_batch_over_the_limits_is_not_made() -> None:
    with pytest.raises(TooLarge):
        batch.make(bytes(BATCH_BYTES_MAX - batch.HEADER_SIZE + 1), count=1)
    with pytest.raises(TooLarge):
        batch.make(bytes(BATCH_BYTES_DECODED_MAX + 1), count=1, codec=batch.Codec.ZSTD)


@pytest.mark.parametrize("version", [0, 2, 255])
def test_an_unknown_version_is_refused_as_such(version: int) -> None:
    with pytest.raises(UnsupportedVersion):
        batch.decode(stored(b"x", version=version))


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": 3},
        {"codec": 2},
        {"flags": 32},
        {"count": 0},
        {"count": BATCH_RECORDS_MAX + 1},
        {"base_offset": 2**64 - 1},
        {"base_offset": 2**63 - 1},
    ],
)
def test_an_impossible_header_is_refused(changes: dict[str, int]) -> None:
    with pytest.raises(CorruptData):
        batch.decode(stored(b"x", **changes))


def test_the_last_offset_there_is_can_be_used() -> None:
    assert batch.decode(stored(b"x", base_offset=2**63 - 2)).header.end_offset == 2**63 - 1


def test_every_truncation_is_refused() -> None:
    for part in truncations(RECORDS_STORED):
        with pytest.raises(CorruptData):
            columns.check(batch.decode(part))
        if len(part) < batch.HEADER_SIZE:
            with pytest.raises(CorruptData):
                batch.decode_header(part)


def test_a_plain_body_of_another_size_is_refused() -> None:
    for data in (stored(b"body")[:-1], stored(b"body") + b"x"):
        with pytest.raises(CorruptData):
            batch.unpacked_body(batch.decode(data))


def test_every_truncation_and_extension_of_a_frame_is_refused() -> None:
    made = batch.make(b"body" * 9, count=1, codec=batch.Codec.ZSTD)
    frame = bytes(made.body)
    for body in (*truncations(frame), frame + b"x", frame + frame):
        with pytest.raises(CorruptData):
            batch.unpacked_body(batch.Batch(made.header, body))


def test_a_frame_without_its_size_is_refused() -> None:
    frame = zstandard.ZstdCompressor(write_content_size=False).compress(b"body")
    header = batch.make(b"body", count=1, codec=batch.Codec.ZSTD).header
    with pytest.raises(CorruptData):
        batch.unpacked_body(batch.Batch(header, frame))


def test_a_claim_of_a_huge_body_costs_nothing() -> None:
    def act() -> None:
        with pytest.raises(CorruptData):
            batch.decode(stored(b"x")[:60] + b"\xff\xff\xff\xff" + b"x")
        with pytest.raises(CorruptData):
            columns.decode(batch.decode(huge_count))

    huge_count = stored(b"x", kind=batch.BatchKind.RECORDS, flags=31, count=BATCH_RECORDS_MAX)
    assert peak_bytes(act) < MIB


def test_a_zstd_bomb_that_lies_about_its_size_costs_nothing() -> None:
    bomb = zstandard.ZstdCompressor().compress(bytes(64 * MIB))
    assert len(bomb) < MIB

    def act() -> None:
        for claimed in (4, 64 * MIB - 1, 64 * MIB + 1):
            header = batch.make(b"", count=1, codec=batch.Codec.ZSTD).header._replace(body_bytes=claimed)
            with pytest.raises(CorruptData):
                batch.unpacked_body(batch.Batch(header, bomb))

    assert peak_bytes(act) < MIB


def test_a_zstd_bomb_whose_frame_lies_stops_at_its_claim() -> None:
    """Header and frame agree on a small size; the frame's blocks hold more."""
    bomb = bytearray(zstandard.ZstdCompressor().compress(bytes(64 * MIB)))
    # The frame states its size in 4 bytes; nothing but those is changed.
    assert zstandard.get_frame_parameters(bytes(bomb)).content_size == 64 * MIB
    at = bomb.index((64 * MIB).to_bytes(4, "little"))
    bomb[at : at + 4] = (128 * 1024).to_bytes(4, "little")
    header = batch.make(b"", count=1, codec=batch.Codec.ZSTD).header._replace(body_bytes=128 * 1024)

    def act() -> None:
        with pytest.raises(CorruptData):
            batch.unpacked_body(batch.Batch(header, bytes(bomb)))

    assert peak_bytes(act) < MIB
