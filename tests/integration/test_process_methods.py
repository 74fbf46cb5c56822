"""Starting, reading, writing to and terminating processes, on both transports."""

from __future__ import annotations

import base64
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from endings import gone
from links import Program
from peer import PATH, OpenPeer, Peer
from proc import is_alive


def text_of(chunk: bytes) -> str:
    """Base64 text of bytes."""
    return base64.b64encode(chunk).decode()


def fault_of(error: dict[str, Any]) -> tuple[int, str]:
    """Code and kind."""
    return error["code"], error["data"]["kind"]


# ---- what to run ---------------------------------------------------------------------------------------------------


def test_a_start_is_answered_before_anything_is_told_of_the_process(peer: Peer) -> None:
    """Then ``started`` with the pid, output, exited, closed; seqs count from 1 (the peer checks that)."""
    id, process_id = peer.request_start("sh", "-c", "echo $$; exit 3")
    life = peer.finish(process_id)
    answer, *events = peer.transcript[-5:]
    assert answer == {"id": id, "result": {"processId": process_id}}
    methods = [event["method"] for event in events]
    assert methods == ["process/started", "process/output", "process/exited", "process/closed"]
    started = peer.event("process/started", process_id)
    assert int(life.stdout) == started["pid"]
    assert life.exited == {"processId": process_id, "seq": 2, "exitCode": 3, "signal": None, "reason": "exited"}
    assert life.closed == {"processId": process_id, "seq": 3, "outputComplete": True}


@pytest.mark.parametrize("process_id", ["", " ", "é\U0001f600", "a\0b", "x" * 10_000, "1"])
def test_any_text_is_a_process_id(peer: Peer, process_id: str) -> None:
    """It is the client's own word."""
    life = peer.run("echo", "hi", processId=process_id)
    assert life.stdout == b"hi\n"


def test_a_process_id_is_unique_in_its_connection_only(open_websocket: OpenPeer) -> None:
    """Two connections may use the same; neither reaches the other's."""
    first, second = open_websocket().handshake(), open_websocket().handshake()
    for peer in (first, second):
        peer.start("cat", processId="same", pipeStdin=True)
    assert first.call("process/terminate", processId="same") == {"running": True}
    assert second.call("process/read", processId="same")["exited"] is False


def test_a_used_id_is_refused(peer: Peer) -> None:
    """While it runs, and while it is retained after it has closed."""
    process_id = peer.start("cat", pipeStdin=True)
    for _ in range(2):
        error = peer.refused_start("true", processId=process_id)
        assert error["message"] == f"process {process_id} already exists"
        assert fault_of(error) == (-32600, "duplicateProcess")
        peer.call("process/terminate", processId=process_id)
        peer.finish(process_id)


def test_an_empty_argv_is_refused(peer: Peer) -> None:
    """And the id stays free."""
    error = peer.refused_start(processId="empty")
    assert (error["message"], *fault_of(error)) == ("argv must not be empty", -32602, "invalidParams")
    assert peer.run("true", processId="empty").exited["exitCode"] == 0


@pytest.mark.parametrize(
    "params, field",
    [
        ({"argv": ["echo", "a\0b"]}, "argv[1]"),
        ({"argv": ["\ud800"]}, "argv[0]"),
        ({"arg0": "\0"}, "arg0"),
        ({"cwd": "/\0"}, "cwd"),
        ({"cwd": "/\ud800"}, "cwd"),
        ({"env": {"": "x"}}, "env"),
        ({"env": {"A=B": "x"}}, "env"),
        ({"env": {"NUL": "a\0"}}, "NUL"),
        ({"env": {"LONE": "\udfff"}}, "LONE"),
        ({"envPolicy": {"set": {"A=B": "x"}}}, "envPolicy.set"),
    ],
)
def test_what_no_program_can_be_given_is_refused(peer: Peer, params: dict[str, Any], field: str) -> None:
    """NUL, lone surrogates, odd names of variables: the entry is named."""
    start = {"processId": peer.new_id(), "argv": ["true"], "cwd": "/", "env": {}, "tty": False, **params}
    error = peer.refused("process/start", **start)
    assert fault_of(error) == (-32602, "invalidParams")
    assert field in error["message"], error


def test_cwd_is_a_path_or_a_file_uri(peer: Peer, tmp_path: Path) -> None:
    """Percent-decoded to bytes that need not be UTF-8; localhost counts as no host."""
    odd = os.fsencode(tmp_path) + b"/a b\xff%"
    os.mkdir(odd)
    escaped = f"{tmp_path}/a%20b%FF%25"
    for cwd in (f"file://{escaped}", f"file://localhost{escaped}", f"FILE://{escaped}"):
        assert peer.run("pwd", "-P", cwd=cwd).stdout == odd + b"\n"
    assert peer.run("pwd", "-P", cwd=str(tmp_path)).stdout == os.fsencode(tmp_path) + b"\n"


@pytest.mark.parametrize(
    "cwd", ["", "relative", "./x", "file://host/", "file:///a?b", "file:///a#b", "file:relative", "file:///%00", "~"]
)
def test_an_odd_cwd_is_refused(peer: Peer, cwd: str) -> None:
    """Relative ones, and URIs with a host, a query or a fragment."""
    error = peer.refused_start("true", cwd=cwd)
    assert fault_of(error) == (-32602, "invalidParams")
    assert error["message"].startswith("params.cwd: ")


def test_env_is_the_whole_environment(peer: Peer) -> None:
    """Nothing of the server's own comes along."""
    assert peer.run("/usr/bin/env", env={}).stdout == b""
    output = peer.run("/usr/bin/env", "-0", env={"A": "1=2", "é": "\n"}).stdout
    assert sorted(output.split(b"\0")) == [b"", b"A=1=2", b"\xc3\xa9=\n"]


SERVER_ENV = {
    **PATH,
    **{"HOME": "/home/x", "LANG": "C", "LC_ALL": "C.UTF-8", "Other": "o", "API_KEY": "k", "my_secret": "s"},
    **{"GITHUB_TOKEN": "t", "PYTHONPATH": os.getcwd()},
}


@pytest.mark.parametrize(
    "policy, env, wanted",
    [
        ({}, {}, {"PATH", "HOME", "LANG", "LC_ALL", "Other", "PYTHONPATH"}),
        ({"inherit": "core"}, {}, {"PATH", "HOME", "LANG", "LC_ALL"}),
        ({"inherit": "none"}, {"A": "1"}, {"A"}),
        ({"inherit": "all", "ignoreDefaultExcludes": True}, {}, {*SERVER_ENV}),
        ({"exclude": ["oth*", "l?_all", "p*"]}, {}, {"HOME", "LANG"}),
        ({"inherit": "none", "set": {"API_KEY": "mine"}}, {}, {"API_KEY"}),
        ({"exclude": ["HOME"], "set": {"HOME": "/set"}, "includeOnly": ["home", "x*"]}, {}, {"HOME"}),
        ({"includeOnly": ["nothing"]}, {"API_KEY": "given", "B": "2"}, {"API_KEY", "B"}),
        ({"includeOnly": []}, {}, {"PATH", "HOME", "LANG", "LC_ALL", "Other", "PYTHONPATH"}),
        (dict.fromkeys(["inherit", "ignoreDefaultExcludes", "exclude", "set", "includeOnly"]), {}, None),
    ],
)
def test_an_env_policy_gives_a_base(
    policy: dict[str, Any], env: dict[str, str], wanted: set[str] | None, policy_peer: Peer
) -> None:
    """Inherit, default excludes, exclude, set, includeOnly, in this order; ``env`` is laid over it."""
    life = policy_peer.run("/usr/bin/env", "-0", env=env, envPolicy=policy)
    names = {entry.split("=")[0] for entry in life.stdout.decode().split("\0") if entry}
    default = {"PATH", "HOME", "LANG", "LC_ALL", "Other", "PYTHONPATH"}
    assert names - {"LC_CTYPE"} == (default if wanted is None else wanted)


