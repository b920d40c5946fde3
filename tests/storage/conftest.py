"""The buckets of `tests/s3`, for the modules of each service, and uploads by small chunks."""

from __future__ import annotations

import pytest

from beam_pipeline.storage import google_reader, google_upload
from tests.gcs.content import MEBI
from tests.s3.conftest import azurite, azurite_store, environment, minio, minio_store
from tests.s3.conftest import cloud as store
from tests.transforms.conftest import serve

__all__ = [
    "azurite",
    "azurite_store",
    "environment",
    "minio",
    "minio_store",
    "serve",
    "store",
]


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> int:
    """Uploads of more than half a mebibyte go by chunks of half a mebibyte."""
    monkeypatch.setattr(google_upload, "CHUNK_BYTES", MEBI // 2)
    monkeypatch.setattr(google_upload, "ONE_REQUEST_BYTES", MEBI // 4)
    monkeypatch.setattr(google_reader, "CHUNK_BYTES", MEBI // 2)
    return MEBI // 2
