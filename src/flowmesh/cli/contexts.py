"""Nodes that were logged in to, each under a name: a YAML file that its owner alone can read."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import msgspec
import yaml

from flowmesh.base.errors import BadRequest, NotFound
from flowmesh.cli.group import complain
from flowmesh.host.secrets import write_secret

FILE_VARIABLE = "FLOWMESH_CONTEXTS"
DEFAULT_NAME = "default"
_OTHERS_MODE = stat.S_IRWXG | stat.S_IRWXO


class NodeContext(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A node, how to get into it, and which tenant and namespace a bare name means."""

    url: str
    token: str
    ca_file: str | None = None
    tenant: str = "default"
    namespace: str = "default"


class Contexts(msgspec.Struct, forbid_unknown_fields=True):
    current: str | None = None
    contexts: dict[str, NodeContext] = msgspec.field(default_factory=dict)

    def find(self, name: str) -> NodeContext:
        found = self.contexts.get(name)
        if found is None:
            known = ", ".join(sorted(self.contexts)) or "none yet"
            raise NotFound(
                f"there is no context {name[:80]!r}; there are: {known}.",
                field="context",
                hint=f"Make it with 'flowmesh login --url … --name {name[:80]}'.",
            )
        return found


def place() -> Path:
    named = os.environ.get(FILE_VARIABLE)
    if named:
        return Path(named)
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "flowmesh" / "contexts.yaml"


def load() -> Contexts:
    file = place()
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        return Contexts()
    if file.stat().st_mode & _OTHERS_MODE:
        complain(f"warning: {file} holds tokens and can be read by others; 'chmod 600' it.")
    try:
        found: Any = yaml.safe_load(data) or {}
        return msgspec.convert(found, Contexts)
    except (yaml.YAMLError, UnicodeDecodeError, msgspec.ValidationError) as error:
        why = " ".join(str(error).split())
        raise BadRequest(f"{file} is no file of contexts: {why}.", hint="Mend it, or remove it and log in again.")


def save(contexts: Contexts) -> Path:
    file = place()
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    text: str = yaml.safe_dump(msgspec.to_builtins(contexts), sort_keys=False, allow_unicode=True)
    write_secret(file, text.rstrip("\n"))
    return file
