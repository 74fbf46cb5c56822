"""The program's options, where it listens, whom it lets in, and how it stops."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable

import pytest
from endings import gone
from links import PATIENCE, Program, ask_for_upgrade
from peer import OpenPeer, Peer
from proc import is_alive

LIMITS = [
    *("--max-message-bytes", "--max-read-file-bytes", "--retained-output-bytes", "--exited-retention-ms"),
    *("--max-processes-per-connection", "--max-connections", "--shutdown-grace-ms"),
]


def run(*options: str) -> subprocess.CompletedProcess[str]:
    """Run the program to its end, with nothing on stdin."""
    command = [sys.executable, "-m", "execsrv", *options]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE)


# ---- options -------------------------------------------------------------------------------------------------------


def test_help_explains_every_option() -> None:
    """Each has words beside its name."""
    done = run("--help")
    assert done.returncode == 0
    options = re.findall(r"^  (--[a-z-]+)(?: \S+)?\s+(\S.*)$", done.stdout, re.MULTILINE)
    explained = {name for name, words in options if words}
    assert {"--log-level", "--listen", "--allow-origin", "--allow-host", "--insecure-no-auth", *LIMITS} <= explained


@pytest.mark.parametrize("value", ["1.5", "", str(2**64)])
def test_numbers_are_checked(value: str) -> None:
    """One line names the option."""
    done = run(f"--max-message-bytes={value}")
    assert done.returncode == 2 and "--max-message-bytes" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_every_limit_has_a_range() -> None:
    """All at once, each wrong by itself."""
    for option in LIMITS:
        assert run(f"{option}=-1").returncode == 2, option


def test_without_options_stdio_is_served() -> None:
    """``--listen stdio://`` says the same; at once at the end of its input it ends with 0, silently."""
    for options in ([], ["--listen", "stdio://"]):
        done = run(*options)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("url", ["", "http://127.0.0.1:1", "stdio:/", "127.0.0.1:5", "wss://127.0.0.1:0"])
def test_an_unsupported_url_is_refused(url: str) -> None:
    """In these words."""
    done = run("--listen", url)
    assert done.returncode == 1
    words = f"unsupported --listen URL `{url}`; expected `stdio://` or `ws://IP:PORT`"
    assert done.stderr.endswith(f"{words}\n") and len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "url",
    ["ws://127.0.0.1", "ws://localhost:0", "ws://127.0.0.1:65536", "ws://::1:5", "ws://127.0.0.1:x", "ws://1.2:5"],
)
def test_an_invalid_websocket_url_is_refused(url: str) -> None:
    """In these words; also host names."""
    done = run("--listen", url)
    assert done.returncode == 1
    words = f"invalid websocket --listen URL `{url}`; expected `ws://IP:PORT`"
    assert done.stderr.endswith(f"{words}\n") and len(done.stderr.splitlines()) == 1


