"""The options of `format("flowmesh")`: declared once, checked by name, parsed into values. docs/spark.md lists them.

Spark gives names without their case, so names are compared without it. A name that is not known is refused.
"""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from flowmesh.base import times
from flowmesh.base.errors import BadRequest, FlowMeshError
from flowmesh.base.limits import SPLIT_BYTES_MAX, SPLIT_BYTES_MIN
from flowmesh.base.names import checked_name
from flowmesh.base.sizes import size_from_text
from flowmesh.spark.errors import Condition, FlowMeshSparkError, bad_option

EARLIEST, LATEST = "earliest", "latest"
Bound = str | int
"""`earliest`, `latest` or an offset."""


class Option(NamedTuple):
    name: str
    parse: Callable[[str], Any]
    default: str | None
    meaning: str


class Secret:
    """A token, which shows itself to nobody: not in a plan, not in an error, not in a log."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return "Secret(***)"

    def __reduce__(self) -> tuple[type[Secret], tuple[str]]:
        return Secret, (self._text,)


# --- how values are written ---------------------------------------------------------------------------------------


def text(value: str) -> str:
    if not value.strip():
        raise BadRequest("it is empty.")
    return value.strip()


def choice(*allowed: str) -> Callable[[str], str]:
    def parse(value: str) -> str:
        if value.strip().lower() not in allowed:
            raise BadRequest(f"{value[:40]!r} is none of {', '.join(allowed)}.")
        return value.strip().lower()

    return parse


def flag(value: str) -> bool:
    return choice("true", "false")(value) == "true"


def count(value: str) -> int:
    if not value.strip().isascii() or not value.strip().isdigit() or not 0 < int(value) < 2**62:
        raise BadRequest(f"{value[:40]!r} is not a whole number above 0.")
    return int(value)


def size(value: str) -> int:
    found = size_from_text(value.strip())
    if found < 1:
        raise BadRequest("a size is at least 1 byte.")
    return found


def split_size(value: str) -> int:
    return min(max(size(value), SPLIT_BYTES_MIN), SPLIT_BYTES_MAX)


def duration_ns(value: str) -> int:
    return times.duration_from_text(value.strip())


def names(value: str) -> tuple[str, ...]:
    found = tuple(name.strip().strip("`") for name in value.split(",") if name.strip())
    if not found:
        raise BadRequest("it names nothing.")
    return found


def numbers(value: str) -> tuple[int, ...]:
    try:
        return tuple(sorted({int(number) for number in names(value)}))
    except ValueError:
        raise BadRequest(f"{value[:40]!r} is no list of partitions.", hint="Write 0,3,4.") from None


def bounds(value: str) -> dict[int | None, Bound]:
    """`earliest`, `latest`, or a JSON map of some partitions. Under None stands what holds for all the others."""
    plain = value.strip()
    if plain.lower() in (EARLIEST, LATEST):
        return {None: plain.lower()}
    return {partition: _bound(offset) for partition, offset in _by_partition(plain, "offset").items()}


def _bound(value: Any) -> Bound:
    if isinstance(value, str) and value.lower() in (EARLIEST, LATEST):
        return value.lower()
    if value in (-1, -2):  # as Spark's connector for Kafka writes them
        return LATEST if value == -1 else EARLIEST
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise BadRequest(f"{str(value)[:40]!r} is no offset.", hint='Write a number, "earliest" or "latest".')


def moments(value: str) -> dict[int | None, int]:
    """A time, or a JSON map of times by partition, as nanoseconds. Under None stands what holds for all the others."""
    plain = value.strip()
    if not plain.startswith("{"):
        return {None: times.from_text(plain)}
    return {partition: times.from_text(str(moment)) for partition, moment in _by_partition(plain, "time").items()}


def _by_partition(value: str, kind: str) -> dict[int | None, Any]:
    hint = f'Write a map from partition to {kind}, like {{"0": 12}}; partitions that are left out take the default.'
    try:
        found = json.loads(value)
        return {int(partition): bound for partition, bound in found.items()}
    except (ValueError, AttributeError):
        raise BadRequest(f"{value[:60]!r} is not understood.", hint=hint) from None


# --- the options --------------------------------------------------------------------------------------------------

CONNECTION = (
    Option("url", text, None, "The node: `flowmesh://host:port`, or `flowmeshs://` for TLS. Else `FLOWMESH_URL`."),
    Option("token", Secret, None, "The token. Else `tokenFile`, `FLOWMESH_TOKEN` or `FLOWMESH_TOKEN_FILE`."),
    Option("tokenFile", text, None, "A file with the token, read where it can be seen."),
    Option("caFile", text, None, "The authorities to trust instead of the system's, as PEM."),
    Option(
        "stream", text, None, "`name`, or `tenant/namespace/name`. What is given to `load` or `save` means the same."
    ),
    Option("path", text, None, "What Spark makes of the argument of `load` or `save`: the same as `stream`."),
    Option("tenant", text, "default", "The stream's tenant, where `stream` does not say it."),
    Option("namespace", text, "default", "The stream's namespace, where `stream` does not say it."),
    Option("reconnectTimeout", duration_ns, "2m", "How long a node that is not there is tried again."),
)
READING = (
    Option(
        "dataDir", text, None, "The data directory of a node, or the directory of one log: read files, not the node."
    ),
    Option(
        "archive", text, "auto", "Where the cold tier lies. `auto`: where the node says; `none`: read the log alone."
    ),
    Option("columns", names, None, "The columns wanted, in this order. Others are neither decoded nor sent."),
    Option("valueSchema", text, None, "What the JSON in `value` has, as Spark DDL: typed columns instead of `value`."),
    Option("valueColumn", text, None, "Puts the typed columns into one struct column of this name."),
    Option(
        "badRecords", choice("null", "fail"), "null", "A value that does not fit: nulls and `_error`, or a failure."
    ),
    Option("startingOffsets", bounds, None, '`earliest` (batch), `latest` (stream), or a map like `{"0": 12}`.'),
    Option("endingOffsets", bounds, "latest", "Where a batch ends: `latest`, or a map. Not for streams."),
    Option("startingTimestamp", moments, None, "Begins at the first record that is not older than this time."),
    Option("endingTimestamp", moments, None, "Ends before the first record that is not older. Not for streams."),
    Option("partitions", numbers, None, "Only these partitions, like `0,3`."),
    Option("splitBytes", split_size, None, "How much of a partition one task reads, as stored. Else: see below."),
    Option("lateness", duration_ns, None, "How far behind newer records a record may come; see below. Else: measured."),
    Option("verify", flag, "false", "Computes the hash of every block too, not only checksums and links."),
    Option("onDataLoss", choice("fail", "skip"), "fail", "What happens when records that were asked for are gone."),
    Option("maxRecordsPerTrigger", count, None, "The most records of one micro-batch."),
    Option("maxBytesPerTrigger", size, None, "About the most bytes of one micro-batch, as stored."),
    Option("group", text, None, "Publishes a stream query's position as this group of the stream."),
    Option(
        "hold", duration_ns, None, "Retention keeps what `group` has not read, until so long after it was last seen."
    ),
)
READ_OPTIONS = (*CONNECTION, *READING)


def checked(given: Mapping[str, str], known: Iterable[Option], *, others: Iterable[Option] = ()) -> dict[str, Any]:
    """Parsed values by an option's own name, defaults filled in. `others` are known, and of no use here."""
    by_name = {option.name.lower(): option for option in known}
    elsewhere = {option.name.lower(): option.name for option in others if option.name.lower() not in by_name}
    values = {o.name: o.parse(o.default) if o.default is not None else None for o in by_name.values()}
    for name, value in given.items():
        option = by_name.get(name.lower())
        if option is None:
            raise _unknown(name, by_name, elsewhere)
        try:
            values[option.name] = option.parse(value)
        except FlowMeshError as error:
            raise bad_option(option.name, error.message, error.hint) from None
    return values


