"""Everything is measured once, roughly: what is wrong, or far from its target, is found."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from . import report, rounds, servers
from .bench import Family
from .rows import Row

pytestmark = pytest.mark.bench


@pytest.mark.parametrize("family", rounds.FAMILIES, ids=lambda family: family.name)
def test_nothing_is_wrong_or_grossly_missed(family: Family, tmp_path: Path) -> None:
    """A wrong count is wrong; what is slow beside another server must be so twice, or it was the machine."""
    specs = servers.specs(str(tmp_path))
    faults = _faults(family, specs)
    if any(row.count is None for row in faults):
        again = _faults(family, specs)
        faults = {row for row in faults | again if row.count is not None or row in faults & again}
    assert not {row.title for row in faults}


def _faults(family: Family, specs: Sequence[servers.Spec]) -> set[Row]:
    """What is wrong or grossly missed. All must come to an end on ours and on the floor; Codex need not manage it."""
    results, failures = rounds.measure(specs, [family], rounds=1, is_quick=True)
    print(report.rows_table(family.rows, results, [spec.name for spec in specs]))
    assert not [failure for failure in failures if failure.server != "Codex"]
    return {row for row in family.rows if row.is_gross(results)}
