"""`--setup_file ./setup.py`: the repository's own, built as Beam builds it, by an old setuptools."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from apache_beam.runners.portability.stager import Stager

from tests.beam_pipeline.engines.test_packaging import modules_of
from tests.harness import REPOSITORY, process

OLD_SETUPTOOLS = "setuptools==65.5.0"  # Python 3.11 brings it
IMPORT = "import beam_pipeline.core.errors as found; print(found.__file__)"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        sys.version_info >= (3, 12), reason="setuptools 65 is for Python up to 3.11"
    ),
]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The interpreter of an environment that holds pip, the old setuptools and nothing else."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    found = str(folder / "bin" / "python")
    _run(found, "-m", "pip", "install", "-q", OLD_SETUPTOOLS, "wheel")
    return found


def _run(python: str, *argv: str) -> str:
    """Runs Python apart from this checkout, and returns what it printed."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = process(python, *argv, cwd="/", env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_workers_get_every_module(
    python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
    monkeypatch.setenv("BEAM_PYTHON", python)
    archive = Stager._build_setup_package(str(checkout / "setup.py"), str(tmp_path))
    with tarfile.open(archive) as tar:
        assert [member.name for member in tar if not (member.isfile() or member.isdir())] == []
        held = {member.name.partition("/")[2] for member in tar if member.isfile()}
    assert held >= set(expected)

    _run(python, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", archive)
    package = Path(_run(python, "-c", IMPORT)).parents[1]
    assert Path(python).parents[1] in package.parents
    assert not (package / "transforms").is_symlink()
    found = {
        path.relative_to(package.parent).as_posix(): path.read_bytes()
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert found == expected
