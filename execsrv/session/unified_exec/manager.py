"""The tools ``exec_command`` and ``write_stdin``: commands that a model starts, looks at and goes on with."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import posixpath
import time
from collections.abc import Sequence
from typing import Self

from execsrv.client import lifetime
from execsrv.client.deadline import Deadline
from execsrv.client.events import EventBus
from execsrv.session.unified_exec.command_session import CommandSession
from execsrv.session.unified_exec.errors import ConnectionLost, MissingCommand, ProcessIdInUse, StartFailed
from execsrv.session.unified_exec.followers import Followers
from execsrv.session.unified_exec.request import ExecRequest, UnifiedExecSessionFactory
from execsrv.session.unified_exec.response import ExecCommandResponse
from execsrv.session.unified_exec.session_table import MAX_SESSIONS, WARN_SESSIONS, SessionTable

logger = logging.getLogger(__name__)

#: How long a call may wait for a command, in milliseconds, and how long it does unless it is told.
MIN_YIELD_MS = 250
MAX_YIELD_MS = 30_000
EXEC_YIELD_MS = 10_000
WRITE_YIELD_MS = 250

#: The same for a call that only looks: a model that looks all the time gets nowhere.
MIN_POLL_MS = 5_000
MAX_POLL_MS = 300_000

#: How many ids are tried for a command.
MAX_ID_TRIES = 10

#: How many tokens of output a model gets unless it asks for another number.
MAX_OUTPUT_TOKENS = 10_000

#: What makes commands write plain text at once, without colours, pagers and other languages.
COMMAND_ENV = {
    "NO_COLOR": "1",
    "TERM": "dumb",
    "LANG": "C.UTF-8",
    "LC_CTYPE": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "COLORTERM": "",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GH_PAGER": "cat",
}

#: The variable that tells a command that it runs in a session.
MARKER = "EXECSRV_SESSION"

#: Shells that take ``-c`` and ``-l``, and the one that is used where the user's is none of them.
SHELLS = frozenset(["ash", "bash", "dash", "ksh", "mksh", "sh", "zsh"])
FALLBACK_SHELL = "/bin/sh"


class UnifiedExecManager:
    """The commands of one agent. All methods may be called by any thread.

    It is a context manager. Leaving it, dropping it or the end of the interpreter ends all that it has started.

    factory: where commands run. cwd: the directory of those that are given none, an absolute path of the session.
    max_poll_ms: the longest that a call may wait which only looks, in milliseconds, but at least 5000.
    marker: the variable that is "1" for every command.
    """

    def __init__(
        self, factory: UnifiedExecSessionFactory, cwd: str, *, max_poll_ms: int = MAX_POLL_MS, marker: str = MARKER
    ) -> None:
        self._factory = factory
        self._cwd = cwd
        self._max_poll_ms = max_poll_ms
        self._env = {**COMMAND_ENV, marker: "1"}
        self._table = SessionTable()
        self._followers = Followers()
        lifetime.close_with(self, self._followers)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """End all that was started, and wait for that. Twice is harmless."""
        lifetime.close(self._followers)

    @property
    def events(self) -> EventBus:
        """The bus that tells of the commands: see ``events``."""
        return self._factory.events

    def exec_command(
        self,
        cmd: str,
        workdir: str | None = None,
        shell: str | None = None,
        login: bool = True,
        tty: bool = False,
        yield_time_ms: float = EXEC_YIELD_MS,
        max_output_tokens: int = MAX_OUTPUT_TOKENS,
        *,
        inherited_fds: Sequence[int] = (),
        sandbox: str | None = None,
    ) -> ExecCommandResponse:
        """Run a command line; return at its end, or after ``yield_time_ms`` (250 to 30000) while it goes on.

        workdir: its directory, relative to the session's. shell: what understands ``cmd``; None is the user's where
        it runs. login: as at a login, with the user's profile. tty: on a terminal; only then it takes input.
        max_output_tokens: how much output the text for the model may show.
        inherited_fds, sandbox: see ExecRequest.

        Raises MissingCommand, StartFailed and ConnectionLost.
        """
        began = time.monotonic()
        if not cmd.strip():
            raise MissingCommand
        request = ExecRequest(
            process_id="",
            argv=[shell or self._default_shell(), "-lc" if login else "-c", cmd],
            cwd=posixpath.join(self._cwd, workdir) if workdir else self._cwd,
            env=self._env,
            tty=tty,
            inherited_fds=inherited_fds,
            sandbox=sandbox,
        )
        session = self._start(request)
        return self._answer(session, Deadline(yield_seconds(yield_time_ms)), began, max_output_tokens)

    def write_stdin(
        self,
        session_id: int,
        chars: str = "",
        yield_time_ms: float = WRITE_YIELD_MS,
        max_output_tokens: int = MAX_OUTPUT_TOKENS,
    ) -> ExecCommandResponse:
        """Give a command input, and return at its end, or after ``yield_time_ms`` (250 to 30000) while it goes on.

        Without ``chars`` it is only looked at, for 5000 ms or more. Input for a command that has ended is dropped.

        Raises UnknownSession, also once the end was reported, StdinClosed, WriteFailed and ConnectionLost.
        """
        began = time.monotonic()
        session = self._table.use(session_id)
        if chars:
            deadline = Deadline(yield_seconds(yield_time_ms))
            session.write(chars.encode("utf-8", "replace"), deadline)
        else:
            deadline = Deadline(poll_seconds(yield_time_ms, self._max_poll_ms))
        return self._answer(session, deadline, began, max_output_tokens)

    def _start(self, request: ExecRequest) -> CommandSession:
        session = self._open(request)
        self._followers.follow(session)
        pruned = self._table.add(session)
        if pruned:
            logger.warning("command %d is ended: there are more than %d", pruned.session_id, MAX_SESSIONS)
            pruned.terminate()
        return session

    def _open(self, request: ExecRequest) -> CommandSession:
        """Start ``request`` under a new id, which a process of another manager may have."""
        for _ in range(MAX_ID_TRIES):
            session_id = self._table.new_id()
            request = dataclasses.replace(request, process_id=str(session_id))
            with contextlib.suppress(ProcessIdInUse):
                return CommandSession(session_id, request, self._factory.open(request), self._factory.events)
        raise StartFailed("no session id is free")

    def _answer(
        self, session: CommandSession, deadline: Deadline, began: float, max_output_tokens: int
    ) -> ExecCommandResponse:
        session.wait(deadline)
        try:
            output, exit_code = session.collect()
        except ConnectionLost:
            self._table.remove(session)
            raise
        if exit_code is not None:
            self._table.remove(session)
        running = exit_code is None
        return ExecCommandResponse(
            chunk_id=os.urandom(3).hex(),
            wall_time=time.monotonic() - began,
            output=output,
            exit_code=exit_code,
            session_id=session.session_id if running else None,
            max_output_tokens=max_output_tokens,
            warning=self._warning() if running else None,
        )

    def _warning(self) -> str | None:
        count = len(self._table)
        if count < WARN_SESSIONS:
            return None
        logger.warning("%d of at most %d commands are open", count, MAX_SESSIONS)
        return f"{count} commands are open; beyond {MAX_SESSIONS} the one that was used least recently is ended"

    def _default_shell(self) -> str:
        shell = self._factory.shell
        return shell if posixpath.basename(shell) in SHELLS else FALLBACK_SHELL


def yield_seconds(yield_time_ms: float) -> float:
    """How long a call that starts or writes waits for the end, when it is told to wait so many milliseconds."""
    return min(max(yield_time_ms, MIN_YIELD_MS), MAX_YIELD_MS) / 1000


def poll_seconds(yield_time_ms: float, max_poll_ms: int) -> float:
    """The same for a call that only looks."""
    return min(max(yield_time_ms, MIN_POLL_MS), max(max_poll_ms, MIN_POLL_MS)) / 1000
