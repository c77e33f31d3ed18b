"""The small log of the format pages: a chain, a segment, a block and the files beside them. Values, then bytes."""

from array import array

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from flowmesh.archive import manifest
from flowmesh.base.times import NANOSECONDS, UNSTAMPED
from flowmesh.format import batch, block, chain, checkpoint, columns, floor, frame, index, mark, segment, snapshot

CREATED_NS = 1_767_225_600 * NANOSECONDS
"""2026-01-01T00:00:00Z."""
APPENDED_NS = CREATED_NS + 1_500_000_000
RECORD_NS = CREATED_NS + 1_000_000_000

CHAIN = chain.checked(bytes(range(1, 9)), "orders/0", CREATED_NS)
SEGMENT = segment.encode(CHAIN.hash, segment.NO_HASH, segment.NO_HASH, 0, CREATED_NS)
SEGMENT_HASH = SEGMENT[-32:]

VALUES = [b"paid", None]
KEYS = [b"a", b"b"]
HEADERS = [[(b"n", b"1")], []]
TIMES_NS = [RECORD_NS, RECORD_NS + 5]
RECORDS = columns.encode(VALUES, keys=KEYS, headers=HEADERS, times_ns=TIMES_NS, producer=batch.Producer(7, 1, 42))
RECORDS_STORED = batch.stamp(RECORDS.header, 1, 3, APPENDED_NS) + bytes(RECORDS.body)
"""Appended at offset 1 under leader epoch 3."""

FOREIGN = batch.foreign(b"hi", 1)
FOREIGN_STORED = batch.stamp(FOREIGN.header, 0, 0, APPENDED_NS) + b"hi"

ENTRY = block.encode_entry(
    SEGMENT_HASH, APPENDED_NS, segment.SIZE, FOREIGN_STORED[: batch.HEADER_SIZE], FOREIGN_STORED[batch.HEADER_SIZE :]
)
BLOCK_HASH = ENTRY[block.HASH]
END_POSITION = segment.SIZE + len(ENTRY)

INDEX_HEADER = index.IndexHeader(SEGMENT_HASH, END_POSITION, 1, BLOCK_HASH, APPENDED_NS, APPENDED_NS, 1, 1)
INDEX_COLUMNS = array("Q", [0]), array("Q", [segment.SIZE]), array("q", [UNSTAMPED])
INDEX = index.encode(INDEX_HEADER, *INDEX_COLUMNS)

MARK = mark.DurableMark(True, 1, END_POSITION, 1, BLOCK_HASH)
FLOOR = floor.Floor(2, 1, SEGMENT_HASH.hex(), BLOCK_HASH.hex())

SNAPSHOT = snapshot.Snapshot(1, CHAIN.hash, 1, BLOCK_HASH, b"\x80")

SIGNING_KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
CHECKPOINT = checkpoint.sign(SIGNING_KEY, CHAIN.hash, 1, BLOCK_HASH, APPENDED_NS)

REQUEST_HEADER = msgspec.msgpack.encode({"tenant": "acme", "namespace": "shop", "name": "orders", "key": b"a"})
FRAME = frame.encode(frame.FrameKind.REQUEST, 21, 7, REQUEST_HEADER, b"paid", flags=frame.FrameFlag.MERGE)

ARCHIVED_FILE = manifest.ArchivedFile(
    "p00000-0000000000000000000-0000000000000000001-" + CHAIN.hash[:4].hex() + ".parquet",
    0, 1, 1, 1_180, "ab" * 32, APPENDED_NS, APPENDED_NS, SEGMENT_HASH.hex(), BLOCK_HASH.hex(),
)  # fmt: skip
ARCHIVED_SEGMENT = manifest.ArchivedSegment(1, SEGMENT_HASH.hex(), CREATED_NS, 0, 1, BLOCK_HASH.hex())
MANIFEST = manifest.Manifest(
    1,
    manifest.NO_PREVIOUS,
    APPENDED_NS,
    "acme/shop/orders",
    (
        manifest.ArchivedPartition(
            0,
            CHAIN.local_id.hex(),
            CHAIN.name,
            CHAIN.created_ns,
            segment.NO_HASH.hex(),
            segment.NO_HASH.hex(),
            (ARCHIVED_SEGMENT,),
            (ARCHIVED_FILE,),
        ),
    ),
)

STORED: dict[str, bytes] = {
    "archive-manifest": manifest.encode(MANIFEST),
    "segment": SEGMENT,
    "entry": ENTRY,
    "block": ENTRY[block.LENGTH.size : block.PREFIX_SIZE],
    "batch": RECORDS_STORED,
    "index": INDEX,
    "durable-mark": mark.encode(MARK),
    "chain": chain.encode(CHAIN),
    "floor": floor.encode(FLOOR),
    "checkpoint": checkpoint.encode(CHECKPOINT),
    "frame": FRAME,
    "snapshot": snapshot.encode(SNAPSHOT),
}
"""The example of each format page, as the encoder writes it."""
