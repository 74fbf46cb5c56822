"""A wheel, an sdist and an editable install each bring the whole program, schemas included."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

from execsrv.version import __version__

ROOT = Path(__file__).parent.parent.parent
TOOL_SCHEMAS = ROOT / "schemas" / "tools"
SOURCES = ["LICENSE", "MANIFEST.in", "README.md", "setup.cfg", "setup.py", "execsrv", "schemas", "tests"]


def run(*command: str | Path, cwd: Path) -> str:
    """What ``command`` prints. It finds only what is installed, not what PYTHONPATH names."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(command, cwd=cwd, env=env, check=True, timeout=120, stdout=subprocess.PIPE, text=True).stdout


def files(folder: Path, pattern: str) -> set[str]:
    """Paths below ``folder``, relative to it."""
    return {str(path.relative_to(folder)) for path in folder.rglob(pattern)}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project, so that building leaves nothing behind."""
    copy = tmp_path_factory.mktemp("source")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, copy / name)
    return copy


@pytest.fixture(scope="module")
def targets(source: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """What can be installed: the sdist, the wheel that was built from it, and the copy itself."""
    dist = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", dist, source, cwd=dist)
    (wheel,), (sdist,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    return {"wheel": wheel, "sdist": sdist, "editable": source}


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """The interpreter of a fresh environment that also finds what is installed in this one."""
    environment = tmp_path / "environment"
    run(sys.executable, "-m", "venv", "--without-pip", environment, cwd=tmp_path)
    variables = {"base": str(environment), "platbase": str(environment)}
    site_packages = Path(sysconfig.get_path("purelib", "venv", variables))
    paths = dict.fromkeys([sysconfig.get_path("purelib"), sysconfig.get_path("platlib")])
    (site_packages / "dependencies.pth").write_text("".join(f"{path}\n" for path in paths))
    return environment / "bin" / "python"


def test_the_wheel_holds_the_package_and_nothing_else(source: Path, targets: dict[str, Path]) -> None:
    """Every module, the typing marker and the schemas; the version is the package's own."""
    assert targets["wheel"].name.startswith(f"execsrv-{__version__}-")
    with zipfile.ZipFile(targets["wheel"]) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    modules = files(source, "execsrv/**/*.py")
    schemas = {f"execsrv/_{name}" for name in files(source, "schemas/**/*.json")}
    assert "execsrv/_schemas/tools/read_file.json" in schemas
    assert names == {*modules, *schemas, "execsrv/py.typed"}


def test_the_sdist_holds_the_sources(source: Path, targets: dict[str, Path]) -> None:
    """Also the tests, the licence and what is needed to build."""
    with tarfile.open(targets["sdist"]) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    wanted = [name for name in SOURCES if (source / name).is_file()]
    assert names >= {*wanted, *files(source, "*.py"), *files(source, "schemas/**/*.json"), "execsrv/py.typed"}


@pytest.mark.parametrize("way", ["wheel", "sdist", "editable"])
def test_the_installed_program_finds_its_schemas(
    way: str, targets: dict[str, Path], source: Path, python: Path, tmp_path: Path
) -> None:
    """Run far from the sources, through the console script; those of the tools are found by their module."""
    pip: list[str | Path] = [sys.executable, "-m", "pip", "--python", python, "--quiet", "install"]
    options = ["--no-deps", "--no-index", "--no-build-isolation", "--use-pep517", "--ignore-installed"]
    run(*pip, *options, *(["--editable"] if way == "editable" else []), targets[way], cwd=tmp_path)

    location = run(python, "-c", "import execsrv; print(execsrv.__file__)", cwd=tmp_path)
    assert Path(location).is_relative_to(source if way == "editable" else python.parent.parent)
    printed = run(python.with_name("execsrv"), "schema", "process/start", cwd=tmp_path)
    assert json.loads(printed)["title"] == "process/start"
    program = "from execsrv.session.tools.arguments import tool_names; print(*tool_names())"
    assert set(run(python, "-c", program, cwd=tmp_path).split()) == {path.stem for path in TOOL_SCHEMAS.iterdir()}
