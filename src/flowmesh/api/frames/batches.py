"""Batches that clients encoded: nothing of them is believed until it has been checked here."""

from __future__ import annotations

from itertools import pairwise

from flowmesh.base.buffers import Buffer
from flowmesh.base.errors import BadRequest, CorruptData, TooLarge
from flowmesh.base.limits import KIB, RECORD_BYTES_MAX, REQUEST_BYTES_MAX, REQUEST_RECORDS_MAX
from flowmesh.format import batch as batches
from flowmesh.format import columns
from flowmesh.format.batch import Batch, BatchKind, Codec

_HEAVY_BYTES = 512 * KIB
_CODEC_POSITION = 2


def is_heavy(body: Buffer) -> bool:
    """Whether checking would keep the loop from others: it takes long, or the batch has to be unfolded."""
    return len(body) > _HEAVY_BYTES or (len(body) > _CODEC_POSITION and body[_CODEC_POSITION] != Codec.NONE)


def checked_batch(body: Buffer) -> Batch:
    """A batch that any reader may be given. Offset and leader epoch are whatever: the log puts in its own."""
    try:
        found = batches.decode(body)
        header = found.header
        if header.kind != BatchKind.RECORDS:
            raise BadRequest("only batches of records can be appended.", field="kind")
        if header.count > REQUEST_RECORDS_MAX or header.body_bytes > REQUEST_BYTES_MAX:
            raise TooLarge(
                f"a batch of {header.count} records and {header.body_bytes} bytes is over the limit of "
                f"{REQUEST_RECORDS_MAX} records or {REQUEST_BYTES_MAX} bytes.",
                field="records",
            )
        values = columns.check(found).values
    except CorruptData as error:
        raise BadRequest(f"this is no batch: {error.message}", hint="See docs/formats/batch.md.") from error
    if len(values.data) > RECORD_BYTES_MAX:
        bounds = values.offsets.tolist()
        if max(after - before for before, after in pairwise(bounds)) > RECORD_BYTES_MAX:
            raise TooLarge(f"a record is over the limit of {RECORD_BYTES_MAX} bytes.", field="value")
    return found