@pytest.fixture(scope="module")
def policy_peer() -> Any:
    """A peer whose server has an environment that is known."""
    peer = Peer.over_stdio(env=SERVER_ENV).handshake()
    yield peer
    peer.close()


def test_env_wins_over_the_policy(policy_peer: Peer) -> None:
    """Also over what it sets."""
    policy = {"inherit": "none", "set": {"A": "policy", "B": "policy"}}
    assert policy_peer.run("/usr/bin/env", env={"A": "env"}, envPolicy=policy).stdout.split() == [b"A=env", b"B=policy"]


def test_the_program_is_looked_up_in_the_childs_path(peer: Peer, tmp_path: Path) -> None:
    """Not in the server's; without a PATH in the system's default one; a slash means relative to cwd."""
    program = tmp_path / "bin" / "sh"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho mine\n")
    program.chmod(0o755)
    assert peer.run("sh", "-c", "echo usual", env={"PATH": str(program.parent)}).stdout == b"mine\n"
    assert peer.run("sh", "-c", "echo usual", env={}).stdout == b"usual\n"
    assert peer.run("bin/sh", cwd=str(tmp_path), env={}).stdout == b"mine\n"
    assert peer.run("./sh", cwd=str(program.parent), env={}).stdout == b"mine\n"


def test_a_failed_start_names_what_is_at_fault(peer: Peer, tmp_path: Path) -> None:
    """The program or the cwd, with the system's words; the id is free again."""
    plain = tmp_path / "plain"
    plain.write_text("echo no")
    cases: list[tuple[str, str, str, str]] = [
        ("/no/such", "/", "spawnNotFound", "/no/such"),
        ("no-such-program", "/", "spawnNotFound", "no-such-program"),
        (str(plain), "/", "spawnPermissionDenied", str(plain)),
        (str(tmp_path), "/", "spawnPermissionDenied", str(tmp_path)),
        ("true", "/no/such/place", "spawnNotFound", "cwd /no/such/place"),
        ("true", str(plain), "spawnNotFound", str(plain)),
    ]
    for program, cwd, kind, named in cases:
        error = peer.refused_start(program, cwd=cwd, processId="failing")
        assert fault_of(error) == (-32603, kind), error
        assert named in error["message"]
    assert peer.run("true", processId="failing").exited["exitCode"] == 0


def test_requests_about_a_start_that_fails_find_nobody(peer: Peer) -> None:
    """They waited for it."""
    start, process_id = peer.request_start("/no/such", pipeStdin=True)
    write = peer.request("process/write", processId=process_id, chunk="")
    read = peer.request("process/read", processId=process_id)
    assert peer.error(start)["code"] == -32603
    assert peer.error(write)["data"]["kind"] == peer.error(read)["data"]["kind"] == "unknownProcess"


def test_arg0_is_what_the_child_sees(peer: Peer) -> None:
    """The program itself is still argv[0]."""
    assert peer.run("sh", "-c", "tr '\\0' '\\n' </proc/$$/cmdline | head -n1", arg0="-other").stdout == b"-other\n"
    assert peer.run("sh", "-c", "head -c2 /proc/$$/cmdline", arg0="").stdout == b"\0-"


def test_sandboxes(peer: Peer) -> None:
    """None is the only mode there is; any word but the two is a wrong shape."""
    assert peer.run("true", sandbox={"mode": "none"}).exited["exitCode"] == 0
    error = peer.refused_start("true", sandbox={"mode": "hostDefault"})
    assert error["message"] == "sandbox mode `hostDefault` is not supported by exec-server yet"
    assert fault_of(error) == (-32600, "sandboxUnsupported")
    for sandbox in ({"mode": "other"}, {"mode": None}, {}, "none"):
        assert peer.refused_start("true", sandbox=sandbox)["code"] == -32602


