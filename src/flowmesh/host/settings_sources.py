"""Where settings come from: flags over environment over a YAML file over defaults. Every error names its source."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from flowmesh.base.errors import BadRequest, FlowMeshError
from flowmesh.base.limits import MIB
from flowmesh.base.sizes import size_from_text
from flowmesh.host.settings import DEFAULTS, PREFIX, RULES, Settings, flag_of, variable_of

NOT_SETTINGS = frozenset({"CONFIG", "CONTEXT", "CONTEXTS", "URL", "TOKEN", "TOKEN_FILE", "CA_FILE"})
"""Variables of the command line itself, which no node reads."""
FILE_BYTES_MAX = MIB
_NEAR = 0.75
"""How alike a name has to be to be taken for a misspelt one (difflib's ratio)."""
_TYPES = {item.name: str(item.type).removesuffix(" | None") for item in dataclasses.fields(Settings)}
_WORDS = {"int": "a whole number", "float": "a number", "str": "text"}


class Gathered(NamedTuple):
    settings: Settings
    sources: Mapping[str, str]
    """Where each setting was said: `--http-port`, `FLOWMESH_HTTP_PORT`, `flowmesh.yaml`, or `default`."""
    ignored: tuple[str, ...]
    """Variables that begin like ours and are none of ours: other programs set such ones."""


def gather(flags: Mapping[str, Any], environment: Mapping[str, str], file: str | None) -> Gathered:
    """The effective settings. `flags` holds only those that were given on the command line."""
    values: dict[str, Any] = {}
    sources = dict.fromkeys(RULES, "default")
    said, ignored = _from_environment(environment)
    layers = [
        {name: (value, file or "") for name, value in (_from_file(file) if file is not None else {}).items()},
        {name: (value, variable_of(name)) for name, value in said.items()},
        {name: (value, flag_of(name)) for name, value in flags.items()},
    ]
    for layer in layers:
        for name, (value, source) in layer.items():
            values[name] = _checked(name, value, source)
            sources[name] = source
    return Gathered(Settings(**values), sources, ignored)


def as_yaml(gathered: Gathered) -> str:
    """The effective settings, each with its source: a file that can be given back with `--config`."""
    lines = []
    for name in RULES:
        value = getattr(gathered.settings, name)
        text = yaml.safe_dump({name: value}, default_flow_style=False, allow_unicode=True, width=1 << 20).rstrip()
        lines.append(f"{text}  # {gathered.sources[name]}")
    return "\n".join(lines) + "\n"


def _from_environment(environment: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    said: dict[str, str] = {}
    ignored: list[str] = []
    for variable, text in sorted(environment.items()):
        suffix = variable.removeprefix(PREFIX)
        name = suffix.lower()
        if variable == suffix or suffix in NOT_SETTINGS:
            continue
        if name in RULES and suffix == name.upper():
            said[name] = text
        elif near := difflib.get_close_matches(name, RULES, 1, _NEAR):
            raise BadRequest(
                f"environment: there is no setting {variable}.",
                field=name,
                hint=f"Did you mean {variable_of(near[0])}?",
            )
        else:
            ignored.append(variable)
    return said, tuple(ignored)


def _from_file(place: str) -> dict[str, Any]:
    try:
        with Path(place).open("rb") as stream:
            data = stream.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise BadRequest(f"{place} cannot be read: {error.strerror or error}.", field="config")
    if len(data) > FILE_BYTES_MAX:
        raise BadRequest(f"{place} has more than {FILE_BYTES_MAX} bytes; that is no file of settings.", field="config")
    try:
        found = yaml.safe_load(data)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"{place} is not YAML: {' '.join(str(error).split())}.", field="config")
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise BadRequest(f"{place} holds no settings.", field="config", hint="Write one 'name: value' a line.")
    for key in found:
        if key not in RULES:
            near = difflib.get_close_matches(str(key).replace("-", "_").lower(), RULES, 1, 0.0)
            raise BadRequest(
                f"{place}: there is no setting {str(key)[:80]!r}.", field=str(key), hint=f"Did you mean {near[0]!r}?"
            )
    return found


def _checked(name: str, value: Any, source: str) -> Any:
    place = f"{source}: {name}" if not source.startswith(("--", PREFIX)) else source
    converted = _converted(name, value, place)
    fault = RULES[name].fault(converted)
    if fault is not None:
        raise BadRequest(f"{place} {fault}.", field=name)
    return converted


def _converted(name: str, value: Any, place: str) -> Any:
    kind = _TYPES[name]
    if value is None and getattr(DEFAULTS, name) is None:
        return None
    try:
        if isinstance(value, bool) or value is None:
            raise ValueError
        if kind == "int":
            return _whole(name, value)
        if kind == "float":
            return float(value)
        if isinstance(value, str):
            return value
        raise ValueError
    except (ValueError, TypeError, OverflowError, FlowMeshError):
        word = "a size such as 65536 or 64MiB" if name.endswith("_bytes") else _WORDS[kind]
        raise BadRequest(f"{place} is {str(value)[:80]!r}; it has to be {word}.", field=name)


def _whole(name: str, value: Any) -> int:
    if isinstance(value, int):
        return value
    if not isinstance(value, str):
        raise ValueError
    return size_from_text(value) if name.endswith("_bytes") else int(value)
