"""POST …/records: a body to rows, rows to partitions, one batch for each, and the answer that says where they went."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import compress
from typing import Any, NamedTuple

import msgspec

from flowmesh.api.http import record_forms
from flowmesh.api.http.bodies import Body, Budget, unfolded
from flowmesh.api.http.bounds import INLINE_BYTES_MAX, MERGED_BYTES_MAX
from flowmesh.api.http.exchange import Exchange
from flowmesh.api.http.gathering import Gathering
from flowmesh.api.http.problems import MediaTypeUnknown
from flowmesh.api.http.record_forms import RecordRow, Rows
from flowmesh.api.http.requests import request_from
from flowmesh.api.http.workers import Workers
from flowmesh.api.service import AppendResult, Service, choose_partition
from flowmesh.base.errors import BadRequest, FlowMeshError
from flowmesh.base.limits import REQUEST_BYTES_MAX
from flowmesh.format import columns
from flowmesh.format.batch import ANONYMOUS, Producer
from flowmesh.node.streams import OpenStream
from flowmesh.operations import messages
from flowmesh.streams.machine import AppendBatch, AppendCommand, AppendRecord
from flowmesh.streams.partitioner import partition_of


class AppendQuery(messages.AppendRecords, frozen=True):
    """What the query of an append may say."""

    key: str | None = None
    """The key of a raw body."""
    producer_id: int | None = None
    """With `producer_epoch`, `first_sequence` and `partition`: makes a repetition of this very request harmless."""
    producer_epoch: int = 0
    first_sequence: int | None = None


PLAIN = AppendQuery("", "", "")
"""A query that says nothing; the address is in the path and was looked at there."""
_HEADER_OVERHEAD = 8
_encode = msgspec.json.Encoder().encode
_ARROW = b"application/vnd.apache.arrow.stream"


class Way(NamedTuple):
    """What every append goes through."""

    service: Service
    gathering: Gathering
    workers: Workers
    budget: Budget


async def append(exchange: Exchange, opened: OpenStream, way: Way) -> None:
    """For a request that was let through to this stream."""
    query = request_from(AppendQuery, _NOWHERE, exchange.query) if exchange.query else PLAIN
    headers = exchange.headers
    decode = _decoder(headers.get(b"content-type"))
    producer = _producer(query)
    with Body(exchange, way.budget) as body:
        data = await body.read(REQUEST_BYTES_MAX)
        encoding = headers.get(b"content-encoding")
        if len(data) <= INLINE_BYTES_MAX and encoding is None:
            found = decode(data, query)
            if type(found) is RecordRow and producer is ANONYMOUS and _may_be_merged(found):
                return await _append_one(exchange, opened, way.gathering, query.partition, found)
            batches = _batches(opened, query, producer, found, way.service.clock.wall_ns())
        else:
            work = _Work(opened, query, producer, decode, encoding, way.service.clock.wall_ns())
            batches = await way.workers.run(work.batches, data)
        await exchange.acknowledge(_encode(await _append_all(opened, way.service, batches)))
    return None


_NOWHERE = {"tenant": "", "namespace": "", "name": ""}


async def _append_one(
    exchange: Exchange, opened: OpenStream, gathering: Gathering, partition: int | None, row: RecordRow
) -> None:
    number = choose_partition(opened, partition, row.key)
    record = AppendRecord(row.value, row.key, row.headers, row.time_ns)
    result = await gathering.append(opened.partitions[number], record)
    await exchange.acknowledge(_encode(_appended(opened, [(number, result)])))


def _may_be_merged(row: RecordRow) -> bool:
    """Whether this record may share a batch with those of other requests: none of them can make it too large."""
    size = len(row.value or b"") + len(row.key or b"")
    if row.headers:
        record_forms.require_headers(row.headers)
        size += sum(len(name) + len(content) + _HEADER_OVERHEAD for name, content in row.headers)
    return size <= MERGED_BYTES_MAX


async def _append_all(
    opened: OpenStream, service: Service, batches: list[tuple[int, AppendCommand]]
) -> messages.AppendReceipt:
    if len(batches) == 1:
        ((number, command),) = batches
        results = [await service.append(opened.partitions[number], (command,))]
    else:
        # Each partition is its own log: what one refuses, another may have taken, and the answer has to say so.
        appends = [service.append(opened.partitions[number], (command,)) for number, command in batches]
        results = await asyncio.gather(*appends)
    return _appended(opened, [(number, found[0]) for (number, _), found in zip(batches, results, strict=True)])


def _appended(opened: OpenStream, results: list[tuple[int, AppendResult]]) -> messages.AppendReceipt:
    appends = []
    refused: tuple[int, FlowMeshError] | None = None
    for number, result in results:
        if isinstance(result, FlowMeshError):
            refused = refused or (number, result)
        else:
            appends.append(
                messages.PartitionAppend(number, result.base_offset, result.end_offset, repeated=result.repeated)
            )
    if refused is None:
        return messages.AppendReceipt(appends, opened.stream.settings.durability)
    number, error = refused
    if not appends:
        raise error
    stored = ", ".join(f"partition {done.partition} [{done.base_offset}, {done.end_offset})" for done in appends)
    # A copy of the class, not of the arguments: some errors are made from numbers, not from words.
    partly = FlowMeshError(f"partition {number}: {error.message} Stored all the same: {stored}.", hint=error.hint)
    partly.code, partly.field = error.code, error.field
    raise partly


# --- from bodies to rows ------------------------------------------------------------------------------------------

Decoder = Callable[[bytes, AppendQuery], RecordRow | Rows]


def _json(data: bytes, query: AppendQuery) -> RecordRow | Rows:
    _require_no_key(query)
    return record_forms.listed(data) if data.lstrip()[:1] == b"[" else record_forms.single(data)


def _ndjson(data: bytes, query: AppendQuery) -> Rows:
    _require_no_key(query)
    return record_forms.lines(data)


def _raw(data: bytes, query: AppendQuery) -> RecordRow:
    return RecordRow(data, None if query.key is None else query.key.encode())


def _arrow(data: bytes, query: AppendQuery) -> Rows:
    _require_no_key(query)
    try:
        from flowmesh.api.http import arrow_bodies
    except ImportError:
        raise MediaTypeUnknown(
            "this node cannot read Arrow: pyarrow is not installed.",
            field="content-type",
            hint="Install 'flowmesh[arrow]' on the node, or send NDJSON.",
        )
    return arrow_bodies.rows(data)


def _require_no_key(query: AppendQuery) -> None:
    if query.key is not None:
        raise BadRequest("'key' in the query is for raw bodies.", field="key", hint="Put it into the record.")


DECODERS: dict[bytes, Decoder] = {
    b"application/json": _json,
    b"application/x-ndjson": _ndjson,
    b"application/octet-stream": _raw,
    _ARROW: _arrow,
}


def _decoder(content_type: bytes | None) -> Decoder:
    known = DECODERS.get(content_type or b"")
    if known is None and content_type is not None:
        known = DECODERS.get(content_type.split(b";", 1)[0].strip().lower())
    if known is None:
        raise MediaTypeUnknown(
            f"a body of type {(content_type or b'')[:60].decode('latin-1')!r} is not understood.",
            field="content-type",
            hint=f"Use {', '.join(name.decode() for name in DECODERS)}.",
        )
    return known


# --- from rows to batches -----------------------------------------------------------------------------------------


class _Work:
    """What a worker thread needs to make batches of a body."""

    def __init__(
        self,
        opened: OpenStream,
        query: AppendQuery,
        producer: Producer,
        decode: Decoder,
        encoding: bytes | None,
        now_ns: int,
    ) -> None:
        self._arguments = (opened, query, producer)
        self._decode, self._encoding, self._now_ns = decode, encoding, now_ns

    def batches(self, data: bytes) -> list[tuple[int, AppendCommand]]:
        opened, query, producer = self._arguments
        found = self._decode(unfolded(data, self._encoding, REQUEST_BYTES_MAX), query)
        return _batches(opened, query, producer, found, self._now_ns)


def _batches(
    opened: OpenStream, query: AppendQuery, producer: Producer, found: RecordRow | Rows, now_ns: int
) -> list[tuple[int, AppendCommand]]:
    rows = record_forms.transposed([found]) if isinstance(found, RecordRow) else found
    record_forms.require_fit(rows)
    shares = _shares(opened, query.partition, rows)
    return [(number, AppendBatch(_encoded(share, producer, now_ns))) for number, share in shares]


def _shares(opened: OpenStream, partition: int | None, rows: Rows) -> list[tuple[int, Rows]]:
    """Which rows go where. All records of a request that have no key go to one partition."""
    if partition is not None or len(opened.partitions) == 1 or rows.keys is None:
        return [(choose_partition(opened, partition, None), rows)]
    count = len(opened.partitions)
    keyless = opened.take_turn() if None in rows.keys else 0
    places = [keyless if key is None else partition_of(key, count) for key in rows.keys]
    return [(number, _taken(rows, [place == number for place in places])) for number in sorted(set(places))]


def _taken(rows: Rows, chosen: list[bool]) -> Rows:
    def take(column: list[Any] | None) -> Any:
        return None if column is None else list(compress(column, chosen))

    return Rows(*map(take, rows))


def _encoded(rows: Rows, producer: Producer, now_ns: int) -> Any:
    times = None
    if rows.times_ns is not None:
        times = [now_ns if time is None else time for time in rows.times_ns]
    return columns.encode(rows.values, keys=rows.keys, headers=rows.headers, times_ns=times, producer=producer)


def _producer(query: AppendQuery) -> Producer:
    if query is PLAIN or (query.producer_id is None and query.first_sequence is None):
        return ANONYMOUS
    if query.producer_id is None or query.first_sequence is None or query.partition is None:
        raise BadRequest(
            "'producer_id', 'first_sequence' and 'partition' belong together.",
            field="producer_id",
            hint="All records of a numbered request go to one partition, and it has to be named.",
        )
    for name, value, most in (
        ("producer_id", query.producer_id, 2**63),
        ("producer_epoch", query.producer_epoch, 2**32),
        ("first_sequence", query.first_sequence, 2**62),
    ):
        if not (1 if name == "producer_id" else 0) <= value < most:
            raise BadRequest(f"{name} is {value}; it goes up to {most - 1}.", field=name)
    return Producer(query.producer_id, query.producer_epoch, query.first_sequence)
