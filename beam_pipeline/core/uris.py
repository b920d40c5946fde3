"""URIs: local paths and schemes."""

from __future__ import annotations

import re

_WORD = re.compile(r"[^\s'\"<>]+")
_SCHEME_AT_END = re.compile(r"[a-z][a-z0-9+.-]{0,30}\Z", re.IGNORECASE)
_PUNCTUATION_AT_END = re.compile(r"[:;,.)\]}]*\Z")
_END_OF_HOST = re.compile(r"[/?#]")
_WEB = frozenset({"http", "https", "ftp", "ftps"})
# Its pages require a login, so the query is not a secret; it names the project, which the page needs.
_CONSOLE = "console.cloud.google.com/"
_SECRET = re.compile(
    r"[?&#;](?:[^=&?#;\s]{0,40}(?:signature|credential|token|secret|password|policy|key|auth)"
    r"[^=&?#;\s]{0,40}|sig|se|sv)=",
    re.IGNORECASE,
)

_has_scheme = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*)://").match


def is_remote(uri: str) -> bool:
    """True if a URI has a scheme, such as gs://."""
    return _has_scheme(uri) is not None


def scheme_of(uri: str) -> str:
    """Returns the scheme of a URI, such as `gs`; empty for a local path."""
    found = _has_scheme(uri)
    return found[1] if found else ""


def without_secrets(text: str) -> str:
    """Returns text with `...` for the queries, users and passwords of the URLs in it.

    A signed URL's query works like a password. In other URIs `?` may be part of a name, as in
    `gs://pets/who?.jpg`, so only a query that looks like a secret is replaced.

    >>> without_secrets("no image https://me:pw@host/a.jpg?X-Goog-Signature=5e3c, line 2")
    'no image https://...@host/a.jpg?..., line 2'
    """
    if "?" not in text and "://" not in text:  # as in nearly all texts
        return text
    return _WORD.sub(_word_without_secrets, text)


def uri_without_secrets(uri: str) -> str:
    """Returns text that should be a URI, and may contain spaces, as `without_secrets` does."""
    return _url_without_secrets(uri) if is_remote(uri) else without_secrets(uri)


def _word_without_secrets(word: re.Match[str]) -> str:
    text = word[0]
    if "?" not in text and "://" not in text:
        return text
    end = _PUNCTUATION_AT_END.search(text, max(0, len(text) - 8))
    stop = end.start() if end else len(text)
    return _url_without_secrets(text[:stop]) + text[stop:]


def _url_without_secrets(url: str) -> str:
    start = url.find("://")
    scheme = _SCHEME_AT_END.search(url[max(0, start - 32) : start]) if start >= 0 else None
    is_web = scheme is not None and scheme[0].lower() in _WEB
    if start >= 0:
        is_web = is_web and not url.startswith(_CONSOLE, start + 3)
        url = url[: start + 3] + _without_user(url[start + 3 :])
    for mark in "?#":
        before, found, query = url.partition(mark)
        if found and query and (is_web or _SECRET.search(found + query)):
            return f"{before}{mark}..."
    return url


def _without_user(rest: str) -> str:
    """Returns the part after `://`, without user and password."""
    end = _END_OF_HOST.search(rest)
    host = rest[: end.start()] if end else rest
    user, at, _ = host.rpartition("@")
    if at:
        return f"...@{rest[len(user) + 1 :]}" if ":" in user else rest
    _, colon, port = host.partition(":")
    if colon and port and not port.isdecimal() and "@" in rest:  # a password with a slash
        return f"...@{rest.rpartition('@')[2]}"
    return rest
