"""The tools ``exec_command`` and ``write_stdin``: the answers of the manager of commands as results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from execsrv.session.tools.result import ToolFault, ToolResult
from execsrv.session.unified_exec.errors import UnifiedExecError
from execsrv.session.unified_exec.response import ExecCommandResponse


def command_result(call: Callable[..., ExecCommandResponse], **arguments: Any) -> ToolResult:
    """What a method of the manager answers; an exit code, whichever it is, is a success.

    Raises ToolFault when the method has no answer.
    """
    try:
        return ToolResult(call(**arguments).text)
    except UnifiedExecError as error:
        raise ToolFault(str(error)) from error
