"""A server that lists a bucket."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack

import pytest

from tests.buckets.services import needs_google
from tests.listing_server import ListingServer, serving
from tests.transforms.buckets import PAGE, Serve


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Starts a server of the bucket `pets` with objects of these names, which clients then ask."""
    needs_google()
    from beam_pipeline.storage import google

    with ExitStack() as servers:

        def start(names: Iterable[str]) -> ListingServer:
            server = servers.enter_context(serving("pets", names, PAGE))
            monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
            google._forget_session()
            return server

        yield start
    google._forget_session()
