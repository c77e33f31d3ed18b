"""A child program that reads a log which it does not own, over and over, while somebody else writes, rolls and trims.

Lines on the report: `seen END` after each look that found something new, and `ended LOOKS RECORDS JUMPS`. It stops when
the file `<directory>.stop` appears. Anything that is not right ends it with an error.
"""

from __future__ import annotations

import os
import sys

from flowmesh.assemble import read_local_log
from flowmesh.base.errors import NotFound, OffsetOutOfRange
from tests.process import values
from tests.process.settings import Settings, from_arguments

LOOKS_MAX = 1_000_000


def run(settings: Settings) -> None:
    looks = records = jumps = position = 0
    while looks < LOOKS_MAX and not os.path.exists(f"{settings.directory}.stop"):
        looks += 1
        try:
            view = read_local_log(settings.directory)
        except NotFound:
            assert position == 0, "a log that was there is there no more"
            continue
        assert view.damage == (), view.damage
        before = position
        try:
            for block in view.blocks(position):
                assert block.base_offset == position, f"offset {position} is followed by {block.base_offset}"
                assert values.wrong_values(settings.seed, block) == []
                records += block.end_offset - position
                position = block.end_offset
        except OffsetOutOfRange as error:
            if position >= error.start_offset:
                raise  # only a trim may say this: what was read once never lies past the end
            position = error.start_offset
            jumps += 1
        if position != before:
            settings.tell(f"seen {position}")
    settings.tell(f"ended {looks} {records} {jumps}")


if __name__ == "__main__":
    run(from_arguments(sys.argv))