# ---- what the child finds ------------------------------------------------------------------------------------------


def test_without_a_tty_stdin_is_at_its_end(peer: Peer) -> None:
    """Unless a pipe is asked for; stdout and stderr are pipes, told apart."""
    life = peer.run("sh", "-c", "cat; echo out; echo err >&2; tty")
    assert (life.stdout, life.stderr, life.pty) == (b"out\nnot a tty\n", b"err\n", b"")
    life = peer.run("sh", "-c", "stat -L -c %F /proc/self/fd/1 /proc/self/fd/2")
    assert life.stdout == b"fifo\nfifo\n"


def test_on_a_tty_the_child_leads_a_session_with_a_terminal(peer: Peer) -> None:
    """Its stream is ``pty``, the size is set before it starts, /dev/tty opens."""
    script = "tty; stty size; ps -o pid=,sid=,tpgid= -p $$; echo err >&2; echo tty >/dev/tty"
    life = peer.run("sh", "-c", script, tty=True, size={"rows": 50, "cols": 200})
    name, size, ids, *rest = life.pty.decode().split("\r\n")
    assert name.startswith("/dev/pts/") and size == "50 200" and rest == ["err", "tty", ""]
    pid, session, foreground = ids.split()
    assert pid == session == foreground
    assert (life.stdout, life.stderr) == (b"", b"")


def test_a_terminal_is_24_by_80_unless_told(peer: Peer) -> None:
    """Each of the two numbers by itself."""
    assert peer.run("stty", "size", tty=True).pty == b"24 80\r\n"
    assert peer.run("stty", "size", tty=True, size={"rows": 65535}).pty == b"65535 80\r\n"
    assert peer.run("stty", "size", tty=True, size={"cols": 1, "rows": None}).pty == b"24 1\r\n"


def test_interrupt_and_job_control_work_on_a_tty(peer: Peer) -> None:
    """Ctrl-C reaches the foreground group; an interactive shell has jobs."""
    program = "import time; print('ready', flush=True); time.sleep(1000)"  # a shell may lose a signal before its fork
    process_id = peer.start(sys.executable, "-S", "-c", program, tty=True)
    peer.wait_for_output(process_id, b"ready", "pty")
    peer.call("process/write", processId=process_id, chunk=text_of(b"\x03"))
    exited = peer.finish(process_id).exited
    assert (exited["exitCode"], exited["signal"], exited["reason"]) == (130, "SIGINT", "signaled")
    life = peer.run("bash", "--norc", "-ic", "sleep 1000 & jobs; kill %1; exit 5", tty=True)
    assert b"Running" in life.pty and b"no job control" not in life.pty
    assert life.exited["exitCode"] == 5


def test_without_a_tty_the_child_leads_a_group(peer: Peer) -> None:
    """Of its own, not the server's."""
    life = peer.run("sh", "-c", "ps -o pid=,pgid= -p $$")
    pid, group = life.stdout.split()
    assert pid == group


@pytest.mark.parametrize("tty", [False, True])
def test_signals_are_at_their_defaults(tty: bool, open_stdio: OpenPeer) -> None:
    """Nothing ignored (but glibc's own two), nothing blocked, though the server was started with both."""
    def spoil() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    peer = open_stdio(preexec_fn=spoil).handshake()
    life = peer.run("grep", "^Sig[BI]", "/proc/self/status", tty=tty)
    blocked, ignored = (int(line.split()[1], 16) for line in (life.stdout + life.pty).splitlines())
    assert blocked == 0
    assert ignored & ~(0b11 << 31) == 0


