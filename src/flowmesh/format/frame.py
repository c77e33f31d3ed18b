"""Frames: what client and node send each other over TCP, as bytes and back. See docs/formats/frame.md.

The decoder never waits and takes no memory for a length that it has not checked. Pipelined requests that are alike
come out as one run, because a loop in Python over each of them would cost more than storing them.
"""

from __future__ import annotations

import struct
from enum import IntEnum, IntFlag
from functools import lru_cache
from itertools import repeat, takewhile
from typing import NamedTuple

from flowmesh.base.buffers import Buffer
from flowmesh.base.errors import BadRequest, FlowMeshError, TooLarge, UnsupportedVersion
from flowmesh.base.limits import FRAME_BYTES_MAX, FRAME_HEADER_BYTES_MAX

VERSION = 1
PREFIX = struct.Struct("<IIBBBBI")
PREFIX_SIZE = PREFIX.size
_LENGTH = struct.Struct("<I")
_AFTER_LENGTH = PREFIX_SIZE - _LENGTH.size
"""What the length counts beside header and body: the rest of the prefix."""
CORRELATION = slice(4, 8)
"""Where the correlation id stands inside a frame."""
CORRELATION_MAX = 2**32 - 1

_RUN_FRAME_BYTES_MAX = 4096
_RUN_FIRST_TRY = 64
_RUN_MAX = 65_536
_VIEW_BYTES = 64 * 1024
"""Bodies from this size on are views into the bytes that arrived; smaller ones are cheaper to copy than to view."""
_SMALL_PIECE_BYTES = 16 * 1024


class FrameKind(IntEnum):
    HELLO = 1
    REQUEST = 2
    REPLY = 3
    ERROR = 4
    PUSH = 5
    ACK = 6
    CANCEL = 7
    END = 8
    PING = 9
    PONG = 10


class FrameFlag(IntFlag):
    MERGE = 1
    """On a request: its reply may be merged with those of its neighbours. On a reply: it is such a merged one."""
    BATCH = 2
    """The body of an append is an encoded batch, not the value of one record."""


_KIND_FIRST, _KIND_LAST, _REQUEST = int(min(FrameKind)), int(max(FrameKind)), int(FrameKind.REQUEST)


class Frame(NamedTuple):
    kind: int
    flags: int
    code: int
    correlation: int
    header: bytes
    body: Buffer


class FrameRun(NamedTuple):
    """Requests that follow each other and differ in their bodies alone; correlation ids count up from the first."""

    flags: int
    code: int
    correlation: int
    header: bytes
    bodies: list[bytes]

    def frames(self) -> list[Frame]:
        numbers = range(self.correlation, self.correlation + len(self.bodies))
        same = (repeat(_REQUEST), repeat(self.flags), repeat(self.code))
        return list(map(Frame, *same, numbers, repeat(self.header), self.bodies))


def encode(kind: int, code: int, correlation: int, header: bytes = b"", body: Buffer = b"", *, flags: int = 0) -> bytes:
    return b"".join((encode_head(kind, code, correlation, header, len(body), flags=flags), body))


def encode_head(kind: int, code: int, correlation: int, header: bytes, body_bytes: int, *, flags: int = 0) -> bytes:
    """Everything before the body, for bodies that are not worth a copy."""
    length = _AFTER_LENGTH + len(header) + body_bytes
    return PREFIX.pack(length, correlation, VERSION, kind, flags, code, len(header)) + header


def require(
    length: int, version: int, kind: int, header_bytes: int, frame_bytes_max: int, header_bytes_max: int
) -> None:
    """That a prefix is one of a frame that may be taken, before anything of what it announces is."""
    if version != VERSION:
        raise UnsupportedVersion(f"frame version {version} is unknown; this is version {VERSION}.")
    if not _KIND_FIRST <= kind <= _KIND_LAST:
        raise BadRequest(f"there is no frame of kind {kind}.")
    if length + _LENGTH.size > frame_bytes_max:
        raise TooLarge(
            f"a frame of {length + _LENGTH.size} bytes is over the limit of {frame_bytes_max}.",
            hint="Send less at once.",
        )
    if header_bytes > header_bytes_max:
        raise TooLarge(f"a frame's header of {header_bytes} bytes is over the limit of {header_bytes_max}.")
    if _AFTER_LENGTH + header_bytes > length:
        raise BadRequest(f"a frame of {length + _LENGTH.size} bytes cannot hold a header of {header_bytes}.")


def body_size(length: int, header_bytes: int) -> int:
    """How many bytes follow the header, from a prefix that was checked."""
    return length - _AFTER_LENGTH - header_bytes


