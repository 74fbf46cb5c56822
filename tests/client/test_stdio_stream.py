"""Tests of execsrv.client.stdio_stream."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from background import Background

from execsrv.client.errors import ProtocolError
from execsrv.client.stdio_stream import StdioStream


class Pipes:
    """A stream between two pipes, and the server's ends of them."""

    def __init__(self, **options: Any) -> None:
        client_reads, self.server_writes = os.pipe()
        self.server_reads, client_writes = os.pipe()
        self.stream = StdioStream(client_reads, client_writes, **options)
        self.messages = self.stream.messages(lambda: None)

    def say(self, data: bytes) -> None:
        """Let the server write; the whole must fit in a pipe."""
        os.write(self.server_writes, data)

    def end(self) -> None:
        """Let the server end its output."""
        os.close(self.server_writes)
        self.server_writes = -1

    def close(self) -> None:
        """Close all descriptors."""
        self.stream.close()
        for fd in (self.server_reads, self.server_writes):
            if fd >= 0:
                os.close(fd)


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


def read_all(fd: int) -> bytes:
    """What is written until the end."""
    with open(fd, "rb", closefd=False) as file:
        return file.read()


def test_lines_become_messages(pipes: Pipes) -> None:
    """A line is a message without its end; blank lines are none."""
    pipes.say(b"one\n\ntwo\r\n\r\nthr")
    assert [next(pipes.messages), next(pipes.messages)] == [b"one", b"two"]
    pipes.say(b"ee\nunfinished")
    pipes.end()
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
    pipes.say(b"x" * 1001)
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
    os.close(pipes.server_reads)
    pipes.server_reads = -1
    with pytest.raises(BrokenPipeError):
        pipes.stream.send(b"hello")


def test_close_frees_every_descriptor() -> None:
    """Also the stream's own."""
    before = os.listdir("/proc/self/fd")
    pipes = Pipes()
    pipes.close()
    assert os.listdir("/proc/self/fd") == before


def test_files_may_stand_for_descriptors() -> None:
    """Files with a descriptor are taken over and closed."""
    client_reads, server_writes = os.pipe()
    server_reads, client_writes = os.pipe()
    read, write = os.fdopen(client_reads, "rb", buffering=0), os.fdopen(client_writes, "wb", buffering=0)
    stream = StdioStream(read, write)
    os.write(server_writes, b"hi\n")
    assert next(stream.messages(lambda: None)) == b"hi"
    stream.close()
    assert read.closed
    assert write.closed
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