def test_the_child_has_the_descriptor_limit_that_the_server_began_with(open_stdio: OpenPeer) -> None:
    """The server raises its own. Many times, since a child that looks at once must find it as well."""
    def lower() -> None:
        import resource

        resource.setrlimit(resource.RLIMIT_NOFILE, (200, 900))

    peer = open_stdio(preexec_fn=lower).handshake()
    started = [peer.request_start("sh", "-c", "ulimit -Sn; ulimit -Hn")[1] for _ in range(50)]
    assert {peer.finish(process_id).stdout for process_id in started} == {b"200\n900\n"}
    limits = Path(f"/proc/{peer.program.pid}/limits").read_text()
    assert next(line for line in limits.splitlines() if "open files" in line).split()[3:5] == ["900", "900"]


@pytest.mark.parametrize("tty", [False, True])
def test_the_child_has_no_descriptor_but_three(tty: bool, open_stdio: OpenPeer) -> None:
    """Not the protocol's, not another child's, and none that the server was started with."""
    read_end, write_end = os.pipe()
    try:
        peer = open_stdio(pass_fds=[read_end, write_end]).handshake()
    finally:
        os.close(read_end)
        os.close(write_end)
    peer.start("cat", pipeStdin=True)
    peer.start("cat", tty=True)
    life = peer.run("sh", "-c", "ls /proc/$$/fd", tty=tty)
    assert (life.stdout + life.pty).split() == [b"0", b"1", b"2"]


# ---- write ---------------------------------------------------------------------------------------------------------


def test_bytes_are_written_in_order_and_whole(peer: Peer) -> None:
    """A megabyte, pipelined in odd pieces, comes back as it went."""
    data = os.urandom(1_000_003)
    process_id = peer.start("head", "-c", str(len(data)), pipeStdin=True)
    pieces = [data[at : at + 77_777] for at in range(0, len(data), 77_777)]
    asked = [peer.request("process/write", processId=process_id, chunk=text_of(piece)) for piece in pieces]
    assert all(peer.result(id) == {"accepted": True, "status": "accepted"} for id in asked)
    assert peer.finish(process_id).stdout == data


def test_a_write_that_has_no_stdin_is_refused(peer: Peer) -> None:
    """Pipes without ``pipeStdin``, and after the exit, also of a terminal; an unknown id is another fault."""
    ended = [peer.start("true", pipeStdin=True), peer.start("true", tty=True)]
    for process_id in ended:
        peer.finish(process_id)
    for process_id in (peer.start("sleep", "100"), *ended):
        error = peer.refused("process/write", processId=process_id, chunk="")
        assert error["message"] == f"stdin is closed for process {process_id}"
        assert fault_of(error) == (-32600, "stdinClosed")
    error = peer.refused("process/write", processId="nobody", chunk="")
    assert (error["message"], *fault_of(error)) == ("unknown process id nobody", -32600, "unknownProcess")


@pytest.mark.parametrize("chunk", ["%", "a", "YQ", "YQ=", "YQ==x", "Y Q=", "YQ==\n", "Y-_=", "é"])
def test_a_chunk_that_is_not_base64_is_invalid(peer: Peer, chunk: str) -> None:
    """Standard alphabet, padded, nothing else."""
    process_id = peer.start("cat", pipeStdin=True)
    assert fault_of(peer.refused("process/write", processId=process_id, chunk=chunk)) == (-32602, "invalidParams")


def test_a_child_that_does_not_read_delays_its_writes_only(peer: Peer) -> None:
    """When it ends, they are answered that stdin is closed."""
    deaf = peer.start("sleep", "1000", pipeStdin=True)
    stuck = peer.request("process/write", processId=deaf, chunk=text_of(bytes(1_000_000)))
    other = peer.start("cat", pipeStdin=True)
    assert peer.call("process/write", processId=other, chunk="aGk=")
    assert peer.wait_for_output(other, b"hi")
    peer.call("process/terminate", processId=deaf)
    assert peer.error(stuck)["message"] == f"stdin is closed for process {deaf}"


