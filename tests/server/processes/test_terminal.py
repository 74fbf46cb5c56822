"""The server's side of a pseudoterminal."""

from __future__ import annotations

import os
import termios

import pytest

from execsrv.protocol.processes import Size
from execsrv.server.processes.terminal import Terminal


def test_the_size_is_set_from_the_first_moment() -> None:
    """Whoever opens the other side finds it."""
    master, slave = os.openpty()
    terminal = Terminal(master, Size(rows=50, cols=200))
    assert termios.tcgetwinsize(slave) == (50, 200)
    terminal.close()
    os.close(slave)


def test_close_closes_the_descriptor_once() -> None:
    """The number may belong to somebody else when it is closed, or dropped, again."""
    master, slave = os.openpty()
    terminal = Terminal(master, Size())
    terminal.close()
    with pytest.raises(OSError):
        os.fstat(master)
    os.dup2(slave, master)
    terminal.close()
    del terminal
    os.fstat(master)
    os.close(master)
    os.close(slave)


def test_a_dropped_terminal_closes_its_descriptor() -> None:
    """Without a wait, and without looking for a child."""
    master, slave = os.openpty()
    terminal = Terminal(master, Size())
    del terminal
    with pytest.raises(OSError):
        os.fstat(master)
    os.close(slave)


def test_the_end_of_file_character_is_the_terminals_own() -> None:
    """A program may have chosen another."""
    master, slave = os.openpty()
    terminal = Terminal(master, Size())
    assert terminal.end_of_file() == b"\x04"
    modes = termios.tcgetattr(slave)
    modes[6][termios.VEOF] = b"\x1a"
    termios.tcsetattr(slave, termios.TCSANOW, modes)
    assert terminal.end_of_file() == b"\x1a"
    terminal.close()
    os.close(slave)


def test_a_terminal_that_no_session_has_is_read_by_no_group() -> None:
    """That is told as 0."""
    master, slave = os.openpty()
    terminal = Terminal(master, Size())
    assert terminal.foreground_group() == 0
    terminal.close()
    os.close(slave)


def test_a_closed_terminal_forgets_its_number() -> None:
    """So that nobody else's descriptor is asked."""
    master, slave = os.openpty()
    terminal = Terminal(master, Size())
    terminal.close()
    os.dup2(slave, master)
    with pytest.raises((OSError, ValueError)):
        terminal.foreground_group()
    os.close(master)
    os.close(slave)
