"""The tools of a session: which of them a model gets, what it is told of them, and its calls."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from execsrv.session.config import SessionConfig
from execsrv.session.environment import Environment
from execsrv.session.tools import list_dir, read_file, view_image
from execsrv.session.tools.arguments import checked_arguments, specification, tool_names
from execsrv.session.tools.commands import command_result
from execsrv.session.tools.result import ToolFault, ToolResult
from execsrv.session.tools.text import well_formed
from execsrv.session.unified_exec.manager import UnifiedExecManager

logger = logging.getLogger(__name__)


def tools_for(model_tools: Iterable[str], config: SessionConfig) -> list[str]:
    """The tools that a model knows, and those that are configured besides; each once, in this order.

    One that is none of this package's may be the caller's own: it stays, and a warning is logged.
    """
    names = list(dict.fromkeys([*model_tools, *config.experimental_supported_tools]))
    for name in names:
        if name not in tool_names():
            logger.warning("there is no tool %r here", name)
    return names


@dataclass(frozen=True, slots=True)
class _Tool:
    """What a tool does, and its words for arguments that are out of bounds."""

    run: Callable[..., ToolResult]
    refusals: Mapping[str, str] = field(default_factory=dict)


class Toolbox:
    """The tools over one environment and its commands. Its methods are for any thread."""

    def __init__(self, environment: Environment, manager: UnifiedExecManager) -> None:
        files = environment.file_system
        self._tools = {
            "exec_command": _Tool(partial(command_result, manager.exec_command)),
            "write_stdin": _Tool(partial(command_result, manager.write_stdin)),
            "list_dir": _Tool(partial(list_dir.list_dir, files), list_dir.REFUSALS),
            "read_file": _Tool(partial(read_file.read_file, files), read_file.REFUSALS),
            "view_image": _Tool(partial(view_image.view_image, files), view_image.REFUSALS),
        }

    def specifications(self, names: Iterable[str]) -> list[dict[str, Any]]:
        """What a model is told of those tools that are here: ``name``, ``description`` and ``parameters``."""
        return [specification(name) for name in names if name in self._tools]

    def call(self, name: str, arguments: dict[str, Any] | str) -> ToolResult:
        """Run a tool with the arguments that a model chose, an object or its JSON.

        Whatever they are, and whatever becomes of the files or commands, the result says it.
        """
        try:
            result = self._run(name, arguments)
        except ToolFault as fault:
            result = ToolResult(str(fault), success=False)
        return replace(result, text=well_formed(result.text))

    def _run(self, name: str, arguments: dict[str, Any] | str) -> ToolResult:
        tool = self._tools.get(name)
        if tool is None:
            raise ToolFault(f"there is no tool `{name}`")
        return tool.run(**checked_arguments(name, arguments, tool.refusals))