def test_a_write_is_refused_while_8_mib_wait(peer: Peer) -> None:
    """One of any size is taken first; the limit is named."""
    deaf = peer.start("sleep", "1000", pipeStdin=True)
    stuck = peer.request("process/write", processId=deaf, chunk=text_of(bytes(9_000_000)))
    error = peer.refused("process/write", processId=deaf, chunk="aGk=")
    assert fault_of(error) == (-32600, "limitExceeded") and str(8 * 1024 * 1024) in error["message"]
    peer.call("process/terminate", processId=deaf)
    assert peer.error(stuck)["data"]["kind"] == "stdinClosed"


# ---- read ----------------------------------------------------------------------------------------------------------


def three_chunks(peer: Peer) -> str:
    """A process that has written three chunks and waits."""
    process_id = peer.start("sh", "-c", "echo one; read x; echo two >&2; read x; echo three; read x", pipeStdin=True)
    for stream, word in (("stdout", b"one\n"), ("stderr", b"two\n"), ("stdout", b"three\n")):
        peer.wait_for_output(process_id, word, stream)
        if word != b"three\n":
            peer.call("process/write", processId=process_id, chunk=text_of(b"\n"))
    return process_id


def test_read_returns_what_is_retained_after_a_seq(peer: Peer) -> None:
    """Oldest first; ``nextSeq`` is the last one's successor, or the next to come."""
    process_id = three_chunks(peer)
    everything = peer.call("process/read", processId=process_id)
    assert everything == {
        "chunks": [
            {"seq": 1, "stream": "stdout", "chunk": text_of(b"one\n")},
            {"seq": 2, "stream": "stderr", "chunk": text_of(b"two\n")},
            {"seq": 3, "stream": "stdout", "chunk": text_of(b"three\n")},
        ],
        **{"nextSeq": 4, "exited": False, "exitCode": None, "closed": False},
        **{"truncated": False, "firstSeq": 1, "droppedBytes": 0, "failure": None},
    }
    for after, seqs, next_seq in ((0, [1, 2, 3], 4), (1, [2, 3], 4), (3, [], 4), (99, [], 4)):
        answer = peer.call("process/read", processId=process_id, afterSeq=after)
        assert ([chunk["seq"] for chunk in answer["chunks"]], answer["nextSeq"]) == (seqs, next_seq)


def test_read_stops_at_max_bytes_but_gives_one_chunk(peer: Peer) -> None:
    """A page may be asked for after the other."""
    process_id = three_chunks(peer)
    for limit, seqs in ((0, [1]), (1, [1]), (4, [1]), (7, [1]), (8, [1, 2]), (13, [1, 2]), (14, [1, 2, 3])):
        answer = peer.call("process/read", processId=process_id, maxBytes=limit)
        assert [chunk["seq"] for chunk in answer["chunks"]] == seqs
        assert answer["nextSeq"] == seqs[-1] + 1


def test_read_counts_exit_and_close(peer: Peer) -> None:
    """They take a seq each; a closed process is answered at once however long the wait."""
    process_id = peer.run("sh", "-c", "echo boom >&2; exit 3").exited["processId"]
    answer = peer.call("process/read", processId=process_id, afterSeq=1, waitMs=86_400_000)
    assert (answer["chunks"], answer["nextSeq"]) == ([], 4)
    assert (answer["exited"], answer["exitCode"], answer["closed"]) == (True, 3, True)
    assert peer.call("process/read", processId=process_id)["chunks"][0]["chunk"] == text_of(b"boom\n")


