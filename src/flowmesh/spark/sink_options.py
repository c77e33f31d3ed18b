"""The options of writing with `format("flowmesh")`, parsed into a plan that travels to the tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from flowmesh.format.batch import Codec
from flowmesh.spark.errors import Condition, FlowMeshSparkError, bad_option
from flowmesh.spark.options import (
    CONNECTION,
    READING,
    NodeAccess,
    Option,
    StreamName,
    checked,
    choice,
    node_access,
    stream_name,
    text,
)

WRITING = (
    Option(
        "valueFormat", choice("raw", "json"), "raw", "`json` makes one JSON object of all columns but the known ones."
    ),
    Option("compression", choice("none", "zstd"), "none", "How batches are packed, on the wire and on disk."),
    Option("replay", choice("rows", "count"), "rows", "How rows that an earlier attempt stored are told: see below."),
    Option("writeId", text, None, "A name for a batch write: the same write under the same name is stored once."),
)
_OF_SPARK = frozenset({"checkpointlocation"})
"""Options that Spark itself is given, and passes on."""
_CODECS = {"none": Codec.NONE, "zstd": Codec.ZSTD}


class SinkPlan(NamedTuple):
    """Where rows go and how; the same for all tasks of a write."""

    stream: StreamName
    node: NodeAccess
    as_json: bool
    codec: Codec
    by_rows: bool
    """Rows of an earlier attempt are found by what they hold; otherwise they are counted."""
    write_id: str | None

    @property
    def where(self) -> str:
        return f"stream {self.stream}"


def sink_plan(options: Mapping[str, str], *, overwrite: bool, streaming: bool) -> SinkPlan:
    given = {name: value for name, value in options.items() if name.lower() not in _OF_SPARK}
    values = checked(given, (*CONNECTION, *WRITING), others=READING)
    stream, node = stream_name(values), node_access(values)
    if stream is None:
        raise bad_option("stream", "it is missing.", "Give it, or the argument of save() or start().")
    if node is None:
        raise bad_option("url", "it is missing.", "Give it, or set FLOWMESH_URL: writing takes a running node.")
    if overwrite:
        raise FlowMeshSparkError(
            Condition.BAD_OPTION,
            f"stream {stream}: a stream is only ever appended to.",
            option="mode",
            hint='Write with .mode("append"), or as a query with .outputMode("append") or "update".',
        )
    if streaming and values["writeId"] is not None:
        raise bad_option("writeId", "it is for batch writes.", "A query has its name from its checkpoint.")
    by_rows = values["replay"] == "rows"
    return SinkPlan(
        stream, node, values["valueFormat"] == "json", _CODECS[values["compression"]], by_rows, values["writeId"]
    )
