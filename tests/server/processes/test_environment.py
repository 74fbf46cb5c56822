"""The child's environment under every policy."""

from __future__ import annotations

import pytest

from execsrv.protocol.processes import EnvPolicy
from execsrv.server.processes.environment import child_environment

OWN = {
    "HOME": "/root",
    "PATH": "/bin",
    "Lang": "C",
    "LC_ALL": "C",
    "EDITOR": "vi",
    "API_KEY": "k",
    "my_secret": "s",
    "Token_1": "t",
    "ODD": "\udcff",
}


def names(policy: EnvPolicy | None, **env: str) -> set[bytes]:
    """The names that a child gets."""
    return set(child_environment(policy, env, OWN))


def test_without_a_policy_env_is_everything() -> None:
    """Nothing of the server's own gets through."""
    assert child_environment(None, {"A": "1", "B": "ö"}, OWN) == {b"A": b"1", b"B": "ö".encode()}
    assert child_environment(None, {}, OWN) == {}


@pytest.mark.parametrize(
    "policy, expected",
    [
        (EnvPolicy(), {b"HOME", b"PATH", b"Lang", b"LC_ALL", b"EDITOR", b"ODD"}),
        (EnvPolicy(inherit="core"), {b"HOME", b"PATH", b"Lang", b"LC_ALL"}),
        (EnvPolicy(inherit="none"), set()),
        (EnvPolicy(ignore_default_excludes=True), {name.encode() for name in OWN}),
        (EnvPolicy(exclude=["l*", "h?me"]), {b"PATH", b"EDITOR", b"ODD"}),
        (EnvPolicy(exclude=["*"], ignore_default_excludes=True), set()),
        (EnvPolicy(include_only=["p*", "EDIT[OP]R"]), {b"PATH", b"EDITOR"}),
        (EnvPolicy(include_only=["NONE"]), set()),
    ],
)
def test_the_policy_chooses_from_the_servers_own(policy: EnvPolicy, expected: set[bytes]) -> None:
    """By the kind of inheritance, the excludes and the filter; case does not count."""
    assert names(policy) == expected


def test_set_comes_after_the_excludes_and_before_the_filter() -> None:
    """A secret can be set on purpose; what the filter does not name is gone, set or not."""
    assert names(EnvPolicy("none", set={"NEW_KEY": "1", "B": "2"}, exclude=["B"])) == {b"NEW_KEY", b"B"}
    assert names(EnvPolicy("none", set={"A": "1", "B": "2"}, include_only=["b"])) == {b"B"}


def test_env_is_laid_over_everything() -> None:
    """Neither excludes nor filter apply to it, and it wins."""
    policy = EnvPolicy("core", set={"A": "set", "HOME": "/set"}, exclude=["*"], include_only=["A", "HOME"])
    made = child_environment(policy, {"A": "env", "X_TOKEN": "t"}, OWN)
    assert made == {b"A": b"env", b"HOME": b"/set", b"X_TOKEN": b"t"}


def test_set_replaces_an_inherited_value() -> None:
    """One variable, not two."""
    assert child_environment(EnvPolicy("core", set={"PATH": "/x"}), {}, OWN)[b"PATH"] == b"/x"


def test_values_that_are_not_utf8_get_through_unchanged() -> None:
    """The server's own environment is bytes."""
    assert child_environment(EnvPolicy(), {}, OWN)[b"ODD"] == b"\xff"
