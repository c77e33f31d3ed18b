"""How a record is shown: as its value, with its columns before it, or as a line of JSON. For logs and streams alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

from flowmesh.base.times import to_text

if TYPE_CHECKING:
    from flowmesh.format.columns import Columns, Record


def show(
    out: BinaryIO, columns: Columns, low: int, high: int, *, as_json: bool, verbose: bool, partition: int | None = None
) -> None:
    """The rows from `low` to before `high`. In JSON those of a stream say which partition their offsets count in."""
    if as_json:
        from flowmesh.cli.ndjson import as_lines

        out.write(as_lines(columns.records()[low:high], partition))
    elif verbose:
        out.write(b"".join([_with_columns(record) for record in columns.records()[low:high]]))
    elif low < high:
        out.write(b"\n".join(columns.values.items()[low:high]) + b"\n")


def _with_columns(record: Record) -> bytes:
    # A key is escaped, because a tab or a line feed in it would move everything behind it.
    key = "-" if record.key is None else record.key.decode("utf-8", "backslashreplace")
    key = key if key.isprintable() else key.encode("unicode_escape").decode()
    return f"{record.offset}\t{to_text(record.time_ns)}\t{key}\t".encode() + (record.value or b"") + b"\n"
