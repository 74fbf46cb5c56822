"""Tests of execsrv.client.stdio_stream."""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Callable, Iterator
from typing import IO, Any

import pytest
from background import Background
from descriptors import open_descriptors

from execsrv.client.errors import ProtocolError
from execsrv.client.stdio_stream import StdioStream


def make_pipe() -> tuple[IO[bytes], IO[bytes]]:
    """A pipe as files, whose ``close`` is not patched by gevent to come later."""
    read, write = os.pipe()
    return open(read, "rb", buffering=0), open(write, "wb", buffering=0)


class Pipes:
    """A stream between two pipes, and the server's ends of them."""

    def __init__(self, **options: Any) -> None:
        client_reads, self.server_writes = make_pipe()
        self.server_reads, client_writes = make_pipe()
        self.stream = StdioStream(client_reads, client_writes, **options)
        self.messages = self.stream.messages(lambda: None)

    def close(self) -> None:
        """Close all descriptors."""
        self.stream.close()
        self.server_reads.close()
        self.server_writes.close()


@pytest.fixture
def make_pipes() -> Iterator[Callable[..., Pipes]]:
    """Makes streams with the options given."""
    made: list[Pipes] = []

    def make(**options: Any) -> Pipes:
        made.append(Pipes(**options))
        return made[-1]

    yield make
    for pipes in made:
        pipes.close()


@pytest.fixture
def pipes(make_pipes: Callable[..., Pipes]) -> Pipes:
    """A stream."""
    return make_pipes()


def read_all(file: IO[bytes]) -> bytes:
    """What is written until the end; others can go on meanwhile, also when they are greenlets."""
    data = b""
    while True:
        select.select([file], [], [])
        chunk = file.read(65536)
        if not chunk:
            return data
        data += chunk


def test_lines_become_messages(pipes: Pipes) -> None:
    """A line is a message without its end; blank lines are none."""
    pipes.server_writes.write(b"one\n\ntwo\r\n\r\nthr")
    assert [next(pipes.messages), next(pipes.messages)] == [b"one", b"two"]
    pipes.server_writes.write(b"ee\nunfinished")
    pipes.server_writes.close()
    assert list(pipes.messages) == [b"three"]


def test_long_line_comes_whole(pipes: Pipes) -> None:
    """A message may be far longer than a pipe holds."""
    line = os.urandom(1_000_000).hex().encode()
    ours, server = socket.socketpair()
    stream = StdioStream(ours.dup().detach(), ours.detach())
    with server:
        reading = Background(lambda: next(stream.messages(lambda: None)))
        server.sendall(line + b"\n")
        assert reading.result() == line
    stream.close()


def test_line_without_end_is_refused(make_pipes: Callable[..., Pipes]) -> None:
    """Memory does not grow with what a server sends."""
    pipes = make_pipes(max_message_bytes=1000)
    pipes.server_writes.write(b"x" * 1001)
    with pytest.raises(ProtocolError, match="more than 1000 bytes"):
        next(pipes.messages)


def test_send_writes_lines(pipes: Pipes) -> None:
    """Each message is one line, and nothing is no line."""
    pipes.stream.send(b"one")
    pipes.stream.send(b"")
    pipes.stream.send(b"two")
    pipes.stream.finish()
    assert read_all(pipes.server_reads) == b"one\ntwo\n"


def test_abort_wakes_reader_and_writer(pipes: Pipes) -> None:
    """Neither a silent server nor one that does not read keeps a thread."""
    reading = Background(lambda: list(pipes.messages))
    writing = Background(lambda: pipes.stream.send(b"x" * 1_000_000))
    pipes.stream.abort()
    pipes.stream.abort()
    assert reading.result() == []
    with pytest.raises(BrokenPipeError):
        writing.result()


def test_nothing_can_be_sent_after_finish(pipes: Pipes) -> None:
    """The writing end is closed only once."""
    pipes.stream.finish()
    pipes.stream.finish()
    with pytest.raises(BrokenPipeError):
        pipes.stream.send(b"late")


def test_write_to_a_dead_server_fails(pipes: Pipes) -> None:
    """The system's error goes up."""
    pipes.server_reads.close()
    with pytest.raises(BrokenPipeError):
        pipes.stream.send(b"hello")


def test_close_frees_every_descriptor() -> None:
    """Also the stream's own."""
    before = open_descriptors()
    pipes = Pipes()
    pipes.close()
    assert open_descriptors() <= before


def test_descriptors_may_stand_for_files() -> None:
    """They are taken over and closed."""
    client_reads, server_writes = os.pipe()
    server_reads, client_writes = os.pipe()
    stream = StdioStream(client_reads, client_writes)
    os.write(server_writes, b"hi\n")
    assert next(stream.messages(lambda: None)) == b"hi"
    stream.close()
    for fd in (client_reads, client_writes):
        with pytest.raises(OSError):
            os.fstat(fd)
    os.close(server_writes)
    os.close(server_reads)


def test_finish_ends_the_writing_side_of_a_socket() -> None:
    """The server sees the end, although the reading side is still open and gets its answer."""
    ours, server = socket.socketpair()
    with server:
        second = ours.dup()
        stream = StdioStream(ours.detach(), second.detach())
        stream.finish()
        assert server.recv(1) == b""
        server.sendall(b"bye\n")
        server.shutdown(socket.SHUT_WR)
        assert list(stream.messages(lambda: None)) == [b"bye"]
        stream.close()
