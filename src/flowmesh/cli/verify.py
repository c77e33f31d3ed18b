"""`flowmesh verify --spark`: a whole history, log and archive, hashed side by side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flowmesh.cli.archive_target import absolute, data_dir_option, resolve
from flowmesh.cli.connection_options import Asked, connected
from flowmesh.cli.parameters import json_option, require_public_key
from flowmesh.cli.spark_options import job_bar, session_for, spark_options

if TYPE_CHECKING:
    from flowmesh.spark.archive.verify import HistoryReport

EXIT_UNSOUND = 1


@click.command()
@click.argument("target", metavar="DIR|STREAM")
@click.option("--spark", "with_spark", is_flag=True, help="As a Spark job. There is no other way here yet.")
@click.option("--archive", "location", help="The archive of it.  [default: where the node says, if one is named]")
@data_dir_option
@click.option(
    "--checkpoint",
    "checkpoint_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A signed checkpoint that the history must still agree with.",
)
@click.option("--public-key", metavar="HEX", help="The key that must have signed the checkpoint.")
@click.option(
    "--manifest-hash", metavar="HEX", help="The hash of a manifest, kept elsewhere, that must be in its past."
)
@spark_options
@json_option
@connected
def verify(
    asked: Asked,
    target: str,
    with_spark: bool,
    location: str | None,
    data_dir: Path,
    checkpoint_file: Path | None,
    public_key: str | None,
    manifest_hash: str | None,
    master: str | None,
    conf: tuple[str, ...],
    as_json: bool,
) -> None:
    """Prove that a whole history is what was written: every block of the log, every file of its archive, every link.

    DIR is the directory of a log, STREAM a stream of the node whose files lie in --data-dir. Exit code 0 means sound;
    1 means damage, all of which is named, or a checkpoint that does not hold.

    \b
    Example:
      flowmesh verify --spark orders --data-dir /var/lib/flowmesh --archive /srv/archive/orders
      flowmesh verify --spark ./events --checkpoint monday.json --public-key 03a107bff3ce10be…
    """
    if not with_spark:
        raise click.UsageError("give --spark; 'flowmesh log verify DIR' does one log without it.")
    key = require_public_key(public_key)
    if key is not None and checkpoint_file is None:
        raise click.UsageError("--public-key says who signed the checkpoint; name that too, with --checkpoint FILE.")
    from flowmesh.cli.verifying import read_checkpoint
    from flowmesh.spark.archive.verify import verify_history
    from flowmesh.spark.archive_group import told_locations

    checkpoint = None if checkpoint_file is None else read_checkpoint(checkpoint_file, key)
    named = asked.url is not None or asked.context is not None
    found = resolve(target, data_dir, asked, with_node=location is None and named)
    if location is None and found.access is not None and found.stream is not None:
        places = told_locations(found.access, found.stream)
        if len(places) > 1:
            raise click.UsageError(f"there are {len(places)} archives; name one with --archive.")
        location = places[0] if places else None
    place = absolute(location) if location is not None else None
    with session_for("flowmesh verify", master, conf) as spark, job_bar(f"verifying {target}") as bar:
        report = verify_history(
            spark, found.origin, place, checkpoint=checkpoint, known_hash=manifest_hash, progress=bar
        )
    click.echo(json.dumps(as_dictionary(report)) if as_json else report_text(report))
    if not report.sound:
        raise click.exceptions.Exit(EXIT_UNSOUND)


def as_dictionary(report: HistoryReport) -> dict[str, Any]:
    from flowmesh.cli.reports import of_damage

    cold = report.cold
    return {
        "sound": report.sound,
        "records": report.records,
        "hot": [
            {
                "partition": partition,
                "start_offset": found.start_offset,
                "end_offset": found.end_offset,
                "segments": found.segments,
                "blocks": found.blocks,
                "records": found.records,
                "bytes": found.size_bytes,
                "damage": [of_damage(damage) for damage in found.damage],
            }
            for partition, found in sorted(report.hot.items())
        ],
        "cold": None
        if cold is None
        else {
            "manifest": cold.manifest.number if cold.manifest is not None else None,
            "hash": cold.manifest.hash if cold.manifest is not None else None,
            "files": cold.files,
            "records": cold.records,
            "bytes": cold.size_bytes,
            "faults": list(cold.faults),
            "notes": list(cold.notes),
        },
        "joints": list(report.joints),
        "checkpoint_fault": report.checkpoint_fault,
    }


def report_text(report: HistoryReport) -> str:
    from flowmesh.cli.reports import damage_text
    from flowmesh.cli.tables import count_text, offsets_text, size_text

    lines = []
    for partition, found in sorted(report.hot.items()):
        lines.append(
            f"partition {partition}, log: {count_text(found.records, 'record')} in {count_text(found.blocks, 'block')},"
            f" offsets {offsets_text(found.start_offset, found.end_offset)}, {size_text(found.size_bytes)} hashed"
        )
        lines += [f"damage: {damage_text(damage)}" for damage in found.damage]
    if report.cold is not None:
        cold = report.cold
        manifest = f"manifest {cold.manifest.number}, hash {cold.manifest.hash}" if cold.manifest is not None else ""
        lines.append(
            f"archive: {count_text(cold.records, 'record')} in {count_text(cold.files, 'file')},"
            f" {size_text(cold.size_bytes)} hashed; {manifest}"
        )
        lines += [f"note: {note}" for note in cold.notes]
        lines += [f"damage: {fault}" for fault in cold.faults]
    lines += [f"damage: {fault}" for fault in report.joints]
    if report.checkpoint_fault is not None:
        lines.append(f"checkpoint: {report.checkpoint_fault}")
    lines.append(f"{'sound' if report.sound else 'NOT SOUND'}: {count_text(report.records, 'record')} in all")
    return "\n".join(lines)
