"""The command line: what its options take, what its help tells, and the schemas that it prints."""

from __future__ import annotations

import dataclasses
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from execsrv import reference, schemas
from execsrv.cli import LIMITS, main, make_parser
from execsrv.config import ExecServerConfig
from execsrv.version import __version__

PATIENCE = 20.0


@pytest.fixture(autouse=True)
def settings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Wide help, and the signals' handlers put back, which belong to whole programs."""
    monkeypatch.setenv("COLUMNS", "200")
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGPIPE)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def option(field: str) -> str:
    """The option that sets a field of the configuration."""
    return "--" + field.replace("_", "-")


def run(*words: str) -> object:
    """The code that the program would exit with."""
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    return ended.value.code


# ---- the whole -----------------------------------------------------------------------------------------------------


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    """One line with the name."""
    assert run("--version") == 0
    assert capsys.readouterr().out == f"execsrv {__version__}\n"


@pytest.mark.parametrize("command", [[], ["run"], ["schema"]])
def test_help_explains_every_option(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Each has words behind it; those of the usage line are all there."""
    assert run(*command, "--help") == 0
    usage, _, text = capsys.readouterr().out.partition("\n\n")
    blocks = [block.strip() for block in re.split(r"\n(?=  -)", text)[1:]]
    for block in blocks:
        words = re.split(r"\s{2,}", block, maxsplit=1)[1:]
        assert words and len(words[0].split()) > 2, block
    for name in re.findall(r"\[(--[a-z-]+)", usage):
        assert any(block.startswith(name) for block in blocks), name


@pytest.mark.parametrize("words", [["--nope"], ["--max-conn", "1"], ["run", "--time", "1", "ls"], ["nope"]])
def test_what_is_unknown_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Abbreviations too: what they mean could change."""
    assert run(*words) == 2
    assert "error: " in capsys.readouterr().err


def test_ctrl_c_ends_the_program_without_a_traceback() -> None:
    """It ends by the signal itself; one that is ignored stays so."""
    run("--version")
    assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    run("--version")
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


# ---- options of the server -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [["--listen", "nonsense"], []])
def test_the_server_collects_its_garbage(words: list[str]) -> None:
    """But leaves alone what was imported, whether it serves or not."""
    script = f"""
import gc
from execsrv.cli import main
try:
    main({words!r})
finally:
    print("garbage", gc.isenabled(), gc.get_freeze_count() > 0)
"""
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE)
    assert b"garbage True True\n" in done.stdout + done.stderr  # a server on stdio lets no print out but there


def test_defaults_are_those_of_the_configuration() -> None:
    """There is an option for every field and no other."""
    args = make_parser().parse_args([])
    assert set(LIMITS) == {field.name for field in dataclasses.fields(ExecServerConfig)}
    assert ExecServerConfig(**{field: getattr(args, field) for field in LIMITS}) == ExecServerConfig()
    assert (args.listen, args.allow_origin, args.allow_host, args.insecure_no_auth) == ("stdio://", [], [], False)


@pytest.mark.parametrize("field", LIMITS)
def test_limits_within_their_range(field: str) -> None:
    """Both ends are allowed."""
    minimum, maximum, _ = LIMITS[field]
    for number in (minimum, maximum):
        assert getattr(make_parser().parse_args([f"{option(field)}={number}"]), field) == number


@pytest.mark.parametrize("field", LIMITS)
def test_limits_outside_of_their_range(field: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The message names the option, the value and the range."""
    minimum, maximum, _ = LIMITS[field]
    for number in (minimum - 1, maximum + 1):
        assert run(f"{option(field)}={number}") == 2
        error = capsys.readouterr().err
        assert f"argument {option(field)}: {number} is not in the range {minimum}..{maximum}\n" in error


@pytest.mark.parametrize("text", ["", "many", "1.5", "1e9", "1 MiB"])
def test_limits_are_integers(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What else is given is named."""
    assert run(f"--max-message-bytes={text}") == 2
    assert f"argument --max-message-bytes: invalid integer value: '{text}'" in capsys.readouterr().err


def test_repeated_options() -> None:
    """Origins and hosts add up."""
    words = ["--allow-origin", "http://a", "--allow-origin", "http://b", "--allow-host=x", "--allow-host=y"]
    args = make_parser().parse_args(words)
    assert (args.allow_origin, args.allow_host) == (["http://a", "http://b"], ["x", "y"])


def test_log_level(capsys: pytest.CaptureFixture[str]) -> None:
    """One of four."""
    assert make_parser().parse_args(["--log-level", "debug"]).log_level == "debug"
    assert run("--log-level", "loud") == 2
    assert "invalid choice: 'loud'" in capsys.readouterr().err


# ---- run -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words, argv",
    [
        (["echo", "-n", "hi"], ["echo", "-n", "hi"]),
        (["--", "echo", "--", "-x"], ["echo", "--", "-x"]),
        (["sh", "--l", "-h", "--version", "--tty"], ["sh", "--l", "-h", "--version", "--tty"]),
        (["--", "--odd"], ["--odd"]),
        (["a b", "-1", "-"], ["a b", "-1", "-"]),
        (["--cwd", "/", "--env=A=1", "x", "--cwd"], ["x", "--cwd"]),
    ],
)
def test_the_command_has_its_own_options(words: list[str], argv: list[str]) -> None:
    """Everything from the first word that is no option of ours, with or without ``--``."""
    args = make_parser().parse_args(["run", *words])
    assert args.argv == argv
    assert not args.tty