class FrameDecoder:
    """Bytes in, whole frames out. After the first fault nothing more comes out, and `failure` says why."""

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX, header_bytes_max: int = FRAME_HEADER_BYTES_MAX) -> None:
        self.frame_bytes_max = frame_bytes_max
        self.header_bytes_max = header_bytes_max
        self.failure: FlowMeshError | None = None
        self.held_bytes = 0
        """Of a frame that is not whole yet."""
        self._pieces: list[bytes] = []
        self._small = bytearray()
        self._needed = 0
        self._run_limit = _RUN_FIRST_TRY

    def feed(self, data: bytes) -> list[Frame | FrameRun]:
        found: list[Frame | FrameRun] = []
        try:
            position = self._complete(data, found) if self.held_bytes else 0
            if self.failure is None and not self.held_bytes:
                self._parse(data, position, found)
        except FlowMeshError as error:
            self.failure = error
            self._release()
        return found

    # --- whole frames -------------------------------------------------------------------------------------------

    def _parse(self, data: bytes, position: int, found: list[Frame | FrameRun]) -> None:
        unpack, end = PREFIX.unpack_from, len(data)
        while end - position >= PREFIX_SIZE:
            length, correlation, version, kind, flags, code, header_bytes = unpack(data, position)
            require(length, version, kind, header_bytes, self.frame_bytes_max, self.header_bytes_max)
            stop = position + _LENGTH.size + length
            if stop > end:
                self._hold(data[position:], stop - position)
                return
            head = position + PREFIX_SIZE + header_bytes
            if kind == _REQUEST and data[stop : stop + 4] == data[position : position + 4]:
                run = self._run(data, position, stop - position, header_bytes)
                if run is not None:
                    found.append(run)
                    position += (stop - position) * len(run.bodies)
                    continue
            body: Buffer = data[head:stop] if stop - head < _VIEW_BYTES else memoryview(data)[head:stop]
            found.append(Frame(kind, flags, code, correlation, data[position + PREFIX_SIZE : head], body))
            position = stop
        if position < end:
            self._hold(data[position:], PREFIX_SIZE)

    def _run(self, data: bytes, position: int, size: int, header_bytes: int) -> FrameRun | None:
        """The requests from `position` on that are alike. What one try costs is bounded by what the last one gained."""
        count = min((len(data) - position) // size, self._run_limit)
        if size > _RUN_FRAME_BYTES_MAX or count < 2:
            return None
        head = 8 + header_bytes
        shape = _run_shape(head, size - 8 - head)
        first, same, _ = shape.unpack_from(data, position)
        rows = shape.iter_unpack(memoryview(data)[position : position + count * size])
        # Length and correlation id read as one number: in a run it grows by one id from frame to frame.
        numbers = range(first, first + (count << 32), 1 << 32)
        pairs = zip(rows, numbers, strict=True)
        bodies = [body for (number, front, body), wanted in pairs if front == same and number == wanted]
        self._run_limit = min(4 * self._run_limit, _RUN_MAX)
        if len(bodies) < count:
            self._run_limit = _RUN_FIRST_TRY
            rows = shape.iter_unpack(memoryview(data)[position : position + count * size])
            alike = takewhile(
                lambda pair: pair[0][0] == pair[1] and pair[0][1] == same, zip(rows, numbers, strict=True)
            )
            bodies = [body for (_, _, body), _ in alike]
        return FrameRun(same[2], same[3], first >> 32, same[8:], bodies) if len(bodies) > 1 else None

    # --- pieces of frames ---------------------------------------------------------------------------------------

    def _hold(self, data: bytes, needed: int) -> None:
        """Keeps a piece. Small ones are gathered, so that a sender of single bytes costs no more than its bytes."""
        self._needed = needed
        self.held_bytes += len(data)
        if len(data) < _SMALL_PIECE_BYTES:
            self._small += data
        else:
            if self._small:
                self._pieces.append(bytes(self._small))
                self._small = bytearray()
            self._pieces.append(data)

    def _complete(self, data: bytes, found: list[Frame | FrameRun]) -> int:
        """Adds to the frame that is held; returns how much of `data` was its. One copy, however many pieces."""
        taken = 0
        while self.held_bytes:
            missing = self._needed - self.held_bytes
            piece = data[taken : taken + missing] if taken or missing < len(data) else data
            taken += len(piece)
            self._hold(piece, self._needed)
            if self.held_bytes < self._needed:
                break
            whole = b"".join((*self._pieces, self._small))
            self._release()
            self._parse(whole, 0, found)
        return taken

    def _release(self) -> None:
        self._pieces, self._small, self.held_bytes = [], bytearray(), 0


@lru_cache(maxsize=256)
def _run_shape(front_bytes: int, body_bytes: int) -> struct.Struct:
    return struct.Struct(f"<Q{front_bytes}s{body_bytes}s")
