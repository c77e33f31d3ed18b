"""Guessing at tokens of a real node: slowed down on both wires together, and in the way of nobody else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest

from flowmesh.access.throttle import FAILURES_MAX
from flowmesh.format.frame import FrameKind
from flowmesh.testing import NodeProcess
from tests.api.frames.wire import Wire, content
from tests.withstand.talk import PATIENCE_S, Honest, Ports

GUESSES = 3 * FAILURES_MAX
REFUSED, TOLD_TO_WAIT = "UNAUTHENTICATED", "TOO_MANY_REQUESTS"


class Guesser:
    """Somebody at an address, with as many connections as guesses."""

    def __init__(self, ports: Ports, address: str) -> None:
        self.ports = ports
        self.address = address

    def over_http(self, token: str) -> str:
        """OK, or the error's code."""
        connection = HTTPConnection("127.0.0.1", self.ports.http, PATIENCE_S, source_address=(self.address, 0))
        connection.request("GET", "/v1/node", headers={"authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        told = json.loads(answer.read())
        connection.close()
        assert answer.status in (200, 401, 429)
        if answer.status == 429:
            assert answer.getheader("retry-after") == "60"
        return "OK" if answer.status == 200 else str(told["code"])

    def over_frames(self, token: str) -> str:
        with Wire(self.ports.frames, source=self.address) as wire:
            wire.send(FrameKind.HELLO, 0, {"token": token})
            answer = wire.receive()
            return "OK" if answer.kind == FrameKind.REPLY else str(content(answer)["code"])

    def over(self, wire: str, token: str) -> str:
        return self.over_http(token) if wire == "http" else self.over_frames(token)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path / "data") as running:
        yield running


def made_token(honest: Honest) -> str:
    token: str = honest.ask("POST", "/v1/tokens", {"tenant": "default", "permissions": ["node.read"]})["token"]
    return token


@pytest.mark.parametrize("wires", [("http",), ("frames",), ("http", "frames")], ids="+".join)
def test_guessing_is_slowed_down_and_others_are_served(node: NodeProcess, wires: tuple[str, ...]) -> None:
    ports = Ports.of(node.http_url, node.url)
    honest, guesser = Honest(ports, node.token), Guesser(ports, "127.0.2.1")
    target = made_token(honest)
    identity = target.partition(".")[0]
    told = [guesser.over(wires[turn % len(wires)], f"{identity}.guess{turn}") for turn in range(GUESSES)]
    assert told == [REFUSED] * FAILURES_MAX + [TOLD_TO_WAIT] * (GUESSES - FAILURES_MAX)
    for wire in ("http", "frames"):
        assert guesser.over(wire, target) == TOLD_TO_WAIT, "the right secret is no longer found by guessing"
        assert guesser.over(wire, node.token) == "OK", "another token of the same address is good"
        assert Guesser(ports, "127.0.2.2").over(wire, target) == "OK", "another address is not to blame"
        assert guesser.over(wire, target) == TOLD_TO_WAIT, "that it was used elsewhere opens no door here"
    honest.require_served()
    honest.close()


@pytest.mark.parametrize("wire", ["http", "frames"])
def test_whether_there_is_a_token_of_that_id_is_not_told(node: NodeProcess, wire: str) -> None:
    """Neither by the answers to guesses at it, nor by what they do to the answers to other guesses."""
    ports = Ports.of(node.http_url, node.url)
    honest = Honest(ports, node.token)
    known = made_token(honest).partition(".")[0]
    unknown = "a" * len(known)
    honest.close()
    told = []
    for number, (first, second) in enumerate([(known, unknown), (unknown, known), (known, known), (unknown, unknown)]):
        guesser = Guesser(ports, f"127.0.3.{1 + number}")
        answers = [guesser.over(wire, f"{first}.guess{turn}") for turn in range(FAILURES_MAX + 2)]
        told.append(answers + [guesser.over(wire, f"{second}.guess{turn}") for turn in range(3)])
    assert told[0] == told[1]
    assert told[2] == told[3]


def test_a_hello_on_a_connection_that_was_let_in_is_a_guess_like_any_other(node: NodeProcess) -> None:
    ports = Ports.of(node.http_url, node.url)
    told = []
    for turn in range(FAILURES_MAX + 5):
        with Wire(ports.frames, node.token, source="127.0.4.1") as wire:
            wire.send(FrameKind.HELLO, 0, {"token": f"{'a' * 16}.guess{turn}"})
            told.append(str(wire.last_words()["code"]))
    assert told == [REFUSED] * FAILURES_MAX + [TOLD_TO_WAIT] * 5
