"""The load process: one line of JSON in says what to do, one line out what was measured."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import msgspec

from benchmarks import load_frames, load_http, load_sdk

TASKS: dict[str, Callable[..., Any]] = {
    "pipelined": load_frames.pipelined,
    "alone": load_frames.alone,
    "plain_sync": load_frames.plain_sync,
    "frames_open_loop": load_frames.open_loop,
    "produce": load_sdk.produce,
    "encode": load_sdk.encode,
    "consume": load_sdk.consume,
    "read_log": load_sdk.read_log,
    "posts": load_http.posts,
    "bulk": load_http.bulk,
    "http_open_loop": load_http.open_loop,
}


def main() -> None:
    for line in sys.stdin.buffer:
        task, arguments = msgspec.json.decode(line)
        print(msgspec.json.encode(TASKS[task](**arguments)).decode(), flush=True)


if __name__ == "__main__":
    main()
