"""What the tests of deploy/ share: its folders, its scripts, the tools that check it, programs to call."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.harness import REPOSITORY

DEPLOY = Path(REPOSITORY, "deploy")
DATAFLOW = DEPLOY / "dataflow"
SCHEDULE = DEPLOY / "schedule"
TERRAFORM = SCHEDULE / "terraform"
DIGEST = "sha256:" + 64 * "0"
WORKERS = f"europe-west4-docker.pkg.dev/p/r/workers@{DIGEST}"
NIGHTS = [f"gs://my-sets/pets/2026-01-{day:02d}/manifest.json" for day in range(1, 17)]


def load_script(path: Path) -> ModuleType:
    """A script of deploy/, which is no package, as a module."""
    spec = importlib.util.spec_from_file_location(f"deploy_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where its dataclasses look for it
    spec.loader.exec_module(module)
    return module


def tool(name: str, package: str) -> str:
    """The program of a package beside this interpreter or in PATH; skips without it."""
    found = shutil.which(name, path=f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}")
    if found is None:
        pytest.skip(f"needs {name}: pip install {package}")
    return found


class Programs:
    """Programs that only write down how they were called; asked for an image or a folder, they give a digest or `NIGHTS`."""

    def __init__(self, folder: Path, *names: str) -> None:
        self._log = folder / "calls.jsonl"
        recorder = (
            f"#!{sys.executable}\nimport json, os, sys\n"
            f"with open({str(self._log)!r}, 'a') as file:\n"
            "    print(json.dumps([os.path.basename(sys.argv[0]), *sys.argv[1:]]), file=file)\n"
            f"if 'describe' in sys.argv:\n    print({DIGEST!r})\n"
            f"if 'inspect' in sys.argv:\n    print({WORKERS!r})\n"
            f"if sys.argv[-1] == '-':\n    open({str(folder / 'stdin')!r}, 'w').write(sys.stdin.read())\n"
            f"if 'ls' in sys.argv:\n    print(*{NIGHTS!r}, sep='\\n')\n"
        )
        for name in names:
            (folder / name).write_text(recorder)
            (folder / name).chmod(0o755)
        self.environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}

    def given(self) -> str:
        """What the last call with `-` read."""
        return self._log.with_name("stdin").read_text()

    def calls(self) -> list[list[str]]:
        """The name and the arguments of each call so far."""
        if not self._log.exists():
            return []
        return [json.loads(line) for line in self._log.read_text().splitlines()]
