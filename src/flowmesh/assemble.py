"""The composition root: the only place where the cores meet a real disk, a real clock and real threads."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from flowmesh.base.errors import BadRequest
from flowmesh.base.limits import CHAIN_LOCAL_ID_BYTES
from flowmesh.format import checkpoint as checkpoint_format
from flowmesh.format.chain import checked
from flowmesh.format.checkpoint import Checkpoint
from flowmesh.host.clock import RealClock
from flowmesh.host.disk import RealDisk
from flowmesh.host.entropy import RealEntropy
from flowmesh.host.writer import WriterThread
from flowmesh.log.appender import Appender
from flowmesh.log.open_log import look, open_log, read_log
from flowmesh.log.opening import Survey
from flowmesh.log.options import LogOptions
from flowmesh.log.verify import Progress, VerifyReport, verify_log
from flowmesh.log.view import LogView

_VERIFY_THREADS_MAX = 4


def open_local_log(directory: str | Path, options: LogOptions | None = None, *, create: str | None = None) -> Appender:
    """The log in `directory`, recovered and owned by this process. `create` names the chain of a new one."""
    clock = RealClock()
    identity = None
    if create is not None:
        identity = checked(RealEntropy().random_bytes(CHAIN_LOCAL_ID_BYTES), create, clock.wall_ns())
    return open_log(RealDisk(), str(directory), clock, options, create=identity)


def start_writer() -> WriterThread:
    """The thread that commits appends of any number of logs."""
    return WriterThread(RealClock())


def read_local_log(directory: str | Path) -> LogView:
    """What is durable in `directory`, for a process that does not own it."""
    return read_log(RealDisk(), str(directory))


def survey_local_log(directory: str | Path) -> Survey:
    return look(RealDisk(), str(directory))


def verify_local_log(
    directory: str | Path, *, checkpoint: Checkpoint | None = None, progress: Progress | None = None
) -> VerifyReport:
    """Hashes the whole log, several segments at once."""
    with ThreadPoolExecutor(min(os.cpu_count() or 1, _VERIFY_THREADS_MAX)) as pool:
        return verify_log(
            RealDisk(), str(directory), checkpoint=checkpoint, run=pool.map, progress=progress or (lambda _size: None)
        )


def sign_checkpoint(view: LogView, key: Ed25519PrivateKey) -> Checkpoint:
    """A checkpoint of the durable end of `view`."""
    now = RealClock().wall_ns()
    return checkpoint_format.sign(key, view.chain.hash, view.end_offset, view.active.last_block_hash, now)


def load_or_create_key(path: str | Path) -> tuple[Ed25519PrivateKey, bool]:
    """The Ed25519 key in `path`, made there (readable by its owner alone) when missing; and whether it was made."""
    place = Path(path)
    try:
        descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        try:
            key = load_pem_private_key(place.read_bytes(), password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise BadRequest(f"{place} holds no private key that can be read: {error}", field="key") from error
        if not isinstance(key, Ed25519PrivateKey):
            raise BadRequest(f"{place} holds a key of another kind; an Ed25519 key is needed.", field="key") from None
        return key, False
    key = Ed25519PrivateKey.generate()
    with os.fdopen(descriptor, "wb") as file:
        file.write(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return key, True
