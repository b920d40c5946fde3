"""What the tests of all layouts share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, which is the working directory, so that paths are typed as people do."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