def _unknown(name: str, known: Mapping[str, Option], elsewhere: Mapping[str, str]) -> FlowMeshSparkError:
    if name.lower() in elsewhere:
        message = f"option '{elsewhere[name.lower()]}' has no meaning here."
        return FlowMeshSparkError(Condition.UNKNOWN_OPTION, message, option=name)
    close = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    hint = f"Did you mean '{known[close[0]].name}'?" if close else None
    all_names = ", ".join(option.name for option in known.values())
    return FlowMeshSparkError(
        Condition.UNKNOWN_OPTION,
        f"there is no option '{name[:60]}'.",
        option=name,
        hint=hint or f"There are {all_names}.",
    )


# --- which stream, and who asks -----------------------------------------------------------------------------------


class StreamName(NamedTuple):
    tenant: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return "/".join(self)


class NodeAccess(NamedTuple):
    """How to reach a node. It travels to executors inside the query."""

    url: str
    token: Secret | None
    token_file: str | None
    ca_file: str | None
    patience_ns: int

    def token_text(self) -> str:
        """The file is read each time it can be seen, so that a token may be rotated under a running query."""
        if self.token_file is not None and (self.token is None or Path(self.token_file).exists()):
            try:
                return Path(self.token_file).read_text(encoding="utf-8").strip()
            except OSError as error:
                raise bad_option("tokenFile", f"it cannot be read: {error.strerror}.") from None
        if self.token is None:
            hint = "Give option 'token' or 'tokenFile', or set FLOWMESH_TOKEN."
            raise FlowMeshSparkError(Condition.TOKEN_REFUSED, "there is no token.", option="token", hint=hint)
        return self.token.reveal()


def stream_name(values: Mapping[str, Any]) -> StreamName | None:
    """None when the options name no stream."""
    if values["stream"] is not None and values["path"] is not None and values["stream"] != values["path"]:
        raise bad_option("stream", f"it is {values['stream']!r}, and load was given {values['path']!r}.")
    given = values["stream"] or values["path"]
    if given is None:
        return None
    parts = given.split("/")
    if len(parts) not in (1, 3):
        raise bad_option("stream", f"{given[:200]!r} is no name of a stream.", "Write name, or tenant/namespace/name.")
    tenant, namespace = parts[:2] if len(parts) == 3 else (values["tenant"], values["namespace"])
    try:
        checked_name(tenant, "tenant")
        checked_name(namespace, "namespace")
        return StreamName(tenant, namespace, checked_name(parts[-1], "stream"))
    except FlowMeshError as error:
        raise bad_option(error.field or "stream", error.message, error.hint) from None


def node_access(values: Mapping[str, Any]) -> NodeAccess | None:
    """None when no node is named. The token is looked for now, where the query is made, and sent along."""
    url = values["url"] or os.environ.get("FLOWMESH_URL")
    if url is None:
        return None
    token, file = values["token"], values["tokenFile"]
    if token is None and file is None:
        file = os.environ.get("FLOWMESH_TOKEN_FILE")
        variable = os.environ.get("FLOWMESH_TOKEN")
        token = Secret(variable) if variable else None
    ca_file = values["caFile"] or os.environ.get("FLOWMESH_CA_FILE")
    access = NodeAccess(url, token, file, ca_file, values["reconnectTimeout"])
    return access if token is not None else access._replace(token=Secret(access.token_text()))
