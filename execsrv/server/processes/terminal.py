"""The server's side of a pseudoterminal."""

from __future__ import annotations

import os
import termios

from ptyprocess import PtyProcess

from execsrv.protocol.processes import Size

_NO_CHILD = -1


class Terminal(PtyProcess):  # type: ignore[misc]  # ptyprocess has no types
    """Owns the master's descriptor ``fd``; ptyprocess knows its size and its modes.

    The child is not its business: ptyprocess's ways to wait for one and to end one would take its status from us and
    sleep on the hub.
    """

    closed: bool

    def __init__(self, fd: int, size: Size) -> None:
        super().__init__(_NO_CHILD, fd)
        self.setwinsize(size.rows, size.cols)

    def end_of_file(self) -> bytes:
        """The character that ends the input when the terminal is in canonical mode (termios(3), VEOF)."""
        character: bytes = termios.tcgetattr(self.fd)[6][termios.VEOF]
        return character

    def foreground_group(self) -> int:
        """The group that reads the terminal, and that Ctrl-C reaches; it may have ended. 0 for none."""
        return os.tcgetpgrp(self.fd)

    def close(self, force: bool = False) -> None:
        """Close the descriptor and nothing else; twice is harmless."""
        if not self.closed:
            self.closed = True
            self.fd = -1
            self.fileobj.close()
