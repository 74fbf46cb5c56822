"""Everything is measured once, roughly: what is wrong, or far from its target, is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import rounds, servers
from .bench import Family

pytestmark = pytest.mark.bench


@pytest.mark.parametrize("family", rounds.FAMILIES, ids=lambda family: family.name)
def test_nothing_is_wrong_or_grossly_missed(family: Family, tmp_path: Path) -> None:
    """What another server's figures say is grossly missed is measured once more before it counts."""
    specs = servers.specs(str(tmp_path))
    assert not _faults(family, specs) or not _faults(family, specs)


def _faults(family: Family, specs: list[servers.Spec]) -> list[str]:
    """What is wrong with ours or the floor; Codex need not manage everything."""
    results, failures = rounds.measure(specs, [family], rounds=1, is_quick=True)
    gross = [f"{row.title}: {dict(results[row.key])}" for row in family.rows if row.is_gross(results)]
    return gross + [str(failure) for failure in failures if failure.server != "Codex"]
