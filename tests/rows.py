"""Cases as lines of text, in a table beside their test: a line is a case, and ` |` ends its cells but the last."""

from __future__ import annotations

from pathlib import Path


def rows(test: str, section: str) -> list[tuple[str, ...]]:
    r"""The rows of a section, `[name]`, of the table of a test: of job.txt for test_job.py.

    Empty lines and those that begin with `#` are comments; `\n` in a cell is a line break.
    """
    path = Path(test)
    table = path.with_name(f"{path.stem.removeprefix('test_')}.txt").read_text(encoding="utf-8")
    lines = table.partition(f"[{section}]\n")[2].partition("\n[")[0].splitlines()
    cells = [
        tuple(cell.strip().replace(r"\n", "\n") for cell in line.split(" |"))
        for line in lines
        if line and line[0] != "#"
    ]
    assert cells, f"the table of {path.name} has no rows of [{section}]"
    return cells