def test_read_waits_for_what_it_has_not_seen(peer: Peer) -> None:
    """Output, exit and close each end a wait; one that is over finds nothing."""
    process_id = peer.start("sh", "-c", "read x; echo hi; exec cat", pipeStdin=True)
    answer = peer.call("process/read", processId=process_id, waitMs=1)
    assert (answer["chunks"], answer["nextSeq"], answer["exited"]) == ([], 1, False)
    waiting = peer.request("process/read", processId=process_id, waitMs=60_000)
    peer.call("process/write", processId=process_id, chunk=text_of(b"\n"))
    assert peer.result(waiting)["chunks"] == [{"seq": 1, "stream": "stdout", "chunk": text_of(b"hi\n")}]
    waiting = peer.request("process/read", processId=process_id, afterSeq=1, waitMs=60_000)
    peer.call("process/terminate", processId=process_id)
    answer = peer.result(waiting)
    assert (answer["exited"], answer["exitCode"], answer["chunks"]) == (True, 137, [])
    assert peer.call("process/read", processId=process_id, afterSeq=2, waitMs=60_000)["closed"] is True


def test_only_the_newest_output_is_retained(open_peer: OpenPeer) -> None:
    """Whole chunks, at least one; a read is told what is gone, but only when it asked for that."""
    peer = open_peer("--retained-output-bytes", "10").handshake()
    process_id = three_chunks(peer)
    answer = peer.call("process/read", processId=process_id)
    assert [chunk["seq"] for chunk in answer["chunks"]] == [2, 3]
    assert (answer["truncated"], answer["firstSeq"], answer["droppedBytes"]) == (True, 2, 4)
    assert peer.call("process/read", processId=process_id, afterSeq=1)["truncated"] is False


def test_a_closed_process_is_forgotten_in_time(open_peer: OpenPeer) -> None:
    """Then its id is free, and a read is told when it ended and how, unlike for an id that never was."""
    peer = open_peer("--exited-retention-ms", "0").handshake()
    life = peer.run("sh", "-c", "exit 3", processId="p")
    assert life.exited["exitCode"] == 3
    error = peer.refused("process/read", processId="p")
    while error["data"]["kind"] != "processForgotten":
        error = peer.refused("process/read", processId="p")
    assert error["message"] == "unknown process id p" and error["code"] == -32600
    assert error["data"].keys() == {"kind", "exitCode", "exitedAtMs"} and error["data"]["exitCode"] == 3
    never = peer.refused("process/read", processId="q")
    assert (never["message"], never["data"]) == ("unknown process id q", {"kind": "unknownProcess"})
    peer.transcript.clear()
    assert peer.run("true", processId="p").exited["exitCode"] == 0


def test_the_oldest_ends_are_forgotten_altogether(open_websocket: OpenPeer, listen: Callable[..., Program]) -> None:
    """The last 256 are remembered."""
    peer = open_websocket(listen("--exited-retention-ms", "0")).handshake()
    ids = [f"p{number}" for number in range(300)]
    for at in range(0, 300, 50):
        for process_id in ids[at : at + 50]:
            peer.request_start("true", processId=process_id)
        for process_id in ids[at : at + 50]:
            peer.event("process/closed", process_id)
    kinds = [peer.refused("process/read", processId=process_id)["data"]["kind"] for process_id in ids]
    assert kinds.count("processForgotten") == 256 and kinds.count("unknownProcess") == 44


def test_at_most_1024_requests_wait(peer: Peer) -> None:
    """Those above are refused; the others are answered when it ends."""
    process_id = peer.start("cat", pipeStdin=True)
    asked = [peer.request("process/read", processId=process_id, waitMs=60_000) for _ in range(1030)]
    for id in asked[1024:]:
        error = peer.error(id)
        assert fault_of(error) == (-32600, "limitExceeded") and "1024" in error["message"]
    peer.call("process/terminate", processId=process_id)
    assert all(peer.result(id)["exited"] for id in asked[:1024])


# ---- terminate -----------------------------------------------------------------------------------------------------


