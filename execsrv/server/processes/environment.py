"""A child's environment, made from the server's own as the client's policy says."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from execsrv.protocol.processes import EnvPolicy

#: What each value of ``inherit`` takes.
INHERITED_NAMES = {
    "all": ("*",),
    "core": (
        *("HOME", "LOGNAME", "PATH", "SHELL", "USER", "USERNAME"),
        *("TMPDIR", "TEMP", "TMP", "LANG", "LANGUAGE", "LC_*"),
    ),
    "none": (),
}
#: Left out unless the policy ignores the default excludes.
DEFAULT_EXCLUDES = ("*KEY*", "*SECRET*", "*TOKEN*")


def child_environment(policy: EnvPolicy | None, env: Mapping[str, str], own: Mapping[str, str]) -> dict[bytes, bytes]:
    """``env`` over the base that ``policy`` takes from ``own``; without a policy ``env`` alone. Globs ignore case."""
    base = _base(policy, own) if policy else {}
    return base | {name.encode(): value.encode() for name, value in env.items()}


def _base(policy: EnvPolicy, own: Mapping[str, str]) -> dict[bytes, bytes]:
    excludes = [*policy.exclude, *(() if policy.ignore_default_excludes else DEFAULT_EXCLUDES)]
    inherited = {
        name: os.fsencode(value)
        for name, value in own.items()
        if _matches(name, INHERITED_NAMES[policy.inherit]) and not _matches(name, excludes)
    }
    variables = inherited | {name: value.encode() for name, value in policy.set.items()}
    include_only = policy.include_only or ["*"]
    return {os.fsencode(name): value for name, value in variables.items() if _matches(name, include_only)}


def _matches(name: str, globs: Iterable[str]) -> bool:
    return any(fnmatchcase(name.upper(), glob.upper()) for glob in globs)
