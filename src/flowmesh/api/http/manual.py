"""The page at /docs: what there is, made from the same table. One file, no script, nothing fetched from elsewhere."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from html import escape
from typing import Any

from flowmesh.api.http import openapi
from flowmesh.api.http.problems import MEANINGS
from flowmesh.base.version import VERSION
from flowmesh.operations.table import OPERATIONS, Operation

_STYLE = """
:root{color-scheme:light dark;--line:#8884;--quiet:#888}
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
code,pre{font:13px/1.5 ui-monospace,monospace}
h2{margin-top:2.5rem;border-bottom:1px solid var(--line)}
section{padding:.6rem 0;border-bottom:1px solid var(--line)}
section h3{margin:0;font-weight:500}
section p{margin:.2rem 0}
.method{display:inline-block;min-width:4.2em;font-weight:700}
.quiet{color:var(--quiet)}
table{border-collapse:collapse;width:100%}
td,th{text-align:left;vertical-align:top;padding:.25rem .8rem .25rem 0}
"""
_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
POLICY = f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


@cache
def page() -> bytes:
    sections = "".join(map(_section, OPERATIONS))
    errors = "".join(
        f"<tr id={code.value}><td><code>{code.value}</code><td>{meaning.status}<td>{escape(meaning.title)}"
        for code, meaning in MEANINGS.items()
    )
    text = (
        "<!doctype html><html lang=en><meta charset=utf-8>"
        "<meta name=viewport content='width=device-width, initial-scale=1'><title>FlowMesh</title>"
        f"<style>{_STYLE}</style>"
        f"<h1>FlowMesh {escape(VERSION)}</h1>"
        "<p>Every request but those for health and for this page carries <code>Authorization: Bearer id.secret</code>."
        " For programs: <a href=/openapi.json>openapi.json</a>.</p>"
        f"<h2>Operations</h2>{sections}"
        "<h2>Errors</h2><p>A refusal is <code>application/problem+json</code>. Its <code>code</code> never changes"
        " its meaning; its words may.</p>"
        f"<table><tr><th>code<th>status<th>meaning{errors}</table>"
    )
    return text.encode()


def _section(operation: Operation) -> str:
    described = openapi.document()["paths"][operation.route][operation.method.lower()]
    fields = [_parameter(found) for found in described["parameters"] if found["in"] == "query"]
    fields += [_property(name, found) for name, found in _form(described).items()]
    bodies = ", ".join(described.get("requestBody", {}).get("content", {}))
    rows = f"<table>{''.join(fields)}</table>" if fields else ""
    return (
        f"<section id={operation.name}><h3><span class=method>{operation.method}</span>"
        f"<code>{escape(operation.route)}</code></h3><p>{escape(operation.summary)}"
        f" <span class=quiet>{operation.name}, needs {operation.permission.value}</span></p>"
        + (f"<p class=quiet>Body: {escape(bodies)}</p>" if bodies else "")
        + f"{rows}</section>"
    )


def _form(described: dict[str, Any]) -> dict[str, Any]:
    found = described.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    properties: dict[str, Any] = found.get("properties", {})
    return properties


def _parameter(found: dict[str, Any]) -> str:
    return _property(found["name"], found["schema"])


def _property(name: str, schema: dict[str, Any]) -> str:
    kinds = [str(part.get("type", "")) for part in schema.get("anyOf", [schema])]
    kind = " or ".join(kind for kind in kinds if kind)
    default = "" if schema.get("default") in (None, "", [], {}) else f"Default {schema['default']}."
    note = " ".join(part for part in (schema.get("description", ""), _range(schema), default) if part)
    return f"<tr><td><code>{escape(name)}</code><td>{escape(kind)}<td class=quiet>{escape(note)}"


def _range(schema: dict[str, Any]) -> str:
    """Its bounds, where it has both."""
    for part in schema.get("anyOf", [schema]):
        if "minimum" in part and "maximum" in part:
            return f"{part['minimum']} to {part['maximum']}."
    return ""
