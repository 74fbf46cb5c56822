"""The command line: serve, run a command through a server, print the schemas."""

from __future__ import annotations

import argparse
import gc
import json
import logging
import os
import signal
import sys
from typing import Any, NoReturn

from argparse_addons import Integer

from execsrv.config import LIMITS, MAX_MS, ExecServerConfig
from execsrv.version import __version__

LOG_LEVELS = ("debug", "info", "warning", "error")


def main(argv: list[str] | None = None) -> NoReturn:
    """Run the command line and end the program with the command's code."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not so when it is to be ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends us without a traceback
    parser = make_parser()
    args = parser.parse_args(argv)
    if args.execute is not _serve:
        _refuse_server_options(parser, args)
    logging.basicConfig(
        stream=sys.stderr, level=args.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    sys.exit(args.execute(args))


def make_parser() -> argparse.ArgumentParser:
    """The parser; ``execute`` of what it returns takes it and returns an exit code."""
    parser = argparse.ArgumentParser(
        prog="execsrv",
        description="Start and control processes and files for a client over JSON-RPC. Without a command: serve.",
        allow_abbrev=False,  # an abbreviation is sought among the words of `run`'s command too
    )
    parser.set_defaults(execute=_serve)
    parser.add_argument("--version", action="version", version=f"execsrv {__version__}")
    parser.add_argument("--log-level", choices=LOG_LEVELS, default="warning", help="log to stderr from this level on")
    _add_server_options(parser)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    _add_run(commands)
    _add_schema(commands)
    return parser


def _add_server_options(parser: argparse.ArgumentParser) -> None:
    listen = parser.add_argument_group("serving")
    listen.add_argument(
        "--listen", metavar="URL", default="stdio://", help="stdio:// (the default) or ws://IP:PORT; port 0 picks one"
    )
    listen.add_argument(
        "--allow-origin",
        metavar="ORIGIN",
        action="append",
        default=[],
        help="let web pages of exactly this origin connect; without it none may (repeatable)",
    )
    listen.add_argument(
        "--allow-host",
        metavar="NAME",
        action="append",
        default=[],
        help="accept this name in the Host header, beside IP addresses and localhost (repeatable)",
    )
    listen.add_argument(
        "--insecure-no-auth",
        action="store_true",
        help="listen on an address that other machines reach, though anybody there may then run commands here",
    )
    limits = parser.add_argument_group("limits")
    defaults = ExecServerConfig()
    for field, (minimum, maximum, meaning) in LIMITS.items():
        limits.add_argument(
            f"--{field.replace('_', '-')}",
            metavar="N",
            type=Integer(minimum, maximum),
            default=getattr(defaults, field),
            help=f"{meaning} (%(default)s)",
        )


def _refuse_server_options(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """End the program if there are some: a command would not heed them."""
    for field in ("listen", "allow_origin", "allow_host", "insecure_no_auth", *LIMITS):
        if getattr(args, field) != parser.get_default(field):
            parser.error(f"argument --{field.replace('_', '-')}: only for serving, not with a command")


def _add_run(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    run = commands.add_parser(
        "run",
        help="run a command through a server",
        description="Run a command through a server, pass stdin and output on and end with the command's exit code "
        "(128+N for signal N; 124 timed out, 125 a failure of our own, 126 not executable, 127 not found). "
        "A terminal's keys are for a command with --tty; without, it finds its stdin empty.",
        usage="%(prog)s [OPTION ...] [--] CMD [ARG ...]",
        allow_abbrev=False,
    )
    run.set_defaults(execute=_run)
    run.add_argument("--url", help="the server, as ws://HOST:PORT; without it a local one is started for this command")
    run.add_argument("--tty", action="store_true", help="run it on a terminal of its own, connected to this one")
    run.add_argument("--cwd", metavar="DIR", help="directory on the server's machine (the server's own)")
    run.add_argument(
        "--env",
        metavar="K=V",
        action="append",
        default=[],
        type=_variable,
        help="set a variable on top of the server's environment (repeatable)",
    )
    run.add_argument("--timeout", metavar="S", type=_seconds, help="kill the command after this many seconds")
    run.add_argument(
        "argv",
        metavar="CMD",
        nargs=argparse.REMAINDER,
        action=_TakeCommand,
        help="the command; whatever follows it is for it, as with env(1)",
    )


def _add_schema(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    schema = commands.add_parser("schema", help="print the JSON Schema of a method, or of all")
    schema.set_defaults(execute=_print_schema)
    choice = schema.add_mutually_exclusive_group()
    choice.add_argument("method", metavar="METHOD", nargs="?", help="for example process/start")
    choice.add_argument("--markdown", action="store_true", help="print the reference of all methods as Markdown")


class _TakeCommand(argparse.Action):
    """Take the command with all its arguments, from the first word that is no option of ours, or from ``--``."""

    def __call__(
        self, parser: argparse.ArgumentParser, args: argparse.Namespace, words: Any, option: str | None = None
    ) -> None:
        command = words[1:] if words[:1] == ["--"] else words
        if not command:
            parser.error("the following arguments are required: CMD")
        setattr(args, self.dest, command)


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form NAME=VALUE")
    return name, value


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= MAX_MS / 1000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0 and up to {MAX_MS // 1000}")
    return seconds


# ---- commands; each imports what it needs, so that a start is quick ------------------------------------------------


def _serve(args: argparse.Namespace) -> int:
    if sys.platform != "linux":
        return _fail("the server runs on Linux only")
    gc.disable()  # what is imported is no garbage, and need not be looked through
    from execsrv.server import daemon
    from execsrv.server.listen import ListenError, parse_listen_url

    gc.freeze()  # or the next collection would look through it all
    gc.enable()
    config = ExecServerConfig(**{field: getattr(args, field) for field in LIMITS})
    try:
        address = parse_listen_url(args.listen)
    except ListenError as error:
        return _fail(str(error))
    if address is None:
        daemon.serve_stdio(config)
        return 0
    if not address.is_loopback:
        if not args.insecure_no_auth:
            return _fail(f"{args.listen} is not a loopback address: anybody who reaches it could run commands here; "
                         "--insecure-no-auth allows that")
        print("execsrv: warning: anybody who reaches this address can run commands here", file=sys.stderr)
    try:
        daemon.serve_websocket(address.host, address.port, config, args.allow_origin, args.allow_host)
    except OSError as error:
        return _fail(f"cannot listen on {args.listen}: {error.strerror}")
    return 0


def _run(args: argparse.Namespace) -> int:
    from execsrv.run import Command, run_command

    cwd = args.cwd if args.url or args.cwd is None else os.path.abspath(args.cwd)  # a local server's files are ours
    return run_command(Command(args.argv, args.tty, cwd, dict(args.env), args.timeout), args.url)


def _print_schema(args: argparse.Namespace) -> int:
    from execsrv import reference, schemas

    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # end quietly when nobody reads it all
    if args.markdown:
        print(reference.markdown())
        return 0
    if args.method is not None and args.method not in schemas.methods():
        return _fail(f"unknown method: {args.method}; known are {', '.join(schemas.methods())}")
    chosen = schemas.schema(args.method) if args.method else {name: schemas.schema(name) for name in schemas.methods()}
    print(json.dumps(chosen, indent=2))
    return 0


def _fail(message: str) -> int:
    print(f"execsrv: {message}", file=sys.stderr)
    return 1
