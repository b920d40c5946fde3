"""The commands of docs/datasets: a row for each `convert`, on data as the page describes it."""

from __future__ import annotations

import functools
import os
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conformance.outcome import converted
from tests.harness import REPOSITORY, run_shell
from tests.layouts import data_sets
from tests.layouts.make_archives import make_archives
from tests.layouts.make_cifar10 import make_cifar10
from tests.layouts.make_files_in_cells import make_files_in_cells
from tests.layouts.make_parquet import make_parquet
from tests.layouts.make_segmentation import make_segmentation

FOLDER = Path(REPOSITORY, "docs/datasets")
_COMMAND = re.compile(r"^ *beam-tfrecord convert ", re.MULTILINE)
_NOTE = """
commands=$PWD/commands
beam-tfrecord() { [ "$1" != convert ] || { echo "$PWD"; printf '%q ' "${@:2}"; echo; } >> "$commands"; }
"""
_OUTPUT = ("--output", "--name")


_EXPORTED = (
    *(
        "automl",
        "captions",
        "class_folders",
        "conversations",
        "imagefolder",
        "kitti",
        "label_tools",
    ),
    *("official_lists", "shape_tools", "table_boxes", "tables", "voc", "yolo"),
)
MAKERS: Mapping[str, Callable[[str], None]] = {
    **{name: functools.partial(data_sets.make, name) for name in _EXPORTED},
    "archives": make_archives,
    "caption_files": data_sets.make_caption_files,
    "cifar10": make_cifar10,
    "coco": data_sets.make_coco,
    "files_in_cells": make_files_in_cells,
    "parquet": make_parquet,
    "segmentation": make_segmentation,
}
"""Name -> writes data sets of a kind into a folder."""

_DATA_OF = {
    "captions": ("captions", "caption_files"),
    "class_folders": ("class_folders", "cifar10"),
    "hugging_face": ("imagefolder", "parquet"),
    "python": (),
    "label_tools": ("label_tools", "shape_tools"),
    "tables": ("tables", "table_boxes", "automl"),
    "yolo_voc_kitti": ("yolo", "voc", "kitti"),
}
"""Page -> makers of its data; otherwise the one that is called as the page."""


def make_data(page: str, folder: str) -> None:
    """Writes the data sets that a page describes."""
    for name in _DATA_OF.get(page, (page,)):
        MAKERS[name](folder)


@dataclass(frozen=True)
class Command:
    """A command of a page.

    Attributes:
      page: the page's name.
      number: its place among the page's conversions, from 0.
    """

    page: str
    number: int

    def prepared(self) -> list[str]:
        """Makes the page's data, runs its other commands in a shell, and returns this one's options."""
        make_data(self.page, ".")
        run_shell(_NOTE + "\n".join(f"({code})" for code in _bash(self.page)), ".")
        lines = Path("commands").read_text().splitlines()
        Path("commands").unlink()
        os.chdir(lines[2 * self.number])
        argv = shlex.split(lines[2 * self.number + 1])
        for option in _OUTPUT:
            if option in argv:
                del argv[argv.index(option) : argv.index(option) + 2]
        return argv

    def outcome(self) -> dict[str, Any]:
        """Runs it in this process."""
        argv = self.prepared()
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
