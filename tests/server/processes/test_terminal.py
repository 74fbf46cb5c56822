"""The server's side of a pseudoterminal."""

from __future__ import annotations

import os
import termios

import pytest

from execsrv.protocol import Size
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
