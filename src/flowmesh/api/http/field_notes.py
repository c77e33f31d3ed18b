"""What each field of a request means, in a sentence, for the OpenAPI document and the page that shows it.

A field has one meaning wherever it stands; where it has not, the operation is named. A test finds those without a note.
"""

from __future__ import annotations

from flowmesh.access.permissions import Permission
from flowmesh.operations.table import Operation

_LIMIT = "Without it, or as null, there is no limit."
_NOTES: dict[str, str] = {
    "partition": "Which partition; 0 if it is not said.",
    "offset": "Begin at this offset.",
    "time": "Begin at the first record that is not older: ISO 8601, or nanoseconds since 1970.",
    "at": "Begin at `earliest` or `latest`. Say at most one of `offset`, `time` and `at`.",
    "limit": "Records at the most.",
    "bytes_max": "Bytes of values at the most; one record is always given.",
    "wait_ms": "How long to wait when there is nothing yet.",
    "window": "Records that may be under way and not yet acknowledged.",
    "end_offset": "Where the range ends; the end of the log if it is not said.",
    "split_bytes": "How large a piece may be, as stored.",
    "partitions": "How many. They cannot be altered later.",
    "retention_age_ms": f"Records are kept so long; whole segments go. {_LIMIT}",
    "retention_bytes": f"So much is kept of each partition; whole segments go. {_LIMIT}",
    "segment_bytes": "A segment closes at this size; 256 MiB if it is not said.",
    "segment_age_ms": "A segment closes at this age; 7 days if it is not said.",
    "durability": "What an acknowledgement means. `batch`: fsynced, together with others. `always`: fsynced alone. "
    "`interval:<ms>`: written, and a power cut may take the last so many milliseconds.",
    "tenant": "Which tenant; `*` is all of them.",
    "namespaces": "Which namespaces; `*` is all of the tenant.",
    "permissions": f"What it allows: {', '.join(f'`{name}`' for name in Permission)}. `admin` is all of the others.",
    "expires_in_s": "How long it is good; without it, until it is revoked.",
    "description": "What it is for.",
    "overlap_s": "How long the old token stays good beside the new one.",
    "key": "The key of a raw body.",
    "producer_id": "With `first_sequence` and `partition`: sent twice, the request is stored once.",
    "producer_epoch": "A higher one fences off whoever writes with a lower one.",
    "first_sequence": "The number of the first record of this request; the next request goes on after the last.",
    "offsets": "For each partition the next offset to read. Those that are not named stay.",
    "kind": "Who reads: `consumer`, `spark` or `archive`.",
    "hold_s": "What is not read is kept until the node has run so long after this commit; null: nothing is.",
    "location": "Of an archive: where its cold tier lies.",
}
_ELSEWHERE: dict[tuple[str, str], str] = {
    ("stream.append", "partition"): "Where all records go; if it is not said, by their keys, or the next in turn.",
    ("stream.split", "offset"): "Where the range begins; the beginning of the log if it is not said.",
}


def note_on(operation: Operation, name: str) -> str | None:
    return _ELSEWHERE.get((operation.name, name)) or _NOTES.get(name)
