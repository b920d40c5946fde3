"""The listing server of `tests/transforms`."""

from tests.transforms.conftest import serve

__all__ = ["serve"]
