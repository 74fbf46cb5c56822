"""The limit of open files, in a program of its own: it can't be put back here."""

from __future__ import annotations

import subprocess
import sys

#: Begins with a limit of 200, raises its own, and then starts 60 shells that tell theirs, four at a time.
PROGRAM = """
import os, resource, sys
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
from concurrent.futures import ThreadPoolExecutor
from execsrv.server.processes.command import make_command
from execsrv.server.processes.nofile import raise_own_limit
from execsrv.server.processes.spawn import spawn
raise_own_limit()
opened = [os.open("/dev/null", os.O_RDONLY) for _ in range(int(sys.argv[1]))]

def limit(_):
    child = spawn(make_command(["sh", "-c", sys.argv[2]], "/", {}, None))
    with open(child.outputs["stdout"], "rb") as output:
        told = output.read()
    os.waitpid(child.pid, 0)
    return int(told)

with ThreadPoolExecutor(4) as threads:
    print(*sorted(set(threads.map(limit, range(60)))))
print(resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard))
"""


def limits(open_files: int, script: str) -> list[str]:
    """What the program prints: the limits of the shells, and whether its own is raised in the end."""
    argv = [sys.executable, "-c", PROGRAM, str(open_files), script]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True).stdout.splitlines()


def test_children_have_the_original_limit_from_the_first_moment() -> None:
    """However many are started at a time, and the server's own stays raised."""
    assert limits(0, "ulimit -Sn") == ["200", "True"]


def test_with_more_descriptors_than_that_children_get_it_soon() -> None:
    """Lowering ours would keep everybody from opening more."""
    script = "while [ $(ulimit -Sn) != 200 ]; do :; done; ulimit -Sn"
    assert limits(400, script) == ["200", "True"]
