"""The settings of a node: one frozen value, each field with its meaning and its bounds. Where they come from is
`settings_sources`."""

from __future__ import annotations

import dataclasses
import math
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any, NamedTuple

from flowmesh.base.errors import BadRequest
from flowmesh.base.limits import DISK_RESERVE_BYTES_DEFAULT

PREFIX = "FLOWMESH_"
_RULE = "rule"
_PORT_MAX = 65_535


class Rule(NamedTuple):
    """What a setting means, and which values it takes."""

    meaning: str
    least: float = -math.inf
    most: float = math.inf
    choices: tuple[str, ...] = ()

    def fault(self, value: object) -> str | None:
        """What is wrong with a value of the right type, or None."""
        if self.choices and value not in self.choices:
            return f"is {value!r}; it is one of {', '.join(self.choices)}"
        if isinstance(value, int | float) and not self.least <= value <= self.most:
            return f"is {value}; it goes from {self.least:g} to {self.most:.15g}"
        if isinstance(value, str) and (not value or "\0" in value):
            return "is empty" if not value else "holds a zero byte"
        return None


def _setting(default: object, meaning: str, least: float = -math.inf, most: float = math.inf) -> Any:
    return field(default=default, metadata={_RULE: Rule(meaning, least, most)})


def _choice(default: str, meaning: str, *choices: str) -> Any:
    return field(default=default, metadata={_RULE: Rule(meaning, choices=choices)})


@dataclass(frozen=True, slots=True)
class Settings:
    data_dir: str = _setting(
        "./flowmesh-data", "Where the node keeps everything. Made when missing, readable by its owner alone."
    )
    host: str = _setting("127.0.0.1", "The address to listen on. Any other than loopback needs TLS.")
    http_port: int = _setting(7400, "Port of HTTP: JSON, NDJSON, SSE, metrics. 0 takes a free one.", 0, _PORT_MAX)
    frames_port: int = _setting(7401, "Port of frames, which the SDK speaks. 0 takes a free one.", 0, _PORT_MAX)
    tls_certificate: str | None = _setting(
        None, "A PEM file with the chain of certificates. With it both wires speak TLS, and nothing else."
    )
    tls_key: str | None = _setting(None, "A PEM file with the private key of the certificate.")
    reader_threads: int = _setting(4, "Threads for reads that have to ask the disk.", 1, 64)
    retention_interval_s: float = _setting(30.0, "Seconds from one round of retention to the next.", 0.01, 86_400)
    drain_timeout_s: float = _setting(
        10.0, "Seconds that a stopping node waits for requests that are under way.", 0, 3_600
    )
    disk_reserve_bytes: int = _setting(
        DISK_RESERVE_BYTES_DEFAULT, "Appends and new streams are refused when less than this is free.", 0, 2**62
    )
    archive_location: str | None = _setting(
        None,
        "Where streams are archived: a directory or a URL that Spark knows. Each gets `tenant/namespace/name` in it.",
    )
    archive_streams: str = _setting(
        "*", "Which streams are archived: patterns of `tenant/namespace/name`, divided by commas."
    )
    archive_interval_s: float = _setting(
        3600.0, "Seconds from the end of one archive run to the next. The first begins with the node.", 1, 2_592_000
    )
    archive_master: str | None = _setting(None, "The Spark that archives, as a master URL. Else one on this machine.")
    archive_token_file: str | None = _setting(
        None, "A file with the token for archive runs. Else the administrator's first one."
    )
    log_level: str = _choice("info", "The least severe messages that are logged.", "debug", "info", "warning", "error")
    log_format: str = _choice(
        "text", "How log lines look on standard error; `json` is one object a line.", "text", "json"
    )


RULES: Mapping[str, Rule] = {item.name: item.metadata[_RULE] for item in dataclasses.fields(Settings)}
DEFAULTS = Settings()


def flag_of(name: str) -> str:
    return "--" + name.replace("_", "-")


def variable_of(name: str) -> str:
    return PREFIX + name.upper()


def require_safe(settings: Settings) -> None:
    """Refuses what would put the node at risk although each setting by itself is right."""
    if (settings.tls_certificate is None) != (settings.tls_key is None):
        missing, given = ("tls_key", "tls_certificate") if settings.tls_key is None else ("tls_certificate", "tls_key")
        raise BadRequest(f"{given} is set and {missing} is not; TLS needs both.", field=missing)
    if settings.tls_certificate is None and not is_loopback(settings.host):
        raise BadRequest(
            f"host {settings.host!r} can be reached from other machines, and there is no TLS.",
            field="host",
            hint="Set tls_certificate and tls_key, or listen on 127.0.0.1 behind a proxy that speaks TLS.",
        )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach that address. A name counts by all the addresses it has."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        pass
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise BadRequest(f"host {host[:80]!r} is no address of this machine: {error}.", field="host")
    return all(ip_address(str(address[4][0]).partition("%")[0]).is_loopback for address in found)
