from __future__ import annotations

import os
from typing import Any

import pytest


@pytest.fixture(scope="session")
def tf() -> Any:
    """TensorFlow, imported by the first test that wants it; it judges, it is never used by us."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    return pytest.importorskip("tensorflow")
