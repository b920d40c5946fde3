"""The errors of the library obstore, as Python's and ours.

The library raises one of a few classes, with a text such as

    Generic S3 error: Error performing GET http://host/pets/a in 2ms - Server returned non-2xx status
    code: 503 Service Unavailable: <?xml ...><Error><Code>SlowDown</Code><Message>Slow down</Message>...

    Debug source:
    ...

so the status, the code and the message are read from the text.
"""

from __future__ import annotations

import errno
import html
import re
from typing import NamedTuple

_DEBUG = "\n\nDebug source:"
_ANSWER = re.compile(r"non-2xx status code: (\d{3}) ?([^:\n]*)(?:: (.*))?", re.DOTALL)
_CODE = re.compile(r"<Code>(.*?)</Code>", re.DOTALL)
_MESSAGE = re.compile(r"<Message>(.*?)</Message>", re.DOTALL)
_CODE_OF_ONE = re.compile(r"\(code: (\w+)\)")  # of several objects to delete
_AFTER_END = "Wanted range starting at"  # the library's own words, where a service answers 200
_REASON = re.compile(r'message: "([^"]+)"')
_TIMED_OUT = re.compile(r"TimedOut|kind: Timeout")

_TRANSIENT_STATUS = frozenset({408, 429, 500, 502, 503, 504})
_TRANSIENT_CODES = frozenset({"RequestTimeout", "SlowDown", "InternalError", "ServerBusy"})

_REFUSED_CODES = frozenset(
    {
        "InvalidAccessKeyId",
        "SignatureDoesNotMatch",
        "ExpiredToken",
        "InvalidToken",
        "TokenRefreshRequired",
        "RequestTimeTooSkewed",
        "AuthorizationHeaderMalformed",
        "AuthenticationFailed",
        "InvalidAuthenticationInfo",
        "NoAuthenticationInformation",
    }
)
"""Codes of answers that refuse the credentials, rather than a permission."""


class TakenError(Exception):
    """An object that should be new exists."""


class RefusedError(Exception):
    """There are no credentials, or they are refused."""


class Answer(NamedTuple):
    """What an error tells.

    Attributes:
      status: the HTTP status; 0 if no answer came.
      code: the service's code; may be empty.
      text: all of it in one line.
    """

    status: int
    code: str
    text: str


def answer_of(error: BaseException) -> Answer:
    """Returns what an error of the library tells.

    >>> answer_of(Exception("x - Server returned non-2xx status code: 404 Not Found: "))
    Answer(status=404, code='', text='404 Not Found')
    """
    text, _, debug = str(error).partition(_DEBUG)
    found = _ANSWER.search(text)
    if found is None:
        one = _CODE_OF_ONE.search(text)
        if one:
            return Answer(int(one[1]) if one[1].isdecimal() else 0, one[1], _one_line(text))
        return Answer(0, "", _one_line(_with_reason(text, debug)))
    status, phrase, body = int(found[1]), found[2], found[3] or ""
    code = _CODE.search(body)
    message = _MESSAGE.search(body)
    words = html.unescape(message[1]).split("\n")[0] if message else ""
    shown = ": ".join(filter(None, (html.unescape(code[1]) if code else phrase, words)))
    return Answer(status, code[1] if code else "", _one_line(f"{status} {shown}"))


def _with_reason(text: str, debug: str) -> str:
    """Returns the text of an error of the connection, with the reason that lies deep in it."""
    reason = _REASON.search(debug)
    if reason:
        return f"{text} ({reason[1]})"
    return f"{text} (timed out)" if _TIMED_OUT.search(debug) else text


def _one_line(text: str) -> str:
    return " ".join(text.split())[:500]


def translated(error: Exception, uri: str) -> Exception | None:
    """Returns Python's or our error for one of the library; None for one that may pass.

    Args:
      error: the error.
      uri: the object or folder that the request is about.

    Returns: one of

    - FileNotFoundError: 404;
    - PermissionError: 403;
    - RefusedError: there are no credentials, or they are refused;
    - TakenError: an object that should be new exists;
    - OSError: another permanent error, errno `ERANGE` for a range after the end of an object;
    - the error itself: it is none of the library's.
    """
    from obstore import exceptions as library

    if isinstance(error, ValueError):
        return OSError(errno.EINVAL, f"the name cannot be read or written: {error}", uri)
    if not isinstance(error, (library.BaseError, OSError)):
        return error
    status, code, text = answer_of(error)
    if isinstance(error, (library.AlreadyExistsError, library.PreconditionError)):
        return TakenError(text)
    is_unknown = isinstance(error, library.UnauthenticatedError) or status == 401
    if is_unknown or code in _REFUSED_CODES:
        return RefusedError(text)
    if isinstance(error, FileNotFoundError) or status == 404:
        return FileNotFoundError(errno.ENOENT, text, uri)
    if status == 403 or code == "AccessDenied":
        return PermissionError(errno.EACCES, text, uri)
    if status == 416 or _AFTER_END in text:
        return OSError(errno.ERANGE, text, uri)
    if isinstance(error, library.InvalidPathError):
        return OSError(errno.EINVAL, text, uri)
    if 300 <= status < 400 or "Received redirect" in text:
        return OSError(errno.EIO, f"{text}; the bucket may be in another region", uri)
    if (status or code) and status not in _TRANSIENT_STATUS and code not in _TRANSIENT_CODES:
        return OSError(errno.EIO, text, uri)
    return None
