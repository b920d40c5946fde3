"""The emulated bucket, for engines whose workers read and write there."""

from tests.gcs.conftest import _servers, cloud

__all__ = ["_servers", "cloud"]
