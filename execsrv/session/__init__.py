"""One execution environment for an agent: on this machine, in a server, or on another host.

    config ── backends                   what settings choose
      ├ environment                      files: what every place offers
      │   ├ local_file_system            ... here
      │   └ exec_server_file_system      ... through a client of a server
      ├ unified_exec/                    commands, here or through a client
      └ path_mapper, server_program      what lies where, and what to spawn
    project_docs, tools/                 what a model reads and calls, in such an environment
"""

from execsrv.session.backends import SessionExecutionBackends, session_execution_backends
from execsrv.session.config import ConfigError, SessionConfig, load_config
from execsrv.session.environment import (
    CopyOptions,
    CreateDirectoryOptions,
    Environment,
    ExecutorFileSystem,
    FileMetadata,
    ReadDirectoryEntry,
    RemoveOptions,
)
from execsrv.session.exec_server_file_system import ExecServerFileSystem
from execsrv.session.local_file_system import LocalFileSystem
from execsrv.session.path_mapper import PathMapper
from execsrv.session.project_docs import read_project_docs
from execsrv.session.tools.result import ToolResult
from execsrv.session.tools.toolbox import Toolbox, tools_for
from execsrv.session.unified_exec.errors import (
    ConnectionLost,
    MissingCommand,
    SandboxUnsupported,
    StartFailed,
    StdinClosed,
    UnifiedExecError,
    UnknownSession,
    WriteFailed,
)
from execsrv.session.unified_exec.events import (
    ExecCommandBegin,
    ExecCommandEnd,
    ExecCommandOutputDelta,
    TerminalInteraction,
)
from execsrv.session.unified_exec.local_process import LocalSessionFactory
from execsrv.session.unified_exec.manager import UnifiedExecManager
from execsrv.session.unified_exec.request import ExecProcess, ExecRequest, UnifiedExecSessionFactory
from execsrv.session.unified_exec.response import ExecCommandResponse
from execsrv.session.unified_exec.server_process import ExecServerSessionFactory

__all__ = [
    "ConfigError",
    "ConnectionLost",
    "CopyOptions",
    "CreateDirectoryOptions",
    "Environment",
    "ExecCommandBegin",
    "ExecCommandEnd",
    "ExecCommandOutputDelta",
    "ExecCommandResponse",
    "ExecProcess",
    "ExecRequest",
    "ExecServerFileSystem",
    "ExecServerSessionFactory",
    "ExecutorFileSystem",
    "FileMetadata",
    "LocalFileSystem",
    "LocalSessionFactory",
    "MissingCommand",
    "PathMapper",
    "ReadDirectoryEntry",
    "RemoveOptions",
    "SandboxUnsupported",
    "SessionConfig",
    "SessionExecutionBackends",
    "StartFailed",
    "StdinClosed",
    "TerminalInteraction",
    "ToolResult",
    "Toolbox",
    "UnifiedExecError",
    "UnifiedExecManager",
    "UnifiedExecSessionFactory",
    "UnknownSession",
    "WriteFailed",
    "load_config",
    "read_project_docs",
    "session_execution_backends",
    "tools_for",
]
