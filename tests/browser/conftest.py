"""A headless Chromium, from the system or from BEAM_TFRECORD_CHROMIUM."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """The browser; without one, tests are skipped."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs the extra browser")
    path = os.environ.get("BEAM_TFRECORD_CHROMIUM") or next(
        filter(None, map(shutil.which, NAMES)), ""
    )
    if not path:
        pytest.skip(f"no browser: none of {', '.join(NAMES)} is installed")
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield found
        found.close()