def test_terminate_kills_and_tells_whether_it_ran(peer: Peer) -> None:
    """SIGKILL, reason ``terminated``; exited and closed still follow; the second time it was over."""
    process_id = peer.start("sh", "-c", "trap '' TERM HUP INT; echo ready; sleep 1000")
    peer.wait_for_output(process_id, b"ready")
    assert peer.call("process/terminate", processId=process_id) == {"running": True}
    life = peer.finish(process_id)
    assert (life.exited["exitCode"], life.exited["signal"]) == (137, "SIGKILL")
    assert life.exited["reason"] == "terminated"
    assert peer.call("process/terminate", processId=process_id) == {"running": False}
    assert peer.call("process/terminate", processId="nobody") == {"running": False}


@pytest.mark.parametrize("tty", [False, True])
def test_terminate_kills_the_whole_group(peer: Peer, tty: bool) -> None:
    """Not the leader only."""
    process_id = peer.start("sh", "-c", "sleep 1000 & echo $!; sleep 1000", tty=tty)
    sleeper = int(peer.wait_for_output(process_id, b"\n", "pty" if tty else "stdout"))
    peer.call("process/terminate", processId=process_id)
    peer.finish(process_id)
    assert gone(sleeper)


def test_terminate_kills_every_group_of_a_terminal(peer: Peer) -> None:
    """A job of an interactive shell is a group of its own."""
    process_id = peer.start("bash", "--norc", "-i", tty=True)
    peer.call("process/write", processId=process_id, chunk=text_of(b"sleep 1000 & echo pid=$! end\n"))
    output = peer.wait_for_output(process_id, b" end\r\n", "pty")
    while not (found := [word for word in output.split() if word[:4] == b"pid=" and word[4:].isdigit()]):
        peer.receive()
        output = peer.output(process_id, "pty")
    peer.call("process/terminate", processId=process_id)
    peer.finish(process_id)
    assert gone(int(found[0][4:]))


def test_terminate_of_an_exited_process_kills_those_who_hold_its_streams(peer: Peer) -> None:
    """It had exited, so ``running`` is false; ``closed`` follows."""
    process_id = peer.start("sh", "-c", "sleep 1000 & echo $!")
    peer.event("process/exited", process_id)
    sleeper = int(peer.output(process_id))
    assert is_alive(sleeper)
    assert peer.call("process/terminate", processId=process_id) == {"running": False}
    assert peer.finish(process_id).closed["outputComplete"] is True
    assert gone(sleeper)


def test_a_daemon_that_gave_up_the_streams_lives_on(peer: Peer) -> None:
    """Once its starter is closed nobody is signalled."""
    life = peer.run("sh", "-c", "sleep 1000 </dev/null >/dev/null 2>&1 & echo $!")
    daemon = int(life.stdout)
    try:
        assert peer.call("process/terminate", processId=life.exited["processId"]) == {"running": False}
        assert is_alive(daemon)
    finally:
        os.kill(daemon, signal.SIGKILL)


def test_death_by_signal_is_told_apart_from_its_number(peer: Peer) -> None:
    """128 + N and the name; a program may exit with the same number by itself."""
    exited = peer.run("sh", "-c", "kill -9 $$").exited
    assert (exited["exitCode"], exited["signal"], exited["reason"]) == (137, "SIGKILL", "signaled")
    exited = peer.run("sh", "-c", "kill -TERM $$", tty=True).exited
    assert (exited["exitCode"], exited["signal"], exited["reason"]) == (143, "SIGTERM", "signaled")
    exited = peer.run("sh", "-c", "exit 137").exited
    assert (exited["exitCode"], exited["signal"], exited["reason"]) == (137, None, "exited")


def test_processes_of_a_connection_are_limited(open_peer: OpenPeer) -> None:
    """Those that are not closed count; the limit and its value are named."""
    peer = open_peer("--max-processes-per-connection", "2").handshake()
    first = peer.start("cat", pipeStdin=True)
    peer.start("cat", pipeStdin=True)
    error = peer.refused_start("true")
    assert fault_of(error) == (-32600, "limitExceeded") and "2" in error["message"]
    peer.call("process/terminate", processId=first)
    peer.finish(first)
    assert peer.run("true").exited["exitCode"] == 0
