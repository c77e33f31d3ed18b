"""Real nodes for the tests of this folder: `flowmesh serve` as a process, talked to as a stranger would."""

from __future__ import annotations

import http.client
import json
import os
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

PATIENCE_S = 30
"""How long a node may take to start or to stop. Nothing is measured with it."""


@dataclass
class Served:
    process: subprocess.Popen[str]
    facts: dict[str, Any]
    log: Path

    @property
    def data_dir(self) -> Path:
        return Path(self.facts["data_dir"])

    @property
    def token(self) -> str:
        return Path(self.facts["token_file"]).read_text(encoding="utf-8").strip()

    def stop(self, number: int = 15) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)

    def connection(self, context: ssl.SSLContext | None = None) -> http.client.HTTPConnection:
        place = urlsplit(self.facts["http"])
        if place.scheme == "https":
            return http.client.HTTPSConnection(str(place.hostname), place.port, timeout=PATIENCE_S, context=context)
        return http.client.HTTPConnection(str(place.hostname), place.port, timeout=PATIENCE_S)

    def ask(
        self, method: str, path: str, body: Any = None, *, token: str | None = "", context: ssl.SSLContext | None = None
    ) -> tuple[int, Any]:
        """Status and body, decoded when it is JSON. Without `token` it is the administrator's; None sends none."""
        connection = self.connection(context)
        headers = {"content-type": "application/json"}
        if token is not None:
            headers["authorization"] = f"Bearer {token or self.token}"
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            data = answer.read()
        finally:
            connection.close()
        is_json = "json" in (answer.getheader("content-type") or "")
        return answer.status, json.loads(data) if is_json and data else data.decode()


def command(*arguments: object, program: Sequence[str] = ("-m", "flowmesh")) -> list[str]:
    return [sys.executable, *program, "serve", *map(str, arguments)]


def environment(**more: str) -> dict[str, str]:
    """This process's, without settings that somebody's shell may hold."""
    return {name: value for name, value in os.environ.items() if not name.startswith("FLOWMESH_")} | more


@contextmanager
def serving(
    data_dir: Path,
    *arguments: object,
    variables: Mapping[str, str] | None = None,
    program: Sequence[str] = ("-m", "flowmesh"),
) -> Iterator[Served]:
    """A node on free ports that has said it is ready; killed and reaped when the block is left. `program` is what
    Python runs, for a node with a bug planted in it."""
    log = data_dir.parent / f"{data_dir.name}.log"
    where = ("--data-dir", data_dir, "--http-port", 0, "--frames-port", 0, "--json")
    with log.open("a", encoding="utf-8") as stderr:
        process = subprocess.Popen(
            command(*where, *arguments, program=program),
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            env=environment(**(variables or {})),
        )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, f"the node did not start: {log.read_text(encoding='utf-8')[-2000:]}"
        yield Served(process, json.loads(line), log)
    finally:
        process.kill()
        process.wait(PATIENCE_S)
        if process.stdout is not None:
            process.stdout.close()


def refused(*arguments: object, **variables: str) -> tuple[int, str]:
    """Exit code and what is said, of a node that does not start."""
    ended = subprocess.run(
        command(*arguments),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        env=environment(**variables),
    )
    assert "Traceback" not in ended.stderr
    assert ended.stdout == ""
    return ended.returncode, ended.stderr