def test_a_port_in_use_is_named() -> None:
    """One line, exit 1."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"ws://127.0.0.1:{taken.getsockname()[1]}"
        done = run("--listen", url)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert url.rpartition(":")[2] in line and "in use" in line


def test_only_loopback_is_listened_on_unless_told_so(listen: Callable[..., Program]) -> None:
    """With the flag there is a warning."""
    for url in ("ws://0.0.0.0:0", "ws://[::]:0"):
        done = run("--listen", url)
        assert done.returncode == 1 and "--insecure-no-auth" in done.stderr and len(done.stderr.splitlines()) == 1
    server = Program("--listen", "ws://0.0.0.0:0", "--insecure-no-auth")
    try:
        assert server.url.startswith("ws://0.0.0.0:") and "warning" in server.log.lower()
    finally:
        server.end()


def test_the_url_is_printed_with_the_port_bound(server: Program) -> None:
    """One line on stderr ends with it."""
    assert server.url
    (line,) = [line for line in server.log.splitlines() if "listening" in line]
    assert re.fullmatch(r"execsrv listening on ws://127\.0\.0\.1:[1-9][0-9]*", line)


def test_ipv6_goes_in_brackets() -> None:
    """And the URL that is printed can be connected to."""
    server = Program("--listen", "ws://[::1]:0")
    try:
        assert server.url.startswith("ws://[::1]:")
        peer = Peer.over_websocket(server).handshake()
        assert peer.run("true").exited["exitCode"] == 0
        peer.close()
    finally:
        server.end()


def test_the_log_level_says_what_is_logged(listen: Callable[..., Program], open_websocket: OpenPeer) -> None:
    """To stderr; neither output nor input of a process is ever in it."""
    server = listen("--log-level", "debug")
    peer = open_websocket(server).handshake()
    peer.run("sh", "-c", "echo visible-$((40+2))", env={"PATH": os.environ["PATH"], "VALUE": "private-word"})
    peer.close()
    ask_for_upgrade(server.url, Origin="https://evil.example")[0].close()
    server.process.terminate()
    assert server.wait() == 0
    assert "403" in server.log and "visible-42" not in server.log and "private-word" not in server.log
    assert run("--log-level", "loud").returncode == 2


# ---- who is let in -------------------------------------------------------------------------------------------------


def status(server: Program, **changes: str | None) -> int:
    """The status that a handshake with these headers is answered with."""
    sock, line = ask_for_upgrade(server.url, **changes)
    sock.close()
    return int(line.split()[1])


def test_plain_http_is_told_to_upgrade(server: Program) -> None:
    """426 for whatever does not ask for a websocket of version 13."""
    assert status(server) == 101
    for changes in ({"Upgrade": None}, {"Upgrade": "h2c"}, {"Connection": "close"}, {"Sec_WebSocket_Version": "8"}):
        assert status(server, **changes) == 426, changes


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost", "http://127.0.0.1", ""])
def test_web_pages_are_turned_away(server: Program, origin: str) -> None:
    """Whatever their origin, before the upgrade."""
    assert status(server, Origin=origin) == 403


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "localhost.evil.example", "127.0.0.1.evil"])
def test_a_foreign_host_is_turned_away(server: Program, host: str) -> None:
    """A page whose name was pointed at this address (DNS rebinding)."""
    assert status(server, Host=host) == 403


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1", "10.1.2.3:99", "[::1]", "[::1]:5"])
def test_addresses_and_localhost_are_hosts(server: Program, host: str) -> None:
    """Ports are ignored."""
    assert status(server, Host=host) == 101


def test_origins_and_hosts_can_be_allowed(listen: Callable[..., Program]) -> None:
    """Exactly those, several of each."""
    origins = ["--allow-origin", "https://good.example", "--allow-origin", "http://also.example:8080"]
    server = listen(*origins, "--allow-host", "Box.example", "--allow-host", "other")
    for origin, wanted in (
        *(("https://good.example", 101), ("http://also.example:8080", 101), ("http://good.example", 403)),
        *(("https://good.example:443", 403), ("https://GOOD.example", 403), ("https://good.example.evil", 403)),
    ):
        assert status(server, Origin=origin) == wanted, origin
    for host, wanted in (("box.example", 101), ("box.example:7", 101), ("other", 101), ("x.other", 403)):
        assert status(server, Host=host) == wanted, host


# ---- the end -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_connections_and_processes(number: signal.Signals, listen: Callable[..., Program]) -> None:
    """The exit is told with its reason, the websocket closed, the port free, the code 0."""
    server = listen()
    peers = [Peer.over_websocket(server).handshake() for _ in range(2)]
    ids = [peer.start("sh", "-c", "trap '' TERM; sleep 1000") for peer in peers]
    pids = [peer.event("process/started", id)["pid"] for peer, id in zip(peers, ids)]
    server.process.send_signal(number)
    for peer, id in zip(peers, ids):
        peer.end()
        exited = peer.finish(id).exited
        assert (exited["exitCode"], exited["reason"]) == (137, "shutdown")
        assert peer.link.close_code() == 1001  # type: ignore[attr-defined]
        peer.close()
    assert server.wait() == 0
    assert all(gone(pid) for pid in pids)
    host, port = server.url.removeprefix("ws://").split(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_server_on_stdio(number: signal.Signals, open_stdio: OpenPeer) -> None:
    """Though its input stays open."""
    peer = open_stdio().handshake()
    process_id = peer.start("sleep", "1000", tty=True)
    peer.program.process.send_signal(number)
    peer.end()
    assert peer.finish(process_id).exited["reason"] == "shutdown"
    assert peer.program.wait() == 0


def test_processes_get_time_to_end_when_there_is_a_grace(
    listen: Callable[..., Program], open_websocket: OpenPeer
) -> None:
    """SIGTERM first; those that ignore it are killed when the time is up."""
    server = listen("--shutdown-grace-ms", "1000")
    peer = open_websocket(server).handshake()
    polite = peer.start("sh", "-c", "trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 0.05; done")
    stubborn = peer.start("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done")
    for process_id in (polite, stubborn):
        peer.wait_for_output(process_id, b"ready")
    server.process.terminate()
    peer.end()
    life = peer.finish(polite)
    assert (life.stdout, life.exited["exitCode"], life.exited["reason"]) == (b"ready\nbye\n", 3, "shutdown")
    assert peer.finish(stubborn).exited["exitCode"] == 137
    assert server.wait() == 0


def test_an_exit_does_not_wait_for_a_client_that_does_not_read(listen: Callable[..., Program]) -> None:
    """Nor for one that never finishes its handshake."""
    server = listen()
    peer = Peer.over_websocket(server).handshake()
    pid = peer.event("process/started", peer.start("yes"))["pid"]
    host, port = server.url.removeprefix("ws://").split(":")
    with socket.create_connection((host, int(port))):
        server.process.terminate()
        assert server.wait() == 0
    assert gone(pid)
    peer.close()


def test_two_signals_are_no_more_than_one(listen: Callable[..., Program]) -> None:
    """The end goes on."""
    server = listen()
    assert server.url
    for _ in range(3):
        server.process.terminate()
    assert server.wait() == 0


# ---- stdout belongs to the protocol --------------------------------------------------------------------------------

STRAY = """
import os, sys
from gevent import spawn_later