def test_options_of_run() -> None:
    """Each in its place; later variables win over earlier ones of the same name."""
    words = ["--tty", "--url=ws://h", "--cwd", "/d", "--env", "A=1", "--env", "A=b=c", "--env", "B=", "--timeout=.5"]
    args = make_parser().parse_args(["run", *words, "ls"])
    assert (args.tty, args.url, args.cwd, args.timeout) == (True, "ws://h", "/d", 0.5)
    assert dict(args.env) == {"A": "b=c", "B": ""}


@pytest.mark.parametrize("words", [[], ["--"], ["--tty"], ["--env", "A=1", "--"]])
def test_run_wants_a_command(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong use, as for any missing argument."""
    assert run("run", *words) == 2
    assert "execsrv run: error: the following arguments are required: CMD\n" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["A", "=1", ""])
def test_variables_have_a_name_and_a_value(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What has not is named."""
    assert run("run", f"--env={text}", "ls") == 2
    assert f"argument --env: {text!r} is not of the form NAME=VALUE\n" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "soon", "86401"])
def test_the_timeout_is_a_number_of_seconds(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Above 0 and at most a day."""
    assert make_parser().parse_args(["run", "--timeout", "86400", "ls"]).timeout == 86400
    assert run("run", f"--timeout={text}", "ls") == 2
    assert f"argument --timeout: {text!r} is not a number of seconds above 0" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["run", "true"], ["schema", "initialize"]])
@pytest.mark.parametrize(
    "option", ["--listen=ws://127.0.0.1:0", "--allow-origin=http://a", "--insecure-no-auth", "--max-connections=1"]
)
def test_options_of_the_server_before_a_command(
    command: list[str], option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """They would have no effect, so they are refused."""
    assert run("--log-level=info", option, *command) == 2
    name = option.partition("=")[0]
    assert f"execsrv: error: argument {name}: only for serving, not with a command\n" in capsys.readouterr().err


# ---- schema --------------------------------------------------------------------------------------------------------


def test_the_schema_of_a_method(capsys: pytest.CaptureFixture[str]) -> None:
    """As JSON, complete in itself."""
    assert run("schema", "process/start") == 0
    assert json.loads(capsys.readouterr().out) == schemas.schema("process/start")


def test_all_schemas(capsys: pytest.CaptureFixture[str]) -> None:
    """One object with a member for each method."""
    assert run("schema") == 0
    assert json.loads(capsys.readouterr().out) == {name: schemas.schema(name) for name in schemas.methods()}


def test_the_schema_of_an_unknown_method(capsys: pytest.CaptureFixture[str]) -> None:
    """One line that tells which there are, and nothing on stdout."""
    assert run("schema", "process/nope") == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("execsrv: unknown method: process/nope; known are command/exec, ")
    assert err.count("\n") == 1


def test_the_reference(capsys: pytest.CaptureFixture[str]) -> None:
    """As Markdown."""
    assert run("schema", "--markdown") == 0
    assert capsys.readouterr().out == reference.markdown() + "\n"


def test_the_reference_is_one_piece(capsys: pytest.CaptureFixture[str]) -> None:
    """There is none of a single method."""
    assert run("schema", "initialize", "--markdown") == 2
    assert "argument --markdown: not allowed with argument METHOD\n" in capsys.readouterr().err


def test_nobody_reads_the_schemas() -> None:
    """The program ends as others do in a pipeline, and says nothing."""
    command = [sys.executable, "-m", "execsrv", "schema"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
        assert program.stdout and program.stderr
        program.stdout.close()
        assert program.wait(PATIENCE) == -signal.SIGPIPE
        assert program.stderr.read() == b""
