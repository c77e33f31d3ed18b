"""A YAML file as a `PipelineSpec`. Whatever is wrong with its shape is said with the field where it is wrong."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml
from msgspec import inspect

from flowmesh.base.errors import BadRequest, NotFound
from flowmesh.base.limits import MIB
from flowmesh.pipelines.checks import check
from flowmesh.pipelines.spec import PipelineSpec

T = TypeVar("T", bound=msgspec.Struct)
FILE_BYTES_MAX = MIB
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_NEAR = 0.6
_MERGE = "tag:yaml.org,2002:merge"
_TIMESTAMP = "tag:yaml.org,2002:timestamp"


class _Loader(yaml.SafeLoader):
    """Times stay text, and a key that is there twice is an error: YAML itself would take the last one in silence."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.tag != _MERGE and isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"there are two entries {key.value!r}", key.start_mark
                    )
                seen.add(key.value)
        return super().construct_mapping(node, deep)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in found if tag != _TIMESTAMP]
    for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def load(file: Path) -> Any:
    """What the file holds, as plain dictionaries and lists; nothing of it is checked."""
    try:
        with file.open("rb") as stream:
            data = stream.read(FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        raise NotFound(f"there is no file {file}.", field="file")
    except OSError as error:
        raise BadRequest(f"{file} cannot be read: {error.strerror or error}.", field="file")
    if len(data) > FILE_BYTES_MAX:
        raise BadRequest(f"{file} has more than {FILE_BYTES_MAX} bytes; that is no pipeline.", field="file")
    try:
        return yaml.load(data, _Loader)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"{file} is not YAML: {' '.join(str(error).split())}.", field="file")


def parse(found: Any, environment: Mapping[str, str]) -> PipelineSpec:
    """Checked completely, as far as that can be done without Spark and without a node."""
    spec = shaped(PipelineSpec, _expanded(found, environment, ""), "")
    check(spec)
    return spec


# --- variables ----------------------------------------------------------------------------------------------------


def _expanded(value: Any, environment: Mapping[str, str], place: str) -> Any:
    if isinstance(value, dict):
        return {key: _expanded(each, environment, _below(place, key)) for key, each in value.items()}
    if isinstance(value, list):
        return [_expanded(each, environment, f"{place}[{number}]") for number, each in enumerate(value)]
    if not isinstance(value, str):
        return value

    def replaced(match: re.Match[str]) -> str:
        known: str | None = environment.get(match[1], match[2])
        if known is None:
            hint = f"Set it, or write ${{{match[1]}:-…}} with what holds without it."
            raise BadRequest(f"{place}: there is no variable {match[1]}.", field=place, hint=hint)
        return known

    return _VARIABLE.sub(replaced, value)


# --- shape --------------------------------------------------------------------------------------------------------


def shaped(kind: type[T], value: Any, place: str) -> T:
    """`value` as a struct. Errors name the place as a path through the file."""
    made: T = _struct(inspect.type_info(kind), value, place)
    return made


def _struct(kind: inspect.Type, value: Any, place: str) -> Any:
    assert isinstance(kind, inspect.StructType)
    known = {each.encode_name: each for each in kind.fields}
    if not isinstance(value, dict):
        raise _wrong(place, f"this has to be entries, one 'name: value' a line; it is {_shown(value)}.")
    for key in value:
        if key not in known:
            near = difflib.get_close_matches(str(key).replace("-", "_").lower(), known, 1, _NEAR)
            hint = f"Did you mean '{near[0]}'?" if near else f"There are {', '.join(known)}."
            raise _wrong(_below(place, key), "there is no such field.", hint)
    given = {}
    for name, each in known.items():
        if name in value and not (value[name] is None and not each.required):
            given[name] = _typed(each.type, value[name], _below(place, name))
        elif each.required:
            raise _wrong(_below(place, name), "it is missing.", _meaning(each.type))
    return msgspec.convert(given, kind.cls)


def _typed(kind: inspect.Type, value: Any, place: str) -> Any:
    """Goes down to where structs end; those above are made of what is already right."""
    kind = _bare(kind)
    if isinstance(kind, inspect.StructType):
        return _struct(kind, value, place)
    if isinstance(kind, inspect.ListType):
        if not isinstance(value, list):
            raise _wrong(place, f"this has to be a list; it is {_shown(value)}.", "Begin each entry with '- '.")
        return [_typed(kind.item_type, each, f"{place}[{number}]") for number, each in enumerate(value)]
    if isinstance(kind, inspect.DictType):
        if not isinstance(value, dict):
            raise _wrong(place, f"this has to be entries, one 'name: value' a line; it is {_shown(value)}.")
        for key in value:
            if not isinstance(key, str):
                raise _wrong(_below(place, key), f"a name has to be text; it is {_shown(key)}.", "Put it into quotes.")
        return {key: _typed(kind.value_type, each, _below(place, key)) for key, each in value.items()}
    return _scalar(kind, value, place)


def _scalar(kind: inspect.Type, value: Any, place: str) -> Any:
    if isinstance(kind, inspect.LiteralType):
        if value not in kind.values:
            raise _wrong(place, f"it is {_shown(value)}.", f"It can be {', '.join(map(str, kind.values))}.")
    elif isinstance(kind, inspect.StrType):
        if not isinstance(value, str):
            raise _wrong(place, f"this has to be text; it is {_shown(value)}.", "Put it into quotes.")
    elif isinstance(kind, inspect.BoolType):
        if not isinstance(value, bool):
            raise _wrong(place, f"this has to be true or false; it is {_shown(value)}.")
    elif not isinstance(value, str | int | float):
        raise _wrong(place, f"this has to be text, a number, true or false; it is {_shown(value)}.")
    return value


def _bare(kind: inspect.Type) -> inspect.Type:
    """Without its description and without `None`; options may be of several plain types, and stay as they are."""
    if isinstance(kind, inspect.Metadata):
        return _bare(kind.type)
    if isinstance(kind, inspect.UnionType):
        others = [each for each in kind.types if not isinstance(each, inspect.NoneType)]
        return _bare(others[0]) if len(others) == 1 else kind
    return kind


def _meaning(kind: inspect.Type) -> str | None:
    schema = kind.extra_json_schema if isinstance(kind, inspect.Metadata) else None
    return schema.get("description") if schema else None


def _below(place: str, key: object) -> str:
    return f"{place}.{key}" if place else str(key)


def _shown(value: Any) -> str:
    names = {dict: "a group of entries", list: "a list", type(None): "empty"}
    return names.get(type(value), repr(value)[:60])


def _wrong(place: str, message: str, hint: str | None = None) -> BadRequest:
    return BadRequest(f"{place or 'the file'}: {message}", field=place or "file", hint=hint)
