"""S3 (s3://): Amazon's, or another service with its interface, such as MinIO and Cloudflare R2."""

from __future__ import annotations

import functools
import http.client
import os
from datetime import datetime, timedelta, timezone
from typing import Any
from urllib.parse import urlsplit

from botocore.configprovider import ConfiguredEndpointProvider
from botocore.exceptions import BotoCoreError
from botocore.session import Session
from obstore.store import S3Store

from beam_pipeline.core.errors import CredentialsError, UsageError
from beam_pipeline.storage import buckets, obstore_driver

_DEFAULT_REGION = "us-east-1"
_REGION_HOST = "s3.amazonaws.com"
_REGION_SECONDS = 5
_ASK_AGAIN = timedelta(minutes=5)
_COPY_IF_FREE = "header:if-none-match:*"
_YES = frozenset({"1", "true", "yes", "on"})


class S3Files(obstore_driver.ObstoreFiles):
    """S3. Credentials, region and endpoint are found as the AWS CLI finds them, by botocore."""

    title = "S3"
    credentials_help = (
        "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE for a profile of "
        "~/.aws/config, or run `aws configure` or `aws sso login`, or run on a machine with a role; "
        "for public buckets set AWS_SKIP_SIGNATURE=true"
    )
    permissions = buckets.Permissions(
        list="s3:ListBucket", get="s3:GetObject", create="s3:PutObject", delete="s3:DeleteObject"
    )
    deletes = 1000

    def new_store(self, bucket: str, options: dict[str, Any]) -> Any:
        """Makes a store; the library reads further variables, such as AWS_REQUEST_PAYER, itself."""
        endpoint, region, credentials = self.settings
        region = (None if endpoint else region_of(bucket)) or region or _DEFAULT_REGION
        config: dict[str, Any] = {"region": region}
        if endpoint:
            config["endpoint"] = endpoint
            options["client_options"]["allow_http"] = endpoint.startswith("http://")
        if "AWS_COPY_IF_NOT_EXISTS" not in os.environ:
            config["copy_if_not_exists"] = _COPY_IF_FREE
        if credentials is None:
            config["skip_signature"] = True
        else:
            options["credential_provider"] = functools.partial(_current, credentials)
        return S3Store(bucket, config=config, **options)

    def check_credentials(self) -> None:
        _ = self.settings

    @functools.cached_property
    def settings(self) -> tuple[str | None, str | None, Any]:
        """Endpoint and region, None if not set, and botocore's credentials, None for none.

        Raises:
          CredentialsError, UsageError: there are none, or a setting cannot be used.
        """
        try:
            session = Session()
            endpoint = ConfiguredEndpointProvider(
                full_config=session.full_config,
                scoped_config=session.get_scoped_config(),
                client_name="s3",
            ).provide()
            region = session.get_config_variable("region")
            is_public = os.environ.get("AWS_SKIP_SIGNATURE", "").lower() in _YES
            credentials = None if is_public else session.get_credentials()
        except BotoCoreError as error:
            raise CredentialsError(
                f"s3://: credentials cannot be used: {error}; {self.credentials_help}"
            ) from error
        if credentials is None and not is_public:
            raise CredentialsError(
                f"s3://: no credentials found on this machine; {self.credentials_help}"
            )
        if endpoint and not _is_endpoint(endpoint):
            raise UsageError(
                f"s3://: the endpoint is {endpoint!r}, expected a URL such as https://minio.example:9000; it "
                "is set by AWS_ENDPOINT_URL, AWS_ENDPOINT_URL_S3, or endpoint_url in ~/.aws/config"
            )
        return endpoint or None, os.environ.get("AWS_REGION") or region, credentials


def _is_endpoint(url: str) -> bool:
    """True for the URL of a server; the library ends the process for some others."""
    try:
        parts = urlsplit(url)
        has_server = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # an invalid port
        return False
    return bool(has_server) and url.isascii() and url.isprintable() and " " not in url


def _current(credentials: Any) -> dict[str, Any]:
    """Returns botocore's credentials of now, which renew themselves, as the library takes them."""
    frozen = credentials.get_frozen_credentials()
    return {
        "access_key_id": frozen.access_key,
        "secret_access_key": frozen.secret_key,
        "token": frozen.token,
        "expires_at": datetime.now(timezone.utc) + _ASK_AGAIN,
    }


def region_of(bucket: str, connection: http.client.HTTPConnection | None = None) -> str | None:
    """Returns the region of an Amazon bucket, which anyone may ask for; None if unknown.

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
