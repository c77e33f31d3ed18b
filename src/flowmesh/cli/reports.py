"""What inspect, verify and checkpoint know, as plain dictionaries: the shape of their `--json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from flowmesh.base.times import to_text
from flowmesh.format import names
from flowmesh.format.chain import ChainIdentity
from flowmesh.log.findings import Damage, Note


def as_line(report: Mapping[str, Any]) -> str:
    """One line of JSON."""
    return json.dumps(report, separators=(",", ":"), ensure_ascii=False)


def as_document(report: Mapping[str, Any]) -> str:
    return json.dumps(report, indent=2, ensure_ascii=False)


def of_chain(chain: ChainIdentity) -> dict[str, Any]:
    return {
        "name": chain.name,
        "local_id": chain.local_id.hex(),
        "created": to_text(chain.created_ns),
        "hash": chain.hash.hex(),
    }


def of_damage(damage: Damage) -> dict[str, Any]:
    return {
        "segment": damage.segment,
        "file": names.segment_name(damage.segment),
        "position": damage.position,
        "end_position": damage.end_position,
        "first_offset": damage.first_offset,
        "end_offset": None if damage.end_offset < 0 else damage.end_offset,
        "why": damage.finding.value,
    }


def of_note(note: Note) -> dict[str, Any]:
    return {
        "where": note.where.value,
        "finding": note.finding.value,
        "action": note.action.value,
        "detail": note.detail,
    }


def damage_text(damage: Damage) -> str:
    end = "the end" if damage.end_offset < 0 else str(damage.end_offset)
    return (
        f"{names.segment_name(damage.segment)} bytes [{damage.position}, {damage.end_position}):"
        f" {damage.finding.value}; offsets [{damage.first_offset}, {end}) cannot be served"
    )


def note_text(note: Note) -> str:
    return f"{note.where.value} is {note.finding.value} ({note.detail}): {note.action.value}"
