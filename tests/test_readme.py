"""The README tells the truth: its examples run, its commands and options are the real ones."""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from run_program import Server

import execsrv.session
from execsrv.cli import make_parser
from execsrv.session import SessionConfig, UnifiedExecManager, load_config

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
TIMEOUT = 60


def blocks(language: str) -> list[str]:
    """The fenced blocks in a language."""
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def pattern_of(line: str) -> re.Pattern[str]:
    """A regular expression for an expected line, in which ``...`` stands for anything."""
    return re.compile(".+".join(re.escape(part) for part in line.split("...")))


def test_the_client_example_prints_what_it_says() -> None:
    """Every comment behind a print is what it prints."""
    example, _ = blocks("python")
    done = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode == 0, done.stderr
    expected = re.findall(r"print\(.*\)  # (.*)", example)
    assert len(expected) == 3
    printed = done.stdout.splitlines()
    assert [line for line in printed if line in expected] == expected
    assert "42" in done.stdout


def test_the_agent_example_does_what_it_says(server: Server, tmp_path: Path) -> None:
    """With a real server and workspace; each comment behind a call is a line of the answer."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    settings, example = (
        block.replace("ws://127.0.0.1:8765", server.url).replace("/srv/workspace", str(workspace))
        for block in (blocks("toml")[0], blocks("python")[1])
    )
    (tmp_path / "agent.toml").write_text(settings)
    command = [sys.executable, "-c", example]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode == 0, done.stderr
    expected = re.findall(r"yield .*\}  # (.*)", example)
    assert len(expected) == 4
    printed = [line.strip() for line in done.stdout.splitlines()]
    assert [line for line in printed if line in expected] == expected
    assert (workspace / "out" / "total.txt").read_text() == "42\n"


def test_the_settings_of_a_session_are_all_there(caplog: pytest.LogCaptureFixture) -> None:
    """Every key and no other; the defaults and the profile are as it says."""
    (settings,) = blocks("toml")
    keys = {field.name for field in dataclasses.fields(SessionConfig)}
    assert set(tomllib.loads(settings)) == keys | {"features", "profiles"}
    _, _, rest = settings.partition("# Those below have their defaults.\n")
    defaults, _, _ = rest.partition("[features]")
    assert "experimental_" in defaults and load_config(defaults) == SessionConfig()
    assert load_config(settings).experimental_unified_exec_use_exec_server
    assert not load_config(settings, "here").experimental_unified_exec_use_exec_server
    assert caplog.records == []


@pytest.mark.parametrize("call", [UnifiedExecManager.exec_command, UnifiedExecManager.write_stdin])
def test_the_calls_for_commands_have_these_defaults(call: Callable[..., object]) -> None:
    """Those that stand there are the real ones."""
    parameters = list(inspect.signature(call).parameters.values())[1:]
    shown = [
        parameter.name if parameter.default is parameter.empty else f"{parameter.name}={parameter.default!r}"
        for parameter in parameters
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    ]
    assert f"    {call.__name__}({', '.join(shown)})\n".replace("'", '"') in README


def test_every_name_of_a_session_is_explained() -> None:
    """Where the session is, not only in the table of other names."""
    section = README.partition("## One environment for an agent\n")[2].partition("\n## ")[0]
    names = set(re.findall(r"\w+", section))
    assert set(execsrv.session.__all__) <= names, set(execsrv.session.__all__) - names


def test_the_session_on_stdio_goes_as_it_says() -> None:
    """Line by line, against the real program."""
    (session,) = blocks("text")
    server = subprocess.Popen(
        [sys.executable, "-m", "execsrv"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    assert server.stdin and server.stdout
    with server:
        for line in session.splitlines():
            arrow, message = line[:2], line[3:]
            if arrow == "->":
                json.loads(message)
                server.stdin.write(message + "\n")
            else:
                assert pattern_of(message).fullmatch(server.stdout.readline().strip()), line
        server.stdin.close()
        assert server.wait(TIMEOUT) == 0


def test_ci_runs_exactly_the_readmes_test_command() -> None:
    """The second command is a line of ``.ci/run``."""
    install, test = blocks("sh")
    assert test.strip() in (ROOT / ".ci" / "run").read_text().splitlines()
    assert "pytest" in test and "run -- echo" in install


@pytest.mark.parametrize("prefix", ["--listen", "--allow-", "--max-", "--shutdown-"])
def test_some_options_are_there(prefix: str) -> None:
    """The next test looks at something."""
    assert any(option.startswith(prefix) for option in options())


def test_every_option_of_the_server_is_explained() -> None:
    """In the table, with the default's unit left to the reader of the code."""
    for option in options() - {"--help", "--version"}:
        assert f"| `{option}" in README, option


def options() -> set[str]:
    """The long options of the server."""
    actions: list[argparse.Action] = make_parser()._actions
    return {option for action in actions for option in action.option_strings if option.startswith("--")}
