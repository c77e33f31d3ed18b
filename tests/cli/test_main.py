"""The command as a whole: help, version, completion, and how it ends when something is wrong."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from flowmesh import __version__
from flowmesh.base.errors import FlowMeshError
from flowmesh.cli.group import FriendlyGroup
from flowmesh.cli.main import flowmesh
from tests.cli.running import COMMAND, append, call, numbers, run
from tests.tidy.tree import ROOT

HEAVY = ("rich", "msgspec", "cryptography", "zstandard", "flowmesh.assemble", "flowmesh.log")


def commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from commands(inner, (*path, name))


ALL = list(commands(flowmesh))


def title(item: object) -> str:
    return " ".join(("flowmesh", *item)) if isinstance(item, tuple) else ""


@pytest.mark.parametrize("path, command", ALL, ids=title)
def test_every_help_teaches_with_an_example(path: tuple[str, ...], command: click.Command) -> None:
    result = call(*path, "--help")
    assert result.exit_code == 0
    example = result.stdout.partition("Example:")[2]
    assert re.search(rf"^ +.*{title(path)}", example, re.MULTILINE)
    assert all(option.help for option in command.params if isinstance(option, click.Option))


@pytest.mark.parametrize("path, command", ALL, ids=title)
def test_the_reference_page_has_every_command_and_option(path: tuple[str, ...], command: click.Command) -> None:
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    section = re.search(rf"^## `{title(path)}`$(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    assert section is not None
    options = [name for option in command.params if isinstance(option, click.Option) for name in option.opts]
    assert [name for name in options if f"`{name}`" not in section[1]] == []


def test_the_reference_page_has_no_option_that_is_gone() -> None:
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    known = {name for _, command in ALL for option in command.params for name in option.opts} | {"--help"}
    assert set(re.findall(r"^\| `(--[a-z-]+)`", page, re.MULTILINE)) - known == set()


def test_version() -> None:
    assert run("--version").stdout.decode() == f"flowmesh {__version__}\n"


def test_help_loads_nothing_heavy() -> None:
    code = "import sys, flowmesh.cli.main; print(*(name for name in sys.argv[1:] if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code, *HEAVY], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_sound(shell: str) -> None:
    if shutil.which("bash") is None:
        pytest.skip("click asks bash for its version")
    script = run("completion", shell)
    assert script.returncode == 0, script.stderr
    assert b"_FLOWMESH_COMPLETE" in script.stdout
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script.stdout, check=True)


def test_bash_completes_commands_and_options(tmp_path: Path) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash here")
    program = tmp_path / "flowmesh"
    program.write_text(f'#!/bin/sh\nexec "{COMMAND[0]}" -m flowmesh "$@"\n')
    program.chmod(0o755)
    script = """
        source <(flowmesh completion bash)
        try() {
            COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
            _flowmesh_completion flowmesh; echo "${COMPREPLY[*]}"
        }
        try flowmesh log ""; try flowmesh log read --f
    """
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [bash, "-c", script], env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
    )
    verbs, options = done.stdout.splitlines()[-2:]
    assert verbs.split() == ["append", "checkpoint", "inspect", "read", "verify"], done.stderr
    assert options.split() == ["--from", "--follow"]


def test_an_unknown_command_is_wrong_usage() -> None:
    done = run("log", "reed", "somewhere")
    assert done.returncode == 2
    assert b"No such command 'reed'" in done.stderr


@pytest.mark.parametrize("verb", ["read", "inspect", "verify", "checkpoint"])
def test_a_missing_directory_is_named_with_what_to_do(verb: str, tmp_path: Path) -> None:
    key = ("--key", tmp_path / "key.pem") if verb == "checkpoint" else ()
    for place in (tmp_path / "nowhere", tmp_path):
        result = call("log", verb, place, *key)
        assert result.exit_code == 1
        assert str(place) in result.stderr
        assert "flowmesh log append" in result.stderr
    assert not (tmp_path / "key.pem").exists()


@pytest.mark.parametrize(
    "error, code, message",
    [
        (FlowMeshError("this is wrong.", hint="Do that."), 1, "error: this is wrong. Do that.\n"),
        (PermissionError(13, "Permission denied", "x.log"), 1, "error: x.log: Permission denied.\n"),
        (OSError(5, "Input/output error"), 1, "error: Input/output error.\n"),
        (BrokenPipeError(32, "Broken pipe"), 141, ""),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_errors_become_one_message_and_a_code(error: BaseException, code: int, message: str) -> None:
    @click.group(cls=FriendlyGroup)
    def program() -> None:
        """A program."""

    @program.command()
    def fail() -> None:
        raise error

    result = CliRunner().invoke(program, ["fail"])
    assert (result.exit_code, result.stderr) == (code, message)


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    append(tmp_path / "log", stdin=numbers(0, 100_000))
    with subprocess.Popen(
        [*COMMAND, "log", "read", str(tmp_path / "log")], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as reader:
        assert reader.stdout is not None
        assert reader.stderr is not None
        assert reader.stdout.readline() == b"0\n"
        reader.stdout.close()
        assert reader.stderr.read() == b""
        assert reader.wait(30) == 141


def test_output_that_nobody_takes_is_no_error() -> None:
    code = """
import sys, click
from flowmesh.cli.group import FriendlyGroup

@click.group(cls=FriendlyGroup)
def program(): ...

@program.command()
def write(): sys.stdout.write("still in the buffer when the command ends")

program(["write"])
"""
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([sys.executable, "-c", code], stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")
