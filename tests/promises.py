"""What the program promises when things go wrong, and the tests that hold each promise.

A test names the promises that it holds, `@pytest.mark.promise("killed", ...)`; each has at least one.
`python -m tests.promises` writes the list into docs/reliability.md; a test compares the two.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.harness import REPOSITORY

PAGE = Path(REPOSITORY, "docs", "reliability.md")
HEADING = "## Promises\n\n"


class Promise(NamedTuple):
    """A promise.

    Attributes:
      when: what goes wrong.
      then: what happens.
    """

    when: str
    then: str


def _read(text: str) -> Iterator[tuple[str, dict[str, Promise]]]:
    for section in text.removeprefix("== ").split("\n== "):
        title, *lines = section.strip().splitlines()
        promises = (line.split(" | ") for line in lines)
        yield title, {name: Promise(when, then) for name, when, then in promises}


PROMISES = dict(_read(Path(__file__).with_suffix(".txt").read_text(encoding="utf-8")))
"""Title -> name -> promise, in the order of the page and of promises.txt, which has a promise a line."""


class Holder(NamedTuple):
    """A test function: its file below the repository, and its name."""

    file: str
    name: str


def holders() -> dict[str, list[Holder]]:
    """Name of a promise -> the tests that name it, found in the source of all tests."""
    found: dict[str, list[Holder]] = defaultdict(list)
    for path in sorted(Path(REPOSITORY, "tests").rglob("test_*.py")):
        source = path.read_text(encoding="utf-8")
        if "mark.promise" not in source:
            continue
        for node in ast.parse(source).body:
            if isinstance(node, ast.FunctionDef):
                for name in _promises(node):
                    file = path.relative_to(REPOSITORY).as_posix()
                    found[name].append(Holder(file, node.name))
    return dict(found)


def _promises(function: ast.FunctionDef) -> Iterator[str]:
    """The arguments of a function's `pytest.mark.promise`."""
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.promise":
            yield from map(ast.literal_eval, decorator.args)


def list_of_promises() -> str:
    """The list as Markdown, a table a title."""
    parts = []
    for title, promises in PROMISES.items():
        parts += [f"### {title}", "", "| when | then |", "|---|---|"]
        parts += [f"| {promise.when} | {promise.then} |" for promise in promises.values()]
        parts.append("")
    return "\n".join(parts)


def page() -> str:
    """The page, with the list as its last section."""
    return PAGE.read_text(encoding="utf-8").partition(HEADING)[0] + HEADING + list_of_promises()


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
