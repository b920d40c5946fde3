"""A server that lists a bucket."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack

import pytest

from tests.buckets.services import needs_google
from tests.listing_server import ListingServer, Serve
from tests.servers import served


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Starts a server of the bucket `pets` with objects of these names, which clients then ask."""
    needs_google()
    from beam_pipeline.storage import google

    with ExitStack() as servers:

        def start(names: Iterable[str]) -> ListingServer:
            listing = ListingServer(names)
            url = servers.enter_context(served(listing.answer)).url
            monkeypatch.setenv("STORAGE_EMULATOR_HOST", url)
            google._forget_session()
            return listing

        yield start
    google._forget_session()
