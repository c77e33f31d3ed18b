"""What people write on the command line, as values: sizes, lengths of time, durability, a place to read from.

A function here is the type of an option; its name, in capitals, is what the help shows for the value.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import click

from flowmesh.base import limits
from flowmesh.base.durability import Durability
from flowmesh.base.errors import BadRequest, NotFound
from flowmesh.base.times import duration_from_text, from_text

_SIZE = re.compile(r"([0-9]{1,18})(?:([kmgt])i?)?b?", re.IGNORECASE)
_FACTORS = {"": 1, "k": limits.KIB, "m": limits.MIB, "g": limits.GIB, "t": 1024 * limits.GIB}
NUMBER_MAX = 2**63 - 1
"""Offsets, counts and nanoseconds are signed 64-bit numbers below; what is larger is refused here."""

directory_argument = click.argument("directory", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")


def existing(directory: Path) -> Path:
    if not directory.is_dir():
        raise NotFound(
            f"there is no directory {directory}.", hint=f"Create a log in it with 'flowmesh log append {directory}'."
        )
    return directory


def size(text: str) -> int:
    match = _SIZE.fullmatch(text)
    if match is None:
        raise click.BadParameter(f"{text!r} is no size. Write a number of bytes, or 64KiB, 256MiB, 2GiB.")
    count = int(match[1]) * _FACTORS[(match[2] or "").lower()]
    if count > NUMBER_MAX:
        raise click.BadParameter(f"{text!r} is too large.")
    return count


def duration(text: str) -> int:
    """A length of time, in nanoseconds."""
    try:
        length_ns = duration_from_text(text)
    except BadRequest as error:
        raise click.BadParameter(str(error))
    if length_ns > NUMBER_MAX:
        raise click.BadParameter(f"{text!r} is too long.")
    return length_ns


def policy(text: str) -> Durability:
    try:
        return Durability.parse(text)
    except BadRequest as error:
        raise click.BadParameter(str(error))


class Start(NamedTuple):
    """Where reading begins: at one end of the log, at an offset, or at a time."""

    end: str = ""
    offset: int | None = None
    time_ns: int = 0


def place(text: str) -> Start:
    if text in ("earliest", "latest"):
        return Start(text)
    if text.isascii() and text.isdigit():
        if len(text) > len(str(NUMBER_MAX)) or int(text) > NUMBER_MAX:
            raise click.BadParameter(f"{text} is larger than any offset.")
        return Start(offset=int(text))
    if not text.removeprefix("-").isdigit():  # elsewhere a count of nanoseconds; here a number is an offset
        with suppress(BadRequest):
            return Start(time_ns=from_text(text))
    raise click.BadParameter(
        f"{text!r} is no place in a log. Write 'earliest', 'latest', an offset such as 4711,"
        " or a time such as 2026-01-31T12:00:00Z."
    )


def require_public_key(text: str | None) -> bytes | None:
    """32 bytes from 64 hex digits."""
    if text is None:
        return None
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != 32:
        raise click.BadParameter(
            "a public key has 64 hex digits, as 'flowmesh log checkpoint' prints it.", param_hint="'--public-key'"
        )
    return key
