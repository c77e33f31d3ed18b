"""A child program that opens connections of one wire and then says nothing more on them, until it is asked to.

Reads `<wire> <port> <token> <count>` from its standard input and answers `open <count>`; each further line makes it use
every hundredth of its connections, and answers `used <count>`. It ends with its input.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable

import msgspec

from flowmesh.format import frame
from flowmesh.format.frame import FrameKind
from flowmesh.host.descriptors import raise_descriptor_limit

PATIENCE_S = 60.0
PER_ADDRESS = 5_000
"""One address has too few ports for all; and the fewer are left, the longer it takes to find one."""
IP_BIND_ADDRESS_NO_PORT = 24
"""Of Linux: the port is chosen when it is known where the connection goes."""
SPARE_DESCRIPTORS = 100
_GET = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"


def open_idle(port: int, count: int, first_words: bytes) -> list[socket.socket]:
    """Each connection says its first words and hears an answer, so that it is one that the node has let in."""
    opened = []
    for row in range(count):
        one = connected(port, f"127.0.1.{1 + row // PER_ADDRESS}")
        one.sendall(first_words)
        opened.append(one)
        if row >= 50:
            require_heard(opened[row - 50])
    for one in opened[-50:]:
        require_heard(one)
    return opened


def connected(port: int, source: str) -> socket.socket:
    one = socket.socket()
    one.settimeout(PATIENCE_S)
    one.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
    one.bind((source, 0))
    one.connect(("127.0.0.1", port))
    return one


def require_heard(one: socket.socket) -> None:
    heard = one.recv(65_536)
    assert heard, "the node closed a connection"
    assert b"error" not in heard.lower(), heard


def main() -> None:
    limit = raise_descriptor_limit()
    wire, port, token, count = sys.stdin.readline().split()
    hello = frame.encode(FrameKind.HELLO, 0, 1, msgspec.msgpack.encode({"token": token}))
    words: dict[str, Callable[[], tuple[bytes, bytes]]] = {
        "frames": lambda: (hello, frame.encode(FrameKind.PING, 0, 2)),
        "http": lambda: (_GET, _GET),
    }
    first_words, later_words = words[wire]()
    opened = open_idle(int(port), min(int(count), limit - SPARE_DESCRIPTORS), first_words)
    sys.stdout.write(f"open {len(opened)}\n")
    sys.stdout.flush()
    for _ in sys.stdin:
        used = opened[::100]
        for one in used:
            one.sendall(later_words)
            require_heard(one)
        sys.stdout.write(f"used {len(used)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
