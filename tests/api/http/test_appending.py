"""What an append answers when its partitions do not agree, and which records may share a batch with others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from flowmesh.api.http import appending
from flowmesh.api.http.bounds import MERGED_BYTES_MAX
from flowmesh.api.http.record_forms import RecordRow
from flowmesh.base.errors import DiskFull, ErrorCode, FlowMeshError, OffsetOutOfRange
from flowmesh.base.limits import BATCH_BYTES_MAX, CONNECTIONS_MAX
from flowmesh.node.partition import AppendReply

OPENED: Any = SimpleNamespace(stream=SimpleNamespace(settings=SimpleNamespace(durability="batch")))
STORED = AppendReply(5, 8, 0)


def test_when_all_are_stored_each_is_named() -> None:
    found = appending._appended(OPENED, [(0, STORED), (3, AppendReply(0, 1, 0, repeated=True))])
    assert [(done.partition, done.base_offset, done.end_offset, done.repeated) for done in found.appends] == [
        (0, 5, 8, False),
        (3, 0, 1, True),
    ]


def test_when_none_is_stored_the_first_refusal_is_the_answer() -> None:
    full = DiskFull("no room.")
    with pytest.raises(DiskFull) as raised:
        appending._appended(OPENED, [(0, full), (1, DiskFull("none here either."))])
    assert raised.value is full


@pytest.mark.parametrize("refusal", [DiskFull("no room."), OffsetOutOfRange(1, 2, 3)])
def test_when_some_are_stored_the_refusal_says_which(refusal: FlowMeshError) -> None:
    with pytest.raises(FlowMeshError) as raised:
        appending._appended(OPENED, [(0, STORED), (1, refusal)])
    assert raised.value.code in (ErrorCode.DISK_FULL, ErrorCode.OFFSET_OUT_OF_RANGE)
    assert raised.value.code is refusal.code
    assert "partition 1: " in raised.value.message
    assert raised.value.message.endswith("Stored all the same: partition 0 [5, 8).")


def test_records_that_share_a_batch_fit_into_it_however_many_come_at_once() -> None:
    beside_the_bytes = 32
    assert CONNECTIONS_MAX * (MERGED_BYTES_MAX + beside_the_bytes) < BATCH_BYTES_MAX
    assert appending._may_be_merged(RecordRow(b"v" * MERGED_BYTES_MAX))
    assert not appending._may_be_merged(RecordRow(b"v" * MERGED_BYTES_MAX, b"k"))
    assert not appending._may_be_merged(RecordRow(b"", None, ((b"n" * 1000, b"c" * MERGED_BYTES_MAX),)))
    many = cast(Any, tuple((b"", b"") for _ in range(MERGED_BYTES_MAX // 8 - 1)))
    with pytest.raises(FlowMeshError):
        appending._may_be_merged(RecordRow(b"v" * 100, None, many * 3))
