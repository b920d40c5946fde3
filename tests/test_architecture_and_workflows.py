"""The rooms of the house: which may import which, and what they must not bring in."""

from __future__ import annotations

import ast
import functools
import graphlib
import importlib.util
import json
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import beam_pipeline
import beam_pipeline.core
import beam_pipeline.layouts
import beam_pipeline.storage
import beam_pipeline.work
from tests.harness import REPOSITORY

CORE = "beam_pipeline.core"
STORAGE = "beam_pipeline.storage"
LAYOUTS = "beam_pipeline.layouts"
TRANSFORMS = "beam_pipeline.transforms"

WORK = "beam_pipeline.work"
OPTIONS = "beam_pipeline.options"

ALLOWED = {
    CORE: (CORE,),
    STORAGE: (STORAGE, CORE),
    LAYOUTS: (LAYOUTS, STORAGE, CORE),
    WORK: (WORK, LAYOUTS, STORAGE, CORE),
    OPTIONS: (OPTIONS, LAYOUTS, STORAGE, CORE),
    TRANSFORMS: (TRANSFORMS, OPTIONS, WORK, LAYOUTS, STORAGE, CORE),
}
"""Room -> the rooms that its modules may import. The first room that a module lies in counts."""

DRIVERS = {
    f"{STORAGE}.{name}" for name in ("azure", "beam_filesystems", "google", "obstore_driver", "s3")
}
"""Each imports the library of its storage, and is imported when a URI needs it."""

IMPORT_AND_LIST = """
import importlib, json, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
print(json.dumps(sorted(sys.modules)))
"""


def _modules() -> Iterator[tuple[str, Path]]:
    """(dotted name, file) of every module of the package."""
    (root,) = beam_pipeline.__path__
    for module in pkgutil.walk_packages([root], "beam_pipeline."):
        path = Path(root, *module.name.split(".")[1:])
        yield module.name, path / "__init__.py" if module.ispkg else path.with_suffix(".py")


@functools.cache
def _imports(path: Path) -> tuple[str, ...]:
    """Our own modules that a file imports, anywhere in it."""
    return tuple(_each_import(path))


