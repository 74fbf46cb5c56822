"""All tests of the client once more, in one program that ``gevent.monkey`` has patched."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

#: Longest run of them all, in seconds.
PATIENCE = 300.0

PATCHED_PYTEST = "from gevent import monkey; monkey.patch_all(); import pytest; raise SystemExit(pytest.main())"


@pytest.mark.skipif("EXECSRV_UNDER_GEVENT" in os.environ, reason="this is that program")
def test_client_works_the_same_under_gevent(tmp_path: Path) -> None:
    """The in-process client sees to that itself."""
    folder = Path(__file__).parent
    options = ["-q", "-n0", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'inner'}"]
    chosen = [str(folder), f"--ignore={folder / 'test_in_process.py'}"]
    environment = {**os.environ, "EXECSRV_UNDER_GEVENT": "1"}
    command = [sys.executable, "-c", PATCHED_PYTEST, *options, *chosen]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout[-10_000:] + done.stderr[-2_000:]
