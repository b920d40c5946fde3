"""The proxy before MinIO and Azurite: it refuses as they do, and notes what a request copies and deletes."""

from __future__ import annotations

import re
from typing import ClassVar
from urllib.parse import unquote
from xml.sax.saxutils import escape

from tests.gcs.proxy import Answer, Handler

COPIED, DELETED = "(copied)", "(deleted)"
_COPY_HEADERS = ("x-amz-copy-source", "x-ms-copy-source")


class S3Handler(Handler):
    """Refuses as S3 does."""

    codes: ClassVar[dict[int, str]] = {
        403: "AccessDenied",
        404: "NoSuchKey",
        429: "TooManyRequests",
        500: "InternalError",
        503: "SlowDown",
    }
    deleted_name = re.compile(rb"<Key>(.*?)</Key>")

    def refusal(self, status: int, message: str, reason: str) -> Answer:
        code = reason or self.codes[status]
        body = f"<Error><Code>{code}</Code><Message>{escape(message)}</Message></Error>"
        headers = {"Content-Type": "application/xml"}
        return Answer(status, headers, b"" if self.command == "HEAD" else body.encode())

    def noted(self, body: bytes) -> dict[str, str]:
        copied = next(filter(None, map(self.headers.get, _COPY_HEADERS)), None)
        noted = {COPIED: copied} if copied else {}
        if self.command == "POST":
            names = (unquote(name.decode()) for name in self.deleted_name.findall(body))
            noted[DELETED] = "\n".join(names)
        return noted


class AzureHandler(S3Handler):
    """Refuses as Azure Blob Storage does."""

    codes: ClassVar[dict[int, str]] = {
        403: "AuthorizationPermissionMismatch",
        404: "BlobNotFound",
        429: "TooManyRequests",
        500: "InternalError",
        503: "ServerBusy",
    }
    deleted_name = re.compile(rb"\r\nDELETE /(?:devstoreaccount1/)?[^/]+/(\S+) HTTP")
