"""`flowmesh log checkpoint`: signs where a chain stands, so that its history cannot be rewritten unseen."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from flowmesh.base.errors import BadRequest
from flowmesh.cli.group import complain
from flowmesh.cli.parameters import directory_argument, existing


@click.command()
@directory_argument
@click.option(
    "--key",
    "key_file",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Ed25519 private key (PEM). Created, readable by you alone, if it is missing.",
)
@click.option(
    "--out",
    "out_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where to write the checkpoint; a file that exists is not overwritten.  [default: standard output]",
)
def checkpoint(directory: Path, key_file: Path, out_file: Path | None) -> None:
    """Sign where the log in DIR stands: chain, offset, hash of the last block, time.

    Whoever can rewrite all files can recompute all hashes. Keep checkpoints, and the key, where that person is not;
    'flowmesh log verify --checkpoint' then tells a rewritten history. Signing does not verify: do that first.

    \b
    Example:
      flowmesh log verify events && flowmesh log checkpoint events --key me.pem --out monday.json
      flowmesh log verify events --checkpoint monday.json
    """
    from flowmesh.assemble import load_or_create_key, read_local_log, sign_checkpoint
    from flowmesh.format import checkpoint as checkpoint_format

    if out_file is not None and out_file.exists():
        raise _already_there(out_file)
    view = read_local_log(existing(directory))
    for damage in view.damage:
        complain(f"warning: this log is damaged, and the checkpoint does not heal that: {damage.describe()}.")
    key, created = load_or_create_key(key_file)
    if created:
        complain(f"Made a new key in {key_file}. Keep it away from whoever can write the log.")
    signed = sign_checkpoint(view, key)
    data = checkpoint_format.encode(signed)
    if out_file is None:
        sys.stdout.buffer.write(data)
    else:
        _write(out_file, data)
    complain(f"signed offset {signed.end_offset} of chain {view.chain.name!r}")
    complain(f"public key {signed.public_key}")


def _write(path: Path, data: bytes) -> None:
    """On the medium when this returns. Never over an older one: that may be the only witness of a rewritten history."""
    try:
        with path.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        raise _already_there(path)


def _already_there(path: Path) -> BadRequest:
    return BadRequest(
        f"{path} exists; an older checkpoint is evidence and is not overwritten.", hint="Give --out another name."
    )