def stray():
    print("stray print", flush=True)
    os.write(1, b"stray write\\n")
    os.system("echo stray child")
    spawn_later(0.01, stray)

spawn_later(0.01, stray)
from execsrv.cli import main
main()
"""


def test_a_stray_print_reaches_stderr_instead(open_stdio: OpenPeer) -> None:
    """From Python, past Python, or from a child of the server: the peer would fail on such a line."""
    peer = open_stdio(command=[sys.executable, "-c", STRAY]).handshake()
    while "stray child" not in peer.program.log:
        assert peer.run("echo", "hi").stdout == b"hi\n"
    assert "stray print" in peer.program.log and "stray write" in peer.program.log


def test_stdin_is_no_childs(open_stdio: OpenPeer) -> None:
    """A child that reads what it inherits takes nothing of the conversation."""
    peer = open_stdio().handshake()
    life = peer.run("sh", "-c", "cat; ls -l /proc/self/fd")
    assert b"socket" not in life.stdout
    assert peer.run("true").exited["exitCode"] == 0


def test_descriptors_that_are_closed_at_the_start_do_no_harm(
    listen: Callable[..., Program], open_websocket: OpenPeer
) -> None:
    """Without stdin and stdout a websocket server works, and its children have all three."""
    command = ["sh", "-c", 'exec "$@" <&- >&-', "sh", sys.executable, "-m", "execsrv"]
    server = listen(command=command)
    peer = open_websocket(server).handshake()
    assert peer.run("sh", "-c", "ls /proc/$$/fd").stdout.split() == [b"0", b"1", b"2"]
    assert is_alive(server.pid)
