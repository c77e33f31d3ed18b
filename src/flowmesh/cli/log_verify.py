"""`flowmesh log verify`: its options, and how its verdict is told."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from flowmesh.base.times import to_text
from flowmesh.cli.group import complain
from flowmesh.cli.parameters import directory_argument, existing, json_option, require_public_key
from flowmesh.cli.tables import count_text, offsets_text, size_text

if TYPE_CHECKING:
    from flowmesh.format.checkpoint import Checkpoint
    from flowmesh.log.verify import VerifyReport

EXIT_UNSOUND = 1


@click.command()
@directory_argument
@click.option(
    "--checkpoint",
    "checkpoint_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A signed checkpoint that the log must still agree with.",
)
@click.option("--public-key", metavar="HEX", help="The key that must have signed the checkpoint.")
@json_option
def verify(directory: Path, checkpoint_file: Path | None, public_key: str | None, as_json: bool) -> None:
    """Prove that the log in DIR is what was written: compute every hash anew, and follow every link.

    Exit code 0 means sound. 1 means damage, each range of which is named, or a checkpoint that does not hold.

    \b
    Example:
      flowmesh log verify events
      flowmesh log verify events --checkpoint monday.json --public-key 03a107bff3ce10be…
    """
    key = require_public_key(public_key)
    if key is not None and checkpoint_file is None:
        raise click.UsageError("--public-key says who signed the checkpoint; name that too, with --checkpoint FILE.")
    from flowmesh.cli.reports import as_document
    from flowmesh.cli.verifying import as_dictionary, read_checkpoint, timed_verify

    existing(directory)
    checkpoint = None if checkpoint_file is None else read_checkpoint(checkpoint_file, key)
    report, seconds = timed_verify(directory, checkpoint)
    if as_json:
        click.echo(as_document(as_dictionary(directory, report, checkpoint, seconds)))
    else:
        _print_report(report, seconds)
        if checkpoint is not None and report.checkpoint_fault is None:
            _print_checkpoint(checkpoint, report.start_offset, trusted=key is not None)
    if not report.sound:
        raise click.exceptions.Exit(EXIT_UNSOUND)


def _print_report(report: VerifyReport, seconds: float) -> None:
    from flowmesh.cli.reports import damage_text, note_text

    rate = f"{seconds:.2f} s, {size_text(report.size_bytes / max(seconds, 1e-6))}/s"
    click.echo(
        f"{count_text(report.records, 'record')} in {count_text(report.blocks, 'block')} and"
        f" {count_text(report.segments, 'segment')}, offsets {offsets_text(report.start_offset, report.end_offset)},"
        f" {size_text(report.size_bytes)} hashed in {rate}"
    )
    if report.unverified_bytes:
        click.echo(
            f"{count_text(report.unverified_bytes, 'byte')} past the durable end: not acknowledged, not verified"
        )
    for note in report.notes:
        click.echo(f"note: {note_text(note)}")
    for damage in report.damage:
        click.echo(f"damage: {damage_text(damage)}")
    if report.checkpoint_fault is not None:
        click.echo(f"checkpoint: {report.checkpoint_fault}")
    ranges = count_text(len(report.damage), "damaged range")
    click.echo("sound" if report.sound else f"NOT SOUND: {ranges if report.damage else 'the checkpoint does not hold'}")


def _print_checkpoint(checkpoint: Checkpoint, start_offset: int, *, trusted: bool) -> None:
    place = f"before offset {checkpoint.end_offset}"
    if start_offset:  # of what was trimmed nothing can be said
        place = f"in offsets {offsets_text(start_offset, max(checkpoint.end_offset, start_offset))}"
    click.echo(f"the checkpoint of {to_text(checkpoint.time_ns)} holds: nothing {place} changed")
    if not trusted:
        complain(f"The checkpoint is signed by {checkpoint.public_key}. Is that your key? --public-key HEX makes sure.")
