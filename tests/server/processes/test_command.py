"""What a start request may say."""

from __future__ import annotations

from typing import Any

import pytest

from execsrv.errors import InvalidParams, InvalidRequest
from execsrv.protocol.processes import EnvPolicy, Size
from execsrv.server.processes.command import Command, make_command, refuse_sandbox


def make(**changes: Any) -> Command:
    """A command with some words changed."""
    return make_command(**{"argv": ["prog", "ö"], "cwd": "/tmp", "env": {"A": "b"}, "size": None, **changes})


def test_the_words_become_bytes() -> None:
    """The program is looked for under its own name, whatever it is told as argv[0]."""
    assert make() == Command(b"prog", (b"prog", "ö".encode()), b"/tmp", {b"A": b"b"}, None, False)
    assert make(arg0="other").argv == (b"other", "ö".encode())
    assert make(arg0="other").program == b"prog"
    assert make(arg0="").argv[0] == b""


@pytest.mark.parametrize(
    "changes, has_stdin", [({}, False), ({"pipe_stdin": True}, True), ({"size": Size()}, True)]
)
def test_a_terminal_always_has_an_input(changes: dict[str, Any], has_stdin: bool) -> None:
    """Pipes have one when it is asked for."""
    assert make(**changes).has_stdin is has_stdin


def test_cwd_may_be_a_file_uri() -> None:
    """Percent-decoded to bytes that need not be UTF-8."""
    assert make(cwd="file:///tmp/a%20b%FF").cwd == b"/tmp/a b\xff"


@pytest.mark.parametrize(
    "changes, fault",
    [
        ({"argv": []}, "argv must not be empty"),
        ({"argv": ["a\0"]}, "params.argv[0]"),
        ({"argv": ["a", "\ud800"]}, "params.argv[1]"),
        ({"arg0": "\0"}, "params.arg0"),
        ({"arg0": "\udfff"}, "params.arg0"),
        ({"cwd": "tmp"}, "params.cwd"),
        ({"cwd": ""}, "params.cwd"),
        ({"cwd": "/\0"}, "params.cwd"),
        ({"cwd": "/\ud800"}, "params.cwd"),
        ({"cwd": "file://elsewhere/tmp"}, "params.cwd"),
        ({"cwd": "file:///tmp?query"}, "params.cwd"),
        ({"cwd": "file:///tmp#fragment"}, "params.cwd"),
        ({"env": {"": "x"}}, "params.env['']"),
        ({"env": {"A=B": "x"}}, "params.env['A=B']"),
        ({"env": {"OK": "x", "A\0": "x"}}, "params.env['A\\x00']"),
        ({"env": {"A": "x\0"}}, "params.env['A']"),
        ({"env": {"A": "\ud800"}}, "params.env['A']"),
        ({"env": {"\ud800": "x"}}, "params.env['\\ud800']"),
        ({"env_policy": EnvPolicy(set={"A=": "x"})}, "params.envPolicy.set['A=']"),
        ({"env_policy": EnvPolicy(set={"A": "\0"})}, "params.envPolicy.set['A']"),
    ],
)
def test_what_no_process_can_be_started_with_is_named(changes: dict[str, Any], fault: str) -> None:
    """The message begins with the entry, and can be sent as UTF-8."""
    with pytest.raises(InvalidParams) as caught:
        make(**changes)
    assert caught.value.message.startswith(fault)
    assert caught.value.kind == "invalidParams"
    caught.value.to_wire()["message"].encode()


def test_a_message_does_not_repeat_a_huge_name() -> None:
    """An error stays small however large the params are."""
    with pytest.raises(InvalidParams) as caught:
        make(env={"x" * 1_000_000 + "=": ""})
    assert len(caught.value.to_wire()["message"]) < 2_000


def test_an_empty_argv_is_told_before_an_odd_cwd() -> None:
    """The checks come in a fixed order."""
    with pytest.raises(InvalidParams, match="argv must not be empty"):
        make(argv=[], cwd="tmp", env={"": ""})
    with pytest.raises(InvalidParams, match="params.cwd"):
        make(cwd="tmp", env={"": ""})


@pytest.mark.parametrize("sandbox", [None, {"mode": "none"}])
def test_no_sandbox_is_no_problem(sandbox: dict[str, Any] | None) -> None:
    """Absent or none."""
    refuse_sandbox(sandbox)


def test_a_sandbox_is_refused() -> None:
    """The server has none to offer."""
    with pytest.raises(InvalidRequest) as caught:
        refuse_sandbox({"mode": "hostDefault"})
    assert caught.value.message == "sandbox mode `hostDefault` is not supported by exec-server yet"
    assert caught.value.kind == "sandboxUnsupported"
