"""The README tells the truth: its examples run, its commands and options are the real ones."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from execsrv.cli import make_parser

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
    (example,) = blocks("python")
    done = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode == 0, done.stderr
    expected = re.findall(r"print\(.*\)  # (.*)", example)
    assert len(expected) == 3
    printed = done.stdout.splitlines()
    assert [line for line in printed if line in expected] == expected
    assert "42" in done.stdout


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
