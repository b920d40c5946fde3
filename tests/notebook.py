"""Runs the notebook in examples/; `python -m tests.notebook` stores its output in it.

Only the output is kept that a reader wants to see: what libraries log is left out.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.harness import REPOSITORY

NOTEBOOK = Path(REPOSITORY, "examples", "first_steps.ipynb")
_SECONDS = 280  # for all cells


def executed(folder: str) -> Any:
    """The notebook, with the output of every cell.

    Args:
      folder: where its kernel starts.

    Raises:
      CellExecutionError: a cell failed.
    """
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(NOTEBOOK, as_version=4)
    programs = os.path.dirname(sys.executable)  # of `!beam-tfrecord demo`
    environment = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    client = NotebookClient(notebook, timeout=_SECONDS, record_timing=False)
    client.create_kernel_manager()
    with client.setup_kernel(env=environment, cwd=folder):
        for index, cell in enumerate(notebook.cells):
            client.execute_cell(cell, index)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [one for one in cell.outputs if one.get("name") != "stderr"]
    notebook.metadata["language_info"] = {"name": "python"}
    return notebook


if __name__ == "__main__":
    import nbformat

    with tempfile.TemporaryDirectory() as start:
        nbformat.write(executed(start), NOTEBOOK)