def _each_import(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    if path.name == "__init__.py":  # what only type checkers see of a package
        seen = (node for node in tree.body if isinstance(node, ast.If))
        for node in seen:
            node.body = node.body if ast.unparse(node.test) != "TYPE_CHECKING" else []
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        yield from (name for name in names if name.startswith("beam_pipeline"))


def test_imports_run_one_way() -> None:
    """beam_pipeline -> transforms -> work or options -> layouts -> storage -> core, and never back."""
    backwards = []
    for name, path in _modules():
        room = next((room for room in ALLOWED if f"{name}.".startswith(f"{room}.")), None)
        if room:
            backwards += [
                f"{name} imports {imported}"
                for imported in _imports(path)
                if not imported.startswith(tuple(f"{allowed}." for allowed in ALLOWED[room]))
            ]
    assert backwards == []


def test_no_two_modules_import_each_other() -> None:
    """Taken in the order of their imports, no module comes before itself."""
    files = dict(_modules())
    edges = {
        name: {
            target
            for imported in _imports(path)
            for target in (imported, imported.rpartition(".")[0])
            if target in files and target != name
        }
        for name, path in files.items()
    }
    graphlib.TopologicalSorter(edges).prepare()  # raises CycleError, with the modules of the circle


def test_no_module_is_assigned_to() -> None:
    """A local name that reads like a function of another module would replace it for the whole process."""
    assigned = []
    for name, path in _modules():
        imported = {target.rpartition(".")[2] for target in _imports(path)}
        assigned += [
            f"{name}, line {node.lineno}: {ast.unparse(node)}"
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
            if isinstance(node.value, ast.Name) and node.value.id in imported
        ]
    assert assigned == []


def test_no_two_packages_import_each_other() -> None:
    """Taken in the order of their imports, no package comes before itself.

    A package is a folder; the one at the top, whose files import all of them, is left out.
    """
    files = dict(_modules())
    packages = {name for name, path in files.items() if path.name == "__init__.py"}
    package_of = {name: name if name in packages else name.rpartition(".")[0] for name in files}
    graph: dict[str, set[str]] = {package: set() for package in packages}
    for name, path in files.items():
        for imported in _imports(path):
            target = imported if imported in files else imported.rpartition(".")[0]
            if target in files and package_of[name] != "beam_pipeline":
                graph[package_of[name]].add(package_of[target])
    sorter = graphlib.TopologicalSorter(
        {package: targets - {package, "beam_pipeline"} for package, targets in graph.items()}
    )
    sorter.prepare()  # raises CycleError, with the packages of the circle


def test_all_below_the_transforms_import_neither_beam_nor_tensorflow() -> None:
    """All modules of four rooms, in a Python of their own, bring in neither of the two."""
    rooms = (CORE, STORAGE, LAYOUTS, WORK)
    names = [name for name, _ in _modules() if f"{name}.".startswith(tuple(f"{r}." for r in rooms))]
    names = [name for name in names if name not in DRIVERS]
    if importlib.util.find_spec("cv2") is None:  # of an extra, without which nothing imports this
        names = [name for name in names if name != f"{CORE}.images.opencv_codec"]
    assert all(sum(name.startswith(f"{room}.") for name in names) > 5 for room in rooms)
    run = subprocess.run(
        [sys.executable, "-c", IMPORT_AND_LIST, *names], capture_output=True, text=True, check=True
    )
    imported = set(json.loads(run.stdout))
    assert imported >= set(names)
    assert not imported & {"apache_beam", "tensorflow"}


def test_a_transforms_module_of_the_users_own_is_no_obstacle(tmp_path: Path) -> None:
    """A script beside a `transforms.py` or a `transforms/` of its own imports both."""
    (tmp_path / "transforms.py").write_text("mine = 1\n")
    script = (
        "import transforms, beam_pipeline.storage.files as files;"
        "print(transforms.mine, files.join('a', 'b'))"
    )
    run = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert run.stdout == "1 a/b\n"
    (tmp_path / "transforms.py").unlink()
    (tmp_path / "transforms").mkdir()
    (tmp_path / "transforms/__init__.py").write_text("mine = 1\n")
    run = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert run.stdout == "1 a/b\n"


def test_the_package_lies_where_the_link_leads() -> None:
    """`transforms/` of the repository and `beam_pipeline.transforms` are one folder."""
    link = Path(REPOSITORY, "beam_pipeline", "transforms")
    assert link.is_symlink()
    assert link.resolve() == Path(REPOSITORY, "transforms").resolve()


def test_no_module_defines_a_constant_twice() -> None:
    """As it may when files are merged; the first users would then silently read the second."""
    for name, path in _modules():
        statements = ast.parse(path.read_text(encoding="utf-8")).body
        targets = [
            target.id
            for statement in statements
            if isinstance(statement, ast.Assign)
            for target in statement.targets
            if isinstance(target, ast.Name)
        ]
        assert len(targets) == len(set(targets)), (name, sorted(targets))


def test_one_module_prints() -> None:
    """Whatever reaches a terminal goes by `terminal.py`, which escapes it."""
    printing = [
        f"{name}, line {node.lineno}"
        for name, path in _modules()
        if name != "beam_pipeline.terminal"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "print"
    ]
    assert printing == []


# --- The workflows of .github, as far as they can be checked without GitHub


WORKFLOWS = sorted(Path(REPOSITORY, ".github", "workflows").glob("*.yml"))

WEEKLY = Path(REPOSITORY, ".github", "workflows", "weekly.yml")


def _read(path: Path) -> dict[str, Any]:
    workflow: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return workflow


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_is_sound(path: Path) -> None:
    """It may only read, every job ends, and what it runs is there."""
    workflow = _read(path)
    assert workflow["permissions"] == {"contents": "read"}
    triggers = workflow[True]  # YAML's own reading of `on`
    for schedule in triggers.get("schedule", ()):
        assert re.fullmatch(r"\d+ \d+ (\*|\d+) (\*|\d+) (\*|\d)", schedule["cron"])
    for job in workflow["jobs"].values():
        assert 0 < job["timeout-minutes"] <= 60
        steps = job["steps"]
        assert all(("uses" in step) != ("run" in step) for step in steps)
        for step in steps:
            command = step.get("run", "").split(" ")[0]
            if command.startswith(".ci/"):
                assert Path(REPOSITORY, command).stat().st_mode & 0o100


def test_every_version_of_python_is_tried() -> None:
    """Those that the package names, and the first with the lowest versions of all dependencies."""
    project = Path(REPOSITORY, "pyproject.toml").read_text(encoding="utf-8")
    named = re.findall(r"Python :: (3\.\d+)", project)
    tried = _read(WEEKLY)["jobs"]["versions"]["strategy"]["matrix"]["version"]
    assert set(named) <= set(tried)
    assert f"{named[0]}-lowest" in tried
    script = Path(REPOSITORY, ".ci", "versions").read_text(encoding="utf-8")
    assert f"wanted=({' '.join(tried)})" in script
