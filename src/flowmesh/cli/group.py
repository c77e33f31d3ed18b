"""How a command ends when something is wrong: one clear message, an exit code, and never a traceback."""

from __future__ import annotations

import os
import sys
from typing import IO, Any

import click

from flowmesh.base.errors import FlowMeshError

EXIT_INTERRUPTED = 130
EXIT_PIPE_CLOSED = 141
"""128 and the number of SIGINT and SIGPIPE, as a shell reports programs that these end."""


class Refused(click.ClickException):
    """What stood in the way and what to do about it, for standard error. Exit code 1; wrong usage has 2."""

    exit_code = 1

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"{click.style('error:', fg='red', bold=True)} {self.message}", file=file, err=file is None)


def complain(message: str) -> None:
    """Something that does not end the command, and must not go into its output."""
    click.echo(message, err=True)


class FriendlyGroup(click.Group):
    """The one place where errors of the layers below become something that a person reads."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()  # here, where a reader that has gone is still dealt with
            return result
        except FlowMeshError as error:
            raise Refused(str(error))
        except BrokenPipeError:
            _discard_output()
            raise click.exceptions.Exit(EXIT_PIPE_CLOSED)
        except KeyboardInterrupt:
            raise click.exceptions.Exit(EXIT_INTERRUPTED)
        except OSError as error:
            place = f"{error.filename}: " if error.filename else ""
            raise Refused(f"{place}{error.strerror or error}.")


def _discard_output() -> None:
    """What is still buffered has no reader; without this the interpreter would complain when it exits."""
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError):
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
