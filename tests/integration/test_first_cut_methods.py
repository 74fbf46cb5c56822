"""The first-cut methods, on both transports."""

from __future__ import annotations

import base64
from typing import Any

from peer import PATH, Json, Peer


def text_of(chunk: bytes) -> str:
    """Base64 text of bytes."""
    return base64.b64encode(chunk).decode()


def request_exec(peer: Peer, process_id: str, *argv: str, **params: Any) -> int:
    """Send ``command/exec``; the request's id."""
    given = {"processId": process_id, "argv": argv, "cwd": "/", "env": PATH, "tty": False, **params}
    return peer.request("command/exec", **given)


def execute(peer: Peer, process_id: str, *argv: str, **params: Any) -> Json:
    """Start a process; the result."""
    return peer.result(request_exec(peer, process_id, *argv, **params))


def told(peer: Peer, process_id: str) -> list[Json]:
    """The notifications of a process so far."""
    return [message for message in peer.transcript if message.get("params", {}).get("processId") == process_id]


def output(peer: Peer, process_id: str, stream: str = "stdout") -> bytes:
    """What has come of a stream so far."""
    params = [message["params"] for message in told(peer, process_id)]
    return b"".join(base64.b64decode(each["chunk"]) for each in params if each.get("stream") == stream)


def test_an_exec_is_answered_with_the_pid_and_followed_to_its_exit(peer: Peer) -> None:
    """The whole conversation."""
    result = execute(peer, "p", "sh", "-c", "echo $$; echo err >&2; exit 3")
    assert result.keys() == {"processId", "pid", "running", "exitCode", "stdout", "stderr"}
    assert (result["processId"], result["running"]) == ("p", True)
    assert result["exitCode"] is result["stdout"] is result["stderr"] is None
    assert peer.event("command/exec/exited", "p") == {"processId": "p", "exitCode": 3}
    assert int(output(peer, "p")) == result["pid"]
    assert output(peer, "p", "stderr") == b"err\n"
    *deltas, last = told(peer, "p")
    assert {message["method"] for message in deltas} == {"command/exec/outputDelta"}
    assert all(message["params"].keys() == {"processId", "stream", "chunk"} for message in deltas)
    assert last["method"] == "command/exec/exited"


def test_a_terminals_stream_is_stdout(peer: Peer) -> None:
    """24 by 80, with the cap accepted and without effect."""
    execute(peer, "p", "sh", "-c", "stty size; echo err >&2", tty=True, outputBytesCap=1, arg0="x")
    peer.event("command/exec/exited", "p")
    assert output(peer, "p") == b"24 80\r\nerr\r\n"


def test_a_write_goes_to_a_terminal(peer: Peer) -> None:
    """There are no pipes to write to."""
    execute(peer, "p", "cat", tty=True)
    assert peer.call("command/exec/write", processId="p", chunk=text_of(b"hi\n\x04")) == {"accepted": True}
    peer.event("command/exec/exited", "p")
    assert output(peer, "p") == b"hi\r\nhi\r\n"
    execute(peer, "q", "sleep", "1000")
    error = peer.refused("command/exec/write", processId="q", chunk="")
    assert (error["message"], error["data"]["kind"]) == ("stdin is closed for process q", "stdinClosed")
    peer.call("command/exec/terminate", processId="q")


def test_faults_are_worded_as_in_v0(peer: Peer) -> None:
    """Duplicate and unknown ids, an empty argv, a failed start, bad base64."""
    execute(peer, "p", "cat", tty=True)
    error = peer.error(request_exec(peer, "p", "true"))
    assert (error["code"], error["message"]) == (-32600, "process p already exists")
    error = peer.refused("command/exec/write", processId="nobody", chunk="")
    assert (error["code"], error["message"]) == (-32600, "unknown process id nobody")
    assert peer.refused("command/exec/write", processId="p", chunk="%")["code"] == -32602
    assert peer.error(request_exec(peer, "q"))["message"] == "argv must not be empty"
    assert peer.error(request_exec(peer, "q", "/no/such"))["data"]["kind"] == "spawnNotFound"
    assert peer.error(request_exec(peer, "q", "true", cwd="relative"))["code"] == -32602
    assert peer.refused("command/exec", processId="q")["code"] == -32602
    assert peer.call("command/exec/terminate", processId="nobody") == {"running": False}
    assert peer.call("command/exec/terminate", processId="p") == {"running": True}


def test_an_id_is_free_once_its_exit_was_sent(peer: Peer) -> None:
    """Nothing is retained."""
    for number in range(3):
        execute(peer, "p", "sh", "-c", f"exit {number}")
        assert peer.event("command/exec/exited", "p")["exitCode"] == number
        assert peer.call("command/exec/terminate", processId="p") == {"running": False}
        assert peer.refused("command/exec/write", processId="p", chunk="")["data"]["kind"] == "unknownProcess"
        peer.transcript.clear()


def test_an_id_is_free_at_once_after_terminate(peer: Peer) -> None:
    """The first one's exit is sent before the second one's start is answered, and the second one starts clean."""
    for _ in range(10):
        execute(peer, "p", "sh", "-c", "yes")
        terminate = peer.request("command/exec/terminate", processId="p")
        second = request_exec(peer, "p", "sh", "-c", "echo second; exit 5")
        assert peer.result(terminate) == {"running": True}
        pid = peer.result(second)["pid"]
        exits = [message for message in peer.transcript if message.get("method") == "command/exec/exited"]
        assert [message["params"]["exitCode"] for message in exits] == [137]
        peer.transcript.clear()
        assert pid and peer.event("command/exec/exited", "p")["exitCode"] == 5
        assert output(peer, "p") == b"second\n"
        peer.transcript.clear()


def test_nothing_follows_the_exit(peer: Peer) -> None:
    """Output of those who hold the streams is dropped."""
    execute(peer, "p", "sh", "-c", "yes & echo $!; sleep 0.1")
    peer.event("command/exec/exited", "p")
    yes = int(output(peer, "p").split(b"\n")[0].replace(b"y", b"") or 0)
    for _ in range(50):
        peer.call("command/exec/terminate", processId="p")
    assert told(peer, "p")[-1]["method"] == "command/exec/exited"
    assert yes or b"y\n" in output(peer, "p")


def test_first_cut_ids_are_a_space_of_their_own(peer: Peer) -> None:
    """Neither dialect reaches, or collides with, the other's processes."""
    execute(peer, "same", "cat", tty=True)
    peer.start("cat", processId="same", pipeStdin=True)
    assert peer.call("process/terminate", processId="same") == {"running": True}
    peer.event("process/closed", "same")
    assert peer.call("command/exec/write", processId="same", chunk=text_of(b"hi\n")) == {"accepted": True}
    execute(peer, "first", "cat", tty=True)
    assert peer.call("process/terminate", processId="first") == {"running": False}
    assert peer.refused("process/read", processId="first")["data"]["kind"] == "unknownProcess"
    for process_id in ("same", "first"):
        assert peer.call("command/exec/terminate", processId=process_id) == {"running": True}
