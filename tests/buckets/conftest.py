"""A bucket of each service for every test here, and small requests for large files."""

from __future__ import annotations

import contextlib

import pytest

from beam_pipeline.storage import buckets
from tests.buckets.services import (
    MEBI,
    Store,
    azurite,
    azurite_store,
    environment,
    minio,
    minio_store,
)
from tests.transforms.conftest import serve

__all__ = ["azurite", "azurite_store", "environment", "minio", "minio_store", "serve"]

STORES = {"gs": "google_store", "s3": "minio_store", "az": "azurite_store"}


@pytest.fixture(params=STORES)
def cloud(request: pytest.FixtureRequest) -> Store:
    """A new bucket of each service."""
    store: Store = request.getfixturevalue(STORES[request.param])
    return store


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> int:
    """Requests of at most half a mebibyte."""
    with contextlib.suppress(ImportError):
        monkeypatch.setattr("beam_pipeline.storage.google.CHUNK_BYTES", MEBI // 2)
        monkeypatch.setattr("google.cloud.storage.blob._MAX_MULTIPART_SIZE", MEBI // 4)
    monkeypatch.setattr(buckets, "ONE_REQUEST_BYTES", MEBI // 4)
    monkeypatch.setattr(buckets, "READ_BYTES", MEBI // 2)
    return MEBI // 2
