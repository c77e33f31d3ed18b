"""`flowmesh serve`: its options. Running a node is `serving`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from flowmesh.host.settings import DEFAULTS, RULES, flag_of

CommandT = TypeVar("CommandT", bound=Callable[..., Any])
CONFIG_VARIABLE = "FLOWMESH_CONFIG"


def _setting_options(command: CommandT) -> CommandT:
    """One option for each setting, in the order of the settings."""
    for name, rule in reversed([*RULES.items()]):
        default = getattr(DEFAULTS, name)
        shown = "none" if default is None else default
        option = click.option(
            flag_of(name), name, metavar=_metavar(name, default), help=f"{rule.meaning}  [default: {shown}]"
        )
        command = option(command)
    return command


def _metavar(name: str, default: object) -> str:
    if name.endswith("_bytes"):
        return "SIZE"
    return "NUMBER" if isinstance(default, int | float) else "TEXT"


@click.command()
@click.option(
    "--config",
    "config",
    envvar=CONFIG_VARIABLE,
    metavar="FILE",
    help=f"A YAML file with settings.  [environment: {CONFIG_VARIABLE}]",
)
@_setting_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines, in the log as well.")
@click.option("--print-config", is_flag=True, help="Print the settings that hold and where each comes from, and end.")
def serve(config: str | None, as_json: bool, print_config: bool, **given: str | None) -> None:
    """Run a node, until SIGTERM or Ctrl-C.

    It prints where it listens, where its data and the administrator's first token lie, and then a line that says
    'ready'. A setting may be given as an option, as a variable (--http-port is FLOWMESH_HTTP_PORT), or in the YAML
    file (http_port: 7400), in that order of precedence.

    The first signal ends it in order: nothing new is taken, long polls are answered, what was acknowledged is
    flushed, and the exit code is 0. A second one ends it at once; what was acknowledged is safe then, too.

    \b
    Example:
      flowmesh serve
      flowmesh serve --data-dir /var/lib/flowmesh --config /etc/flowmesh.yaml
      FLOWMESH_HTTP_PORT=8080 flowmesh serve --print-config
    """
    import os

    from flowmesh.host.settings_sources import as_yaml, gather

    flags = {name: value for name, value in given.items() if value is not None}
    if as_json:
        flags.setdefault("log_format", "json")
    gathered = gather(flags, os.environ, config)
    if print_config:
        click.echo(as_yaml(gathered), nl=False)
        return
    from flowmesh.cli.serving import run

    run(gathered, as_json=as_json)
