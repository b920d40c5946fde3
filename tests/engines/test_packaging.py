"""The package as workers get it: a complete wheel that pip accepts, and an archive of `--setup_file ./setup.py`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

import pytest
from apache_beam.runners.portability.stager import Stager

import beam_pipeline
from beam_pipeline.core.errors import ConversionError
from beam_pipeline.engines import dataflow
from tests.harness import REPOSITORY, process

if sys.version_info >= (3, 11):
    import tomllib
else:  # the package that became it; pytest brings it
    import tomli as tomllib

INFO = f"beam_tfrecord-{beam_pipeline.__version__}.dist-info"


def _contents(path: str) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as wheel:
        assert wheel.testzip() is None
        return {name: wheel.read(name) for name in wheel.namelist()}


def modules_of(repository: Path) -> dict[str, bytes]:
    """Path in an installation -> content of every module and template of a checkout."""
    found = {}
    for name, target in (("beam_pipeline", "."), ("transforms", "beam_pipeline")):
        for path in (repository / name).rglob("*"):
            inside = path.relative_to(repository)
            left_out = {"__pycache__", "README.md"}.intersection(path.parts)
            link = inside.parts[:2] == ("beam_pipeline", "transforms")
            if path.is_file() and not link and not left_out:
                found[Path(target, inside).as_posix()] = path.read_bytes()
    return found


@pytest.fixture
def wheel(tmp_path: Path) -> str:
    return dataflow.build_package(str(tmp_path))


def test_it_holds_what_an_installation_does(wheel: str) -> None:
    """Every module and template of the two folders, `transforms/` below the package."""
    expected = modules_of(Path(REPOSITORY))
    assert len(expected) > 80
    assert {f"beam_pipeline/core/report/page.{kind}" for kind in ("html", "css", "js")} <= set(
        expected
    )
    found = _contents(wheel)
    assert {name: data for name, data in found.items() if not name.startswith(INFO)} == expected
    assert set(found) - set(expected) == {f"{INFO}/{n}" for n in ("METADATA", "RECORD", "WHEEL")}


def test_it_requires_what_pyproject_does_but_for_beam(wheel: str) -> None:
    """Without markers, with Google's client: pip on a worker installs the missing packages."""
    pyproject = tomllib.loads(Path(REPOSITORY, "pyproject.toml").read_text(encoding="utf-8"))
    declared = [
        *pyproject["project"]["dependencies"],
        *pyproject["project"]["optional-dependencies"]["gcp"],
    ]
    expected = sorted(name for name in declared if not name.startswith("apache-beam"))
    assert sorted(dataflow.requirements()) == expected
    assert "google-cloud-storage>=2.18" in expected
    lines = _contents(wheel)[f"{INFO}/METADATA"].decode().splitlines()
    assert lines[:3] == [
        "Metadata-Version: 2.1",
        "Name: beam-tfrecord",
        f"Version: {beam_pipeline.__version__}",
    ]
    assert sorted(lines[3:]) == [f"Requires-Dist: {name}" for name in expected]


def test_it_is_the_same_each_time(
    wheel: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It depends neither on the clock nor on the folder, and holds no compiled files."""
    before = Path(wheel).read_bytes()
    monkeypatch.setattr(time, "time", lambda: 2e9)
    (tmp_path / "again").mkdir()
    again = dataflow.build_package(str(tmp_path / "again"))
    assert os.path.basename(again) == os.path.basename(wheel)
    assert Path(again).read_bytes() == before
    assert b"__pycache__" not in before


def test_without_an_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder on Python's path has no list of requirements."""
    monkeypatch.setattr(dataflow, "DISTRIBUTION", "beam-tfrecord-elsewhere")
    with pytest.raises(
        ConversionError, match=r"is not installed, so the requirements of its workers"
    ):
        dataflow.requirements()


# --- setup file -----------------------------------------------------------------------------------


OLD_SETUPTOOLS = "setuptools==65.5.0"  # Python 3.11 brings it
IMPORT = "import beam_pipeline.core.errors as found; print(found.__file__)"


@pytest.fixture(scope="module")
def old_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The interpreter of an environment that holds pip, the old setuptools and nothing else."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    found = str(folder / "bin" / "python")
    _run(found, "-m", "pip", "install", "-q", OLD_SETUPTOOLS, "wheel")
    return found


def _run(interpreter: str, *argv: str) -> str:
    """Runs Python apart from this checkout, and returns what it printed."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = process(interpreter, *argv, cwd="/", env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info >= (3, 12), reason="setuptools 65 is for Python up to 3.11")
def test_workers_get_every_module(
    old_python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beam's archive and its installation hold all modules, `transforms/` as a folder of the package."""
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(Path(REPOSITORY, name), checkout)
    for name in ("beam_pipeline", "transforms"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(Path(REPOSITORY, name), checkout / name, symlinks=True, ignore=ignored)
    expected = modules_of(checkout)
    monkeypatch.setenv("BEAM_PYTHON", old_python)
    archive = Stager._build_setup_package(str(checkout / "setup.py"), str(tmp_path))
    with tarfile.open(archive) as tar:
        assert [member.name for member in tar if not (member.isfile() or member.isdir())] == []
        held = {member.name.partition("/")[2] for member in tar if member.isfile()}
    assert held >= set(expected)

    _run(old_python, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", archive)
    package = Path(_run(old_python, "-c", IMPORT)).parents[1]
    assert Path(old_python).parents[1] in package.parents
    assert not (package / "transforms").is_symlink()
    found = {
        path.relative_to(package.parent).as_posix(): path.read_bytes()
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert found == expected
