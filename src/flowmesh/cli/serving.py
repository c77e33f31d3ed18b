"""The work of `serve`: a node on an event loop, what it prints, and what signals do to it."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import signal
import stat
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import uvloop

from flowmesh.base.version import VERSION
from flowmesh.host.descriptors import raise_descriptor_limit
from flowmesh.host.settings_sources import Gathered
from flowmesh.observability import logs
from flowmesh.serve import RunningNode

EXIT_FAULT = 70
"""`EX_SOFTWARE`: a fault of FlowMesh itself."""
_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_OTHERS_MODE = stat.S_IRWXG | stat.S_IRWXO
logger = logging.getLogger("flowmesh.node")


def run(gathered: Gathered, *, as_json: bool) -> None:
    """Returns when the node has stopped in order; raises what kept it from starting or from stopping so."""
    settings = gathered.settings
    logs.set_up(settings.log_level, settings.log_format)
    threading.excepthook = _end_on_fault
    descriptors = raise_descriptor_limit()
    for variable in gathered.ignored:
        logger.warning("the variable %s is none of this node's settings and is ignored", variable)
    logger.info("starting flowmesh %s with at most %d open files", VERSION, descriptors)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(RunningNode(settings), as_json=as_json))


async def _serve(node: RunningNode, *, as_json: bool) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, _on_signal, number, stop)
    await node.start()
    gc.collect()
    gc.freeze()  # what a start leaves stays for good; later collections need not walk it
    _announce(_facts(node), as_json=as_json)
    await stop.wait()
    logger.info("stopping: no new work is taken; a second signal ends it at once")
    await node.stop()
    logger.info("stopped; everything acknowledged is on the disk")


def _on_signal(number: int, stop: asyncio.Event) -> None:
    """Once asks, twice ends: what was acknowledged is as safe as after a `kill -9`."""
    if stop.is_set():
        os._exit(128 + number)
    stop.set()


def _end_on_fault(fault: threading.ExceptHookArgs) -> None:
    """A thread died of a fault. Half a node would leave its callers waiting for good; a restart recovers."""
    thread = fault.thread.name if fault.thread is not None else "a thread"
    failure = fault.exc_value
    if failure is not None:
        logger.critical(
            "%s failed; the node ends, and recovers when it is started again",
            thread,
            exc_info=(type(failure), failure, fault.exc_traceback),
        )
    os._exit(EXIT_FAULT)


def _facts(node: RunningNode) -> dict[str, Any]:
    settings = node.settings
    tls = settings.tls_certificate is not None
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    directory = Path(settings.data_dir).resolve()
    _warn_of_others(directory)
    return {
        "version": VERSION,
        "node": node.node.id,
        "pid": os.getpid(),
        "http": f"{'https' if tls else 'http'}://{host}:{node.http.port}",
        "frames": f"{'flowmeshs' if tls else 'flowmesh'}://{host}:{node.frames.port}",
        "data_dir": str(directory),
        "token_file": str(directory / node.token_file.name),
        "streams": len(node.node.streams),
        "damaged_streams": sorted("/".join(key) for key in node.node.damaged),
    }


def _announce(facts: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"event": "ready", **facts}, separators=(",", ":")))
        return
    token = Path(facts["token_file"])
    lines = [
        f"flowmesh {facts['version']}, node {facts['node']}",
        f"  http    {facts['http']}",
        f"  frames  {facts['frames']}",
        f"  data    {facts['data_dir']}",
    ]
    if token.exists():
        lines.append(f"  token   {token} (the administrator's first token; only you can read this file)")
    lines += [f"  damaged {path}: it is not served; the log above says why" for path in facts["damaged_streams"]]
    click.echo("\n".join([*lines, "ready"]))


def _warn_of_others(directory: Path) -> None:
    if directory.stat().st_mode & _OTHERS_MODE:
        logger.warning("%s can be read by others than its owner; 'chmod 700' it", directory)
