"""`flowmesh log inspect`: its options, and the tables that it prints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from flowmesh.base.errors import NotFound
from flowmesh.base.limits import SEGMENT_NUMBER_MAX
from flowmesh.base.times import to_text
from flowmesh.cli.parameters import directory_argument, existing, json_option
from flowmesh.cli.tables import aligned, count_text, offsets_text, size_text

if TYPE_CHECKING:
    from flowmesh.log.opening import Survey
    from flowmesh.log.segment import Segment

_TITLES = ("segment", "offsets", "blocks", "records", "bytes", "created", "id")


@click.command()
@directory_argument
@click.option("--segment", "number", type=click.IntRange(1, SEGMENT_NUMBER_MAX), help="Only this segment.")
@click.option("--blocks", is_flag=True, help="List the blocks too; with --json, one block a line.")
@json_option
def inspect(directory: Path, number: int | None, blocks: bool, as_json: bool) -> None:
    """Show what the log in DIR is made of: its chain, segments and blocks, and what opening it would put right.

    Nothing is changed, and hashes are not computed anew: for proof use 'flowmesh log verify'.

    \b
    Example:
      flowmesh log inspect events
      flowmesh log inspect events --segment 2 --blocks
      flowmesh log inspect events --json | jq .segments[0].end_offset
    """
    from flowmesh.assemble import survey_local_log
    from flowmesh.cli.inspecting import as_dictionary, block_lines, json_blocks, segments_of
    from flowmesh.cli.reports import as_document

    found = survey_local_log(existing(directory))
    segments = segments_of(found, number)
    if number is not None and not segments:
        raise NotFound(f"there is no segment {number} that can be read in {directory}.", field="segment")
    if not as_json:
        _print_all(directory, found, segments)
    elif not blocks:
        click.echo(as_document(as_dictionary(directory, found, segments)))
    if blocks:
        for line in (json_blocks if as_json else block_lines)(segments):
            click.echo(line)


def _print_all(directory: Path, found: Survey, segments: list[Segment]) -> None:
    from flowmesh.cli.inspecting import bytes_past_the_end, end_offset, segment_row
    from flowmesh.cli.reports import damage_text, note_text

    chain, floor = found.chain, found.floor
    click.echo(f"log      {directory}")
    click.echo(f"chain    {chain.name}, created {to_text(chain.created_ns)}")
    click.echo(f"hash     {chain.hash.hex()}")
    total = sum(segment.end_position for segment in segments)
    click.echo(f"offsets  {offsets_text(floor.start_offset, end_offset(found))}, {size_text(total)}")
    if floor.first_segment > 1:
        click.echo(f"floor    segment {floor.first_segment}, offset {floor.start_offset}: what was before is trimmed")
    past = bytes_past_the_end(found)
    if past:
        click.echo(f"tail     {count_text(past, 'byte')} past the durable end: not acknowledged, not served")
    click.echo()
    for line in aligned(_TITLES, [segment_row(segment) for segment in segments]):
        click.echo(line)
    for damage in found.damage:
        click.echo(f"damage: {damage_text(damage)}")
    for note in found.notes:
        click.echo(f"note: {note_text(note)}")
