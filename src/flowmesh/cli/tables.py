"""Numbers and rows as text for people. Plain text on purpose: it reads the same in a terminal, a pipe and a ticket."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_GAP = "  "


def size_text(size: float) -> str:
    unit = 0
    while size >= 1024 and unit < len(_UNITS) - 1:
        size /= 1024
        unit += 1
    return f"{size:.1f} {_UNITS[unit]}" if unit else f"{int(size)} B"


def length_text(milliseconds: int) -> str:
    """A length of time in the largest unit that it is a whole number of, as it can be given on the command line."""
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)):
        if milliseconds and milliseconds % size == 0:
            return f"{milliseconds // size}{unit}"
    return f"{milliseconds} ms"


def count_text(count: int, one: str, many: str = "") -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def offsets_text(start: int, end: int) -> str:
    return f"[{start}, {end})"


def aligned(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Rows under their titles, as wide as the widest cell; what is a number stands to the right."""
    cells = [[f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row] for row in rows]
    numeric = [True] * len(titles)
    if cells:
        numeric = [all(_is_number(row[column]) for row in cells) for column in range(len(titles))]
    widths = [max(map(len, column)) for column in zip(titles, *cells, strict=True)]
    for row in ([*titles], *cells):
        padded = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ]
        yield _GAP.join(padded).rstrip()


def _is_number(cell: str) -> bool:
    return cell.replace(",", "").isdigit() or cell == "-"
