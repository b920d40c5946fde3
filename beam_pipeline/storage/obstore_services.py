"""Services that obstore reads and writes: S3 (s3://) and Azure Blob Storage (az://, abfs://, abfss://).

S3 is Amazon's, or another service with its interface, such as MinIO and Cloudflare R2.
"""

from __future__ import annotations

import functools
import http.client
import os
import re
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from beam_pipeline.core.errors import CredentialsError, UsageError
from beam_pipeline.storage.buckets import Permissions
from beam_pipeline.storage.obstore_driver import ObstoreFiles

_DEFAULT_REGION = "us-east-1"
_REGION_HOST = "s3.amazonaws.com"
_REGION_SECONDS = 5
_ASK_AGAIN = timedelta(minutes=5)
_COPY_IF_FREE = "header:if-none-match:*"
_YES = frozenset({"1", "true", "yes", "on"})

_ACCOUNT_IN_HOST = re.compile(r"([^@]+)@([a-z0-9]+)(?:\.(?:dfs|blob)\.core\.windows\.net)?")
_ACCOUNT = "AZURE_STORAGE_ACCOUNT_NAME"
_ACCOUNT_OF_CLI = "AZURE_STORAGE_ACCOUNT"
_ENDPOINTS = ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT")


class S3Files(ObstoreFiles):
    """S3. Credentials, region and endpoint are found as the AWS CLI finds them, by botocore."""

    title = "S3"
    extra = "s3"
    credentials_help = (
        "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE for a profile of "
        "~/.aws/config, or run `aws configure` or `aws sso login`, or run on a machine with a role; "
        "for public buckets set AWS_SKIP_SIGNATURE=true"
    )
    permissions = Permissions(
        list="s3:ListBucket", get="s3:GetObject", create="s3:PutObject", delete="s3:DeleteObject"
    )
    deletes = 1000

    def new_store(self, bucket: str, options: Mapping[str, Any]) -> Any:
        """Makes a store; the library reads further variables, such as AWS_REQUEST_PAYER, itself."""
        from obstore.store import S3Store

        found = self._settings()
        region = (None if found.endpoint else region_of(bucket)) or found.region or _DEFAULT_REGION
        config: dict[str, Any] = {"region": region}
        if found.endpoint:
            config["endpoint"] = found.endpoint
        if "AWS_COPY_IF_NOT_EXISTS" not in os.environ:
            config["copy_if_not_exists"] = _COPY_IF_FREE
        client_options = dict(options["client_options"])
        if (found.endpoint or "").startswith("http://"):
            client_options["allow_http"] = True
        more: dict[str, Any] = {}
        if found.credentials is None:
            config["skip_signature"] = True
        else:
            more["credential_provider"] = _Provider(found.credentials)
        return S3Store(
            bucket,
            config=config,
            **more,
            **{**options, "client_options": client_options},
        )

    def check_credentials(self) -> None:
        super().check_credentials()
        self._settings()

    def _settings(self) -> _Settings:
        try:
            return _settings()
        except ImportError as error:
            raise self.not_installed(error) from error


class _Settings(NamedTuple):
    """Attributes: endpoint, region: None if not set; credentials: botocore's, None for none."""

    endpoint: str | None
    region: str | None
    credentials: Any


@functools.cache
def _settings() -> _Settings:
    """Returns the settings of this process. Raises CredentialsError, ImportError, UsageError."""
    from botocore.configprovider import ConfiguredEndpointProvider
    from botocore.exceptions import BotoCoreError
    from botocore.session import Session

    try:
        session = Session()
        endpoint = ConfiguredEndpointProvider(
            full_config=session.full_config,
            scoped_config=session.get_scoped_config(),
            client_name="s3",
        ).provide()
        region = session.get_config_variable("region")
        is_public = os.environ.get("AWS_SKIP_SIGNATURE", "").lower() in _YES
        found = None if is_public else session.get_credentials()
    except BotoCoreError as error:
        raise CredentialsError(
            f"s3://: credentials cannot be used: {error}; {S3Files.credentials_help}"
        ) from error
    if found is None and not is_public:
        raise CredentialsError(
            f"s3://: no credentials found on this machine; {S3Files.credentials_help}"
        )
    if endpoint and not _is_endpoint(endpoint):
        raise UsageError(
            f"s3://: the endpoint is {endpoint!r}, expected a URL such as https://minio.example:9000; it "
            "is set by AWS_ENDPOINT_URL, AWS_ENDPOINT_URL_S3, or endpoint_url in ~/.aws/config"
        )
    return _Settings(endpoint or None, os.environ.get("AWS_REGION") or region, found)


def _is_endpoint(url: str) -> bool:
    """True for the URL of a server; the library ends the process for some others."""
    try:
        parts = urlsplit(url)
        has_server = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # a port that is none
        return False
    return bool(has_server) and url.isascii() and url.isprintable() and " " not in url


class _Provider:
    """Hands botocore's credentials, which renew themselves, to the library."""

    def __init__(self, credentials: Any) -> None:
        self._credentials = credentials

    def __call__(self) -> dict[str, Any]:
        """Returns the credentials of now."""
        frozen = self._credentials.get_frozen_credentials()
        return {
            "access_key_id": frozen.access_key,
            "secret_access_key": frozen.secret_key,
            "token": frozen.token,
            "expires_at": datetime.now(timezone.utc) + _ASK_AGAIN,
        }


def region_of(bucket: str, connection: http.client.HTTPConnection | None = None) -> str | None:
    """Returns the region of a bucket of Amazon's, which anyone may ask for; None if unknown.

    Args:
      bucket: its name.
      connection: the connection to ask by; by default a new one to Amazon's.
    """
    asked = connection or http.client.HTTPSConnection(_REGION_HOST, timeout=_REGION_SECONDS)
    try:
        asked.request("HEAD", f"/{bucket}")
        return asked.getresponse().getheader("x-amz-bucket-region")
    except (OSError, http.client.HTTPException):
        return None
    finally:
        asked.close()


class AzureFiles(ObstoreFiles):
    """Azure Blob Storage; the library reads its settings from the environment."""

    title = "Azure Blob Storage"
    container = "container"
    extra = "azure"
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

    def new_store(self, bucket: str, options: Mapping[str, Any]) -> Any:
        """Makes a store of a container. Raises UsageError."""
        from obstore.store import AzureStore

        container, account = container_of(bucket)
        endpoint = next(filter(None, map(os.environ.get, _ENDPOINTS)), "")
        client_options = dict(options["client_options"])
        if endpoint.startswith("http://") or os.environ.get("AZURE_STORAGE_USE_EMULATOR"):
            client_options["allow_http"] = True
        return AzureStore(
            container,
            config={"account_name": account},
            **{**options, "client_options": client_options},
        )


def container_of(bucket: str) -> tuple[str, str]:
    """Returns container and account of the part of a URI before its first slash.

    Raises:
      UsageError: neither the URI nor the environment names the account.

    >>> container_of("pets@myaccount.dfs.core.windows.net")
    ('pets', 'myaccount')
    """
    found = _ACCOUNT_IN_HOST.fullmatch(bucket)
    if found:
        return found[1], found[2]
    account = os.environ.get(_ACCOUNT) or os.environ.get(_ACCOUNT_OF_CLI)
    if not account:
        raise UsageError(
            f"az://{bucket}: no storage account is named; set {_ACCOUNT}, or write "
            f"abfs://{bucket}@ACCOUNT.dfs.core.windows.net/"
        )
    return bucket, account
