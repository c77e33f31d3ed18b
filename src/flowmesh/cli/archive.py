"""`flowmesh archive run|list|verify|register`: the cold tier of a stream from a shell."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flowmesh.base.errors import FlowMeshError, NotFound
from flowmesh.base.limits import GROUP_HOLD_S_MAX
from flowmesh.cli.archive_target import absolute, data_dir_option
from flowmesh.cli.connection_options import Asked, connected
from flowmesh.cli.group import complain
from flowmesh.cli.parameters import duration, json_option, size
from flowmesh.cli.spark_options import job_bar, session_for, spark_options

if TYPE_CHECKING:
    from flowmesh.archive.manifest import Manifest
    from flowmesh.spark.archive.job import ArchiveReport

EXIT_UNSOUND = EXIT_FAILED = 1
_SECOND_NS = 1_000_000_000


@click.group()
def archive() -> None:
    """Keep closed segments as Parquet, so that the log itself may forget them.

    An archive is a directory, or a place on a file system that Spark knows: Parquet files, and a manifest that keeps
    the hashes. Reads through Spark join it with the log. Needs the extra 'flowmesh[spark]'.

    \b
    Example:
      flowmesh archive run orders --to /srv/archive/orders
      flowmesh archive list /srv/archive/orders
      flowmesh archive verify /srv/archive/orders
    """


@archive.command()
@click.argument("streams", metavar="STREAM...", nargs=-1, required=True)
@click.option("--to", "location", required=True, help="A directory, or a URL that Spark knows: s3a://…, hdfs://…")
@click.option("--each", is_flag=True, help="Several streams: each goes to tenant/namespace/name below --to.")
@data_dir_option
@click.option("--include-open", is_flag=True, help="Also what stands in the segment that is still written.")
@click.option(
    "--piece-bytes", type=size, default="128MiB", show_default=True, help="How much of the log one file takes."
)
@click.option("--group", default="archive", show_default=True, help="The group that tells the node how far this is.")
@click.option("--hold", type=duration, help="How long retention waits for this group.  [default: always]")
@click.option("--no-hold", is_flag=True, help="Ask no node: nothing keeps retention from what is not archived yet.")
@spark_options
@json_option
@connected
def run(
    asked: Asked,
    streams: tuple[str, ...],
    location: str,
    each: bool,
    data_dir: Path,
    include_open: bool,
    piece_bytes: int,
    group: str,
    hold: int | None,
    no_hold: bool,
    master: str | None,
    conf: tuple[str, ...],
    as_json: bool,
) -> None:
    """Write what is closed and not yet archived of STREAM, and publish it.

    STREAM is a stream of the node whose files lie in --data-dir, or the directory of a log. Whatever ends a run early
    leaves nothing that counts; the next one begins where the last manifest ends. On a node the archive is a group of
    the stream: until that group is deleted, retention drops nothing that is not archived.

    \b
    Example:
      flowmesh archive run orders --to /srv/archive/orders --data-dir /var/lib/flowmesh
      flowmesh archive run orders payments --to s3a://bucket/archive --each --conf spark.jars.packages=…
      flowmesh archive run ./events --to ./events-archive
    """
    if len(streams) > 1 and not each:
        raise click.UsageError("several streams need --each: every stream has an archive of its own.")
    from flowmesh.cli.archive_target import Archiving, archive_one
    from flowmesh.spark.archive.job import ArchiveOptions

    hold_s = None if no_hold else GROUP_HOLD_S_MAX if hold is None else max(hold // _SECOND_NS, 1)
    archiving = Archiving(asked, data_dir, location, ArchiveOptions(piece_bytes, include_open), group, hold_s)
    failed = False
    with session_for("flowmesh archive", master, conf) as spark:
        for stream in streams:
            try:
                place, report = archive_one(spark, archiving, stream, below=each)
            except FlowMeshError as error:
                if len(streams) == 1:
                    raise
                complain(f"{stream}: {error}")
                failed = True
                continue
            click.echo(json.dumps(_of_run(stream, place, report)) if as_json else _run_text(place, report))
    if failed:
        raise click.exceptions.Exit(EXIT_FAILED)


def _of_run(stream: str, place: str, report: ArchiveReport) -> dict[str, Any]:
    return {
        "stream": stream,
        "location": place,
        "files": report.files,
        "records": report.records,
        "log_bytes": report.log_bytes,
        "archive_bytes": report.archive_bytes,
        "removed": report.removed,
        "manifest": report.manifest.number if report.manifest is not None else None,
        "hash": report.manifest.hash if report.manifest is not None else None,
    }


def _run_text(place: str, report: ArchiveReport) -> str:
    from flowmesh.cli.tables import count_text, size_text

    removed = f"; removed {count_text(report.removed, 'file')} of a run that was cut short" if report.removed else ""
    if not report.files:
        return f"nothing to archive: no segment was closed since{removed}"
    return (
        f"archived {count_text(report.records, 'record')} in {count_text(report.files, 'file')} to {place}:"
        f" {size_text(report.log_bytes)} of log, {size_text(report.archive_bytes)} of Parquet{removed}"
    )


@archive.command("list")
@click.argument("location")
@click.option("--files", is_flag=True, help="Each file, and not only each partition.")
@spark_options
@json_option
def list_archive(location: str, files: bool, master: str | None, conf: tuple[str, ...], as_json: bool) -> None:
    """Show what the archive at LOCATION holds, and the hash of its manifest.

    \b
    Example:
      flowmesh archive list /srv/archive/orders --files
    """
    from flowmesh.archive.store import latest
    from flowmesh.cli.tables import aligned

    place = absolute(location)
    with ExitStack() as stack:
        manifest = latest(_store(stack, place, master, conf))
    if manifest is None:
        raise NotFound(f"there is no archive at {place}.", hint="'flowmesh archive run' begins one.")
    if as_json:
        click.echo(json.dumps({"location": place, **_of_manifest(manifest, files=files)}))
        return
    click.echo(f"{manifest.stream}: manifest {manifest.number}, hash {manifest.hash}")
    titles = ("partition", "start", "end", "segments", "files", "records", "bytes")
    rows: list[tuple[object, ...]] = [
        (each.partition, each.start_offset, each.end_offset, len(each.segments), len(each.files),
         sum(file.records for file in each.files), sum(file.size_bytes for file in each.files))
        for each in manifest.partitions
    ]  # fmt: skip
    click.echo("\n".join(aligned(titles, rows)))
    if files:
        cells = [(file.name, file.records, file.size_bytes) for file in manifest.files]
        click.echo("\n".join(["", *aligned(("file", "records", "bytes"), cells)]))


def _store(stack: ExitStack, place: str, master: str | None, conf: tuple[str, ...]) -> Any:
    from flowmesh.archive.store import LocalStore, is_local

    if is_local(place):
        return LocalStore(place)
    from flowmesh.spark.archive.job import store_of

    return store_of(stack.enter_context(session_for("flowmesh archive", master, conf)), place)


def _of_manifest(manifest: Manifest, *, files: bool = False) -> dict[str, Any]:
    from flowmesh.base.times import to_text

    return {
        "manifest": manifest.number,
        "hash": manifest.hash,
        "created": to_text(manifest.created_ns),
        "stream": manifest.stream,
        "partitions": [
            {
                "partition": each.partition,
                "start_offset": each.start_offset,
                "end_offset": each.end_offset,
                "segments": len(each.segments),
                "files": [file.name for file in each.files] if files else len(each.files),
                "records": sum(file.records for file in each.files),
                "bytes": sum(file.size_bytes for file in each.files),
            }
            for each in manifest.partitions
        ],
    }


@archive.command("verify")
@click.argument("location")
@click.option(
    "--manifest-hash", metavar="HEX", help="The hash of a manifest, kept elsewhere, that must be in its past."
)
@spark_options
@json_option
def verify_archive(
    location: str, manifest_hash: str | None, master: str | None, conf: tuple[str, ...], as_json: bool
) -> None:
    """Prove that the archive at LOCATION is what was archived: hash every file, and follow every link.

    'flowmesh verify --spark' does the same together with the log. Exit code 0 means sound.

    \b
    Example:
      flowmesh archive verify /srv/archive/orders
    """
    from flowmesh.cli.verify import as_dictionary, report_text
    from flowmesh.spark.archive.verify import verify_history

    place = absolute(location)
    with session_for("flowmesh verify", master, conf) as spark, job_bar(f"verifying {location}") as bar:
        report = verify_history(spark, None, place, known_hash=manifest_hash, progress=bar)
    click.echo(json.dumps(as_dictionary(report)) if as_json else report_text(report))
    if not report.sound:
        raise click.exceptions.Exit(EXIT_UNSOUND)


@archive.command()
@click.argument("location")
@click.option("--catalog", required=True, help="The name of a catalog that pyiceberg is configured for.")
@click.option("--table", required=True, metavar="NAMESPACE.NAME", help="The table, made when it is not there.")
@click.option("--property", "properties", multiple=True, metavar="NAME=VALUE", help="A property of the catalog.")
@json_option
def register(location: str, catalog: str, table: str, properties: tuple[str, ...], as_json: bool) -> None:
    """Make the files of an archive an Iceberg table, without writing them again. Needs 'flowmesh[iceberg]'.

    Files that the table has already are left out, so this may be run after each archive run.

    \b
    Example:
      flowmesh archive register /srv/archive/orders --catalog lake --table shop.orders
    """
    from flowmesh.archive.cold import files_of
    from flowmesh.archive.iceberg import register_archive

    settings = dict(text.partition("=")[::2] for text in properties)
    done = register_archive(files_of(absolute(location)), catalog, table, settings)
    if as_json:
        click.echo(json.dumps(done._asdict()))
    else:
        click.echo(f"{done.added} files added to {table}, {done.present} were there; it has {done.records} records")
