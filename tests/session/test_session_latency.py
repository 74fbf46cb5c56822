"""How long after a command's end its answer comes, on each kind of backend.

Left out of the usual run, since it depends on what else the machine does:
``python -m pytest -n 0 -m bench tests/session/test_session_latency.py`` prints the figures.
"""

from __future__ import annotations

import statistics
import time

import pytest
from agents import open_agent
from workspaces import Workspace

from execsrv.session import SessionConfig, UnifiedExecManager

RUNS = 50

#: The longest that the median may be, in seconds.
LATENCY = 0.020


def whole_call(manager: UnifiedExecManager) -> float:
    """How long ``true`` takes in all, its start included, in seconds."""
    began = time.perf_counter()
    assert manager.exec_command("true", login=False).exit_code == 0
    return time.perf_counter() - began


def after_the_end(manager: UnifiedExecManager) -> float:
    """From the last thing that a shell does before it exits until the answer is here, in seconds."""
    answer = manager.exec_command("true; echo $EPOCHREALTIME", shell="bash", login=False)
    return time.time() - float(answer.output.retained)


@pytest.mark.bench
def test_the_answer_comes_with_the_end(
    backend: str, session_config: SessionConfig, workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    """Medians over 50 runs; that of the time after the end is below 20 ms."""
    with open_agent(session_config, workspace.path()) as agent:
        calls = [whole_call(agent.manager) for _ in range(RUNS)]
        late = [after_the_end(agent.manager) for _ in range(RUNS)]
    with capsys.disabled():
        print(f"\n{backend}: {told(calls)} for a whole call, {told(late)} after the end")
    assert statistics.median(late) < LATENCY


def told(seconds: list[float]) -> str:
    """The median, and the slowest, in milliseconds."""
    return f"{statistics.median(seconds) * 1000:.1f} ms (at most {max(seconds) * 1000:.1f})"
