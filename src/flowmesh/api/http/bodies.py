"""Request bodies: read under limits, unfolded under limits. How long a body may take is watched by the connection."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import zstandard

from flowmesh.api.http.bounds import BODIES_BYTES_MAX, PIECE_BYTES, ZSTD_WINDOW_BYTES_MAX
from flowmesh.api.http.exchange import ClientGone, Exchange
from flowmesh.api.http.problems import MediaTypeUnknown
from flowmesh.base.errors import BadRequest, TooLarge, Unavailable


class Budget:
    """How many bytes of bodies the node holds at once. Bodies that arrive in one piece pass without it."""

    def __init__(self, bytes_max: int = BODIES_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self.held = 0

    def take(self, size: int) -> None:
        if self.held + size > self._bytes_max:
            raise Unavailable("too many bodies are coming in at once.", hint="Try again in a moment.")
        self.held += size

    def give_back(self, size: int) -> None:
        self.held -= size


class Body:
    """Reads a body and keeps its share of the budget until it is left: use it in a `with`."""

    __slots__ = ("_budget", "_exchange", "_taken")

    def __init__(self, exchange: Exchange, budget: Budget) -> None:
        self._exchange = exchange
        self._budget = budget
        self._taken = 0

    def __enter__(self) -> Body:
        return self

    def __exit__(self, *_: object) -> None:
        self._budget.give_back(self._taken)

    async def read(self, bytes_max: int) -> bytes:
        exchange = self._exchange
        declared = exchange.headers.get(b"content-length")
        if declared is not None and len(declared) < 20 and int(declared) > bytes_max:
            raise too_large(bytes_max)
        message = await exchange.receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        body: bytes = message["body"]
        if message["more_body"]:
            return await self._rest(body, bytes_max)
        if len(body) > bytes_max:
            raise too_large(bytes_max)
        return body

    async def _rest(self, first: bytes, bytes_max: int) -> bytes:
        pieces, size, more = [first], len(first), True
        self._take(size)
        while more:
            message = await self._exchange.receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            piece, more = message["body"], message["more_body"]
            size += len(piece)
            if size > bytes_max:
                raise too_large(bytes_max)
            self._take(len(piece))
            pieces.append(piece)
        return b"".join(pieces)

    def _take(self, size: int) -> None:
        self._budget.take(size)
        self._taken += size


def too_large(bytes_max: int, unfolded: str = "") -> TooLarge:
    return TooLarge(
        f"the body is over the limit of {bytes_max} bytes{unfolded}.", field="body", hint="Send it in several requests."
    )


# --- content encodings --------------------------------------------------------------------------------------------


def unfolded(data: bytes, encoding: bytes | None, bytes_max: int) -> bytes:
    """The body without its content encoding. Stops as soon as it is over the limit, whatever it claimed to be."""
    if encoding is None or encoding.strip().lower() in (b"", b"identity"):
        return data
    unfold = _ENCODINGS.get(encoding.strip().lower())
    if unfold is None:
        raise MediaTypeUnknown(
            f"content-encoding {encoding[:60].decode('latin-1')!r} is not understood.",
            field="content-encoding",
            hint="Use gzip or zstd, or none.",
        )
    try:
        return unfold(data, bytes_max)
    except (zlib.error, zstandard.ZstdError, EOFError) as error:
        raise BadRequest(f"the body does not unfold: {str(error)[:100]}.", field="content-encoding")


def _gunzip(data: bytes, bytes_max: int) -> bytes:
    pieces: list[bytes] = []
    size, rest = 0, data
    while rest:
        stream = zlib.decompressobj(wbits=31)
        while rest and not stream.eof:
            piece = stream.decompress(rest, PIECE_BYTES)
            rest = stream.unconsumed_tail
            size += len(piece)
            if size > bytes_max:
                raise too_large(bytes_max, " when it is unfolded")
            pieces.append(piece)
            if not piece and not rest:
                break
        if not stream.eof:
            raise EOFError("it ends before its end")
        rest = stream.unused_data
    return b"".join(pieces)


def _unzstd(data: bytes, bytes_max: int) -> bytes:
    """In two passes: one that bounds what comes out, and one that sees whether the last frame is whole."""
    pieces: list[bytes] = []
    size = 0
    decompressor = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW_BYTES_MAX)
    with decompressor.stream_reader(data, read_across_frames=True) as reader:
        while piece := reader.read(PIECE_BYTES):
            size += len(piece)
            if size > bytes_max:
                raise too_large(bytes_max, " when it is unfolded")
            pieces.append(piece)
    rest = data
    while rest:
        frame = decompressor.decompressobj()
        frame.decompress(rest)
        if not frame.eof:
            raise EOFError("it ends before its end")
        rest = frame.unused_data
    return b"".join(pieces)


_ENCODINGS: dict[bytes, Callable[[bytes, int], bytes]] = {b"gzip": _gunzip, b"x-gzip": _gunzip, b"zstd": _unzstd}
