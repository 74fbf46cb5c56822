"""What a server tells about itself, and what can be asked of one that tells little."""

from __future__ import annotations

from dataclasses import dataclass, field

from execsrv.client.errors import UnsupportedError
from execsrv.protocol.handshake import EnvironmentInfo


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """The result of ``initialize``. The first servers of this kind tell their protocol's version and nothing else."""

    protocol_version: str
    session_id: str | None = None
    capabilities: dict[str, bool] = field(default_factory=dict)
    environment_info: EnvironmentInfo | None = None

    def offers(self, capability: str) -> bool:
        """Does the server have this, by the name that it has in ``capabilities``?"""
        return bool(self.capabilities.get(capability))

    def require(self, capability: str, purpose: str) -> None:
        """Raise UnsupportedError unless the server offers what is needed for ``purpose``."""
        if not self.offers(capability):
            raise UnsupportedError(f"{purpose} needs {capability}, which the server does not offer")

    @property
    def cwd(self) -> str:
        """The server's working directory. Raises UnsupportedError when it is not told."""
        if self.environment_info is None:
            raise UnsupportedError("cwd must be given: the server does not tell its own")
        return self.environment_info.cwd
