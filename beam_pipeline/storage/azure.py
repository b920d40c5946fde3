"""Azure Blob Storage (az://, abfs://, abfss://)."""

from __future__ import annotations

import os
import re
from typing import Any

from obstore.store import AzureStore

from beam_pipeline.core.errors import UsageError
from beam_pipeline.storage.buckets import Permissions
from beam_pipeline.storage.obstore_driver import ObstoreFiles

_ACCOUNT_IN_HOST = re.compile(r"([^@]+)@([a-z0-9]+)(?:\.(?:dfs|blob)\.core\.windows\.net)?")
_ACCOUNT = "AZURE_STORAGE_ACCOUNT_NAME"
_ACCOUNT_OF_CLI = "AZURE_STORAGE_ACCOUNT"
_ENDPOINTS = ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT")


class AzureFiles(ObstoreFiles):
    """Azure Blob Storage; the library reads its settings from the environment."""

    title = "Azure Blob Storage"
    container = "container"
    credentials_help = (
        "set AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN, or AZURE_CLIENT_ID, "
        "AZURE_TENANT_ID and AZURE_CLIENT_SECRET, or AZURE_USE_AZURE_CLI=true after `az login`, or "
        "run on a machine with a managed identity; for public containers set "
        "AZURE_SKIP_SIGNATURE=true"
    )
    permissions = Permissions(
        list="to list (Storage Blob Data Reader)",
        get="to read (Storage Blob Data Reader)",
        create="to write (Storage Blob Data Contributor)",
        delete="to delete (Storage Blob Data Contributor)",
    )
    lists_ranges = False  # not in accounts with folders (hierarchical namespace)

    def new_store(self, bucket: str, options: dict[str, Any]) -> Any:
        """Makes a store of a container. Raises UsageError."""
        container, account = container_of(bucket)
        endpoint = next(filter(None, map(os.environ.get, _ENDPOINTS)), "")
        if endpoint.startswith("http://") or os.environ.get("AZURE_STORAGE_USE_EMULATOR"):
            options["client_options"]["allow_http"] = True
        return AzureStore(container, config={"account_name": account}, **options)


def container_of(bucket: str) -> tuple[str, str]:
    """Returns container and account of the part of a URI before its first slash.

    Raises:
      UsageError: neither the URI nor the environment names the account.

    >>> container_of("pets@myaccount.dfs.core.windows.net")
    ('pets', 'myaccount')
    """
    named = _ACCOUNT_IN_HOST.fullmatch(bucket)
    if named:
        return named[1], named[2]
    account = os.environ.get(_ACCOUNT) or os.environ.get(_ACCOUNT_OF_CLI)
    if not account:
        raise UsageError(
            f"az://{bucket}: no storage account is named; set {_ACCOUNT}, or write "
            f"abfs://{bucket}@ACCOUNT.dfs.core.windows.net/"
        )
    return bucket, account
