"""Cases as lines of text, in a table beside their test: a line is a case, and ` |` ends its cells but the last."""

from __future__ import annotations

import re
from pathlib import Path


def rows(test: str, section: str) -> list[tuple[str, ...]]:
    r"""The rows of a section, `[name]`, of the table of a test: of job.txt for test_job.py.

    Empty lines and those that begin with `#` are comments; `\n` in a cell is a line break.
    """
    path = Path(test)
    table = path.with_name(f"{path.stem.removeprefix('test_')}.txt").read_text(encoding="utf-8")
    _, *parts = re.split(r"^\[([\w ]+)\]$", table, flags=re.MULTILINE)
    lines = dict(zip(parts[::2], parts[1::2], strict=True))[section].splitlines()
    return [
        tuple(cell.strip().replace(r"\n", "\n") for cell in line.split(" |"))
        for line in lines
        if line and line[0] != "#"
    ]
