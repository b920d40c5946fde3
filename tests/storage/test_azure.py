"""Azure's accounts and containers."""

from __future__ import annotations

import pytest

from beam_pipeline.core.errors import UsageError
from beam_pipeline.storage import files
from beam_pipeline.storage.azure import container_of
from tests.s3.conftest import ACCOUNT, AzuriteStore


@pytest.mark.parametrize(
    ("bucket", "expected"),
    [
        ("pets@mine.dfs.core.windows.net", ("pets", "mine")),
        ("pets@mine.blob.core.windows.net", ("pets", "mine")),
        ("pets@mine", ("pets", "mine")),
        ("pets", ("pets", "ours")),
    ],
)
def test_the_account_is_in_the_uri_or_in_the_environment(
    bucket: str, expected: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The URI counts first."""
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT", "ours")
    assert container_of(bucket) == expected


def test_no_account_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Says how to name one."""
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT", raising=False)
    with pytest.raises(
        UsageError, match="set AZURE_STORAGE_ACCOUNT_NAME, or write abfs://pets@ACC"
    ):
        container_of("pets")


@pytest.mark.s3
@pytest.mark.parametrize("scheme", ["az", "abfs", "abfss"])
def test_each_scheme_names_the_same_blobs(azurite_store: AzuriteStore, scheme: str) -> None:
    """With the account in the URI too."""
    azurite_store.put("a/b.jpg", b"1")
    for bucket in (azurite_store.bucket, f"{azurite_store.bucket}@{ACCOUNT}"):
        assert files.read_bytes(f"{scheme}://{bucket}/a/b.jpg") == b"1"
