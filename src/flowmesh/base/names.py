"""The names users may give. An allow-list, because a name ends up in addresses, metrics and logs."""

from __future__ import annotations

import re

from flowmesh.base.errors import BadRequest

NAME_CHARS_MAX = 64
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9_-]|\.(?!\.)){0,63}(?<=[a-z0-9])|[a-z0-9]", re.ASCII)


def checked_name(text: str, field: str) -> str:
    """`text` itself if it is a name; there is only one way to write each name, so nothing is ever converted."""
    if _NAME.fullmatch(text) is None:
        raise BadRequest(
            f"{field} {text[:80]!r} is not a name.",
            field=field,
            hint=f"Use 1 to {NAME_CHARS_MAX} of a-z, 0-9, '-', '_' and single '.', a letter or digit at both ends.",
        )
    return text
