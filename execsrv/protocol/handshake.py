"""The handshake: who speaks, and where commands run."""

from __future__ import annotations

from dataclasses import dataclass

PROTOCOL_VERSION = "exec-server.v0"


@dataclass(slots=True)
class InitializeParams:
    """Params of ``initialize``."""

    client_name: str


@dataclass(slots=True)
class Shell:
    """The server user's shell."""

    name: str
    path: str


@dataclass(slots=True)
class EnvironmentInfo:
    """Where commands run when the client names neither directory nor environment."""

    shell: Shell
    executor_version: str
    cwd: str
    user_home_dir: str
    platform_os: str
    temp_dir: str


@dataclass(slots=True)
class InitializeResult:
    """Result of ``initialize``."""

    protocol_version: str
    session_id: str
    capabilities: dict[str, bool]
    environment_info: EnvironmentInfo
