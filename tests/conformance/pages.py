"""The commands of docs/datasets: a row for each `convert`, on data as the page describes it."""

from __future__ import annotations

import importlib
import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conformance.outcome import converted
from tests.harness import REPOSITORY, run_shell

FOLDER = Path(REPOSITORY, "docs/datasets")
_COMMAND = re.compile(r"^ *beam-tfrecord convert ", re.MULTILINE)
_NOTE = """
commands=$PWD/commands
beam-tfrecord() { [ "$1" != convert ] || { echo "$PWD"; printf '%q ' "${@:2}"; echo; } >> "$commands"; }
"""
_OUTPUT = ("--output", "--name")


_MAKERS = {
    "captions": ("captions", "caption_files"),
    "class_folders": ("class_folders", "cifar10"),
    "hugging_face": ("imagefolder", "parquet"),
    "python": (),
    "label_tools": ("label_tools", "shape_tools"),
    "tables": ("tables", "table_boxes", "automl"),
    "yolo_voc_kitti": ("yolo", "voc", "kitti"),
}
"""Page -> modules `tests.layouts.make_*` of its data; otherwise the one that is called as the page."""


def make_data(page: str, folder: str) -> None:
    """Writes the data sets that a page describes."""
    for name in _MAKERS.get(page, (page,)):
        importlib.import_module(f"tests.layouts.make_{name}").make(folder)


@dataclass(frozen=True)
class Command:
    """A command of a page.

    Attributes:
      page: the page's name.
      number: its place among the page's conversions, from 0.
    """

    page: str
    number: int

    def outcome(self) -> dict[str, Any]:
        """Makes the page's data, runs its other commands in a shell, and this one in this process."""
        make_data(self.page, ".")
        run_shell(_NOTE + "\n".join(f"({code})" for code in _bash(self.page)), ".")
        lines = Path("commands").read_text().splitlines()
        Path("commands").unlink()
        os.chdir(lines[2 * self.number])
        argv = shlex.split(lines[2 * self.number + 1])
        for option in _OUTPUT:
            if option in argv:
                del argv[argv.index(option) : argv.index(option) + 2]
        return {"command": shlex.join(argv), **converted(argv, stable=False)}


def _bash(page: str) -> list[str]:
    text = (FOLDER / f"{page}.md").read_text(encoding="utf-8")
    return re.findall(r"```bash\n(.*?)```", text, re.DOTALL)


def _commands() -> Mapping[str, Command]:
    pages = sorted(path.stem for path in FOLDER.glob("*.md") if path.stem != "README")
    return {
        f"{page}_{number + 1}": Command(page, number)
        for page in pages
        for number in range(sum(len(_COMMAND.findall(code)) for code in _bash(page)))
    }


ROWS = _commands()
