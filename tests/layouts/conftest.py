"""What the tests of all layouts share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, which is the working directory, so that paths are typed as people do."""
    folder = tmp_path / "data"  # with no other test's label files in the folder above
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder
