"""The threads that follow commands, and the end of all that the commands have started."""

from __future__ import annotations

import threading

from execsrv.client.deadline import Deadline
from execsrv.session.unified_exec.command_session import CommandSession
from execsrv.session.unified_exec.errors import StartFailed

#: Commands that have ended but left descendants; when there are more, those of the oldest are ended.
MAX_LINGERING = 64

#: How long ``close`` waits for the end of all, in seconds.
CLOSE_SECONDS = 5.0


class Followers:
    """Follows each command on a thread of its own, as long as there is something left of it. For any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._sessions: dict[CommandSession, None] = {}  # the oldest first
        self._closed = False

    def follow(self, session: CommandSession) -> None:
        """Follow a command that was started. Raises StartFailed when that can't be; then it is ended."""
        with self._changed:
            self._sessions[session] = None
            refusal = "everything is being ended" if self._closed else ""
        if not refusal:
            try:
                return threading.Thread(target=self._run, args=(session,), name="execsrv-command", daemon=True).start()
            except RuntimeError as error:  # the system has no thread left
                refusal = str(error)
        session.terminate()
        self._run(session)
        raise StartFailed(refusal)

    def close(self) -> None:
        """End all commands, and what they have left; wait for that up to CLOSE_SECONDS. Twice is harmless."""
        deadline = Deadline(CLOSE_SECONDS)
        with self._changed:
            self._closed = True
            sessions = list(self._sessions)
        for session in sessions:
            session.terminate(deadline.remaining() or 0.0)
        with self._changed:
            self._changed.wait_for(lambda: not self._sessions, deadline.remaining())

    def _run(self, session: CommandSession) -> None:
        try:
            session.follow()
            self._end_oldest_lingering()
            session.linger()
        finally:
            with self._changed:
                del self._sessions[session]
                self._changed.notify_all()

    def _end_oldest_lingering(self) -> None:
        with self._changed:
            lingering = [session for session in self._sessions if session.ended]
        for session in lingering[:-MAX_LINGERING]:
            session.terminate()
