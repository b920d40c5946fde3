"""Errors of the library obstore, whose texts tell what happened."""

from __future__ import annotations

import errno

import pytest

from beam_pipeline.storage.obstore_errors import (
    Answer,
    RefusedError,
    TakenError,
    answer_of,
    translated,
)

URI = "s3://pets/a"
REFUSED = """Generic {store} error: Error performing GET http://h/pets/a in 2ms - Server returned non-2xx \
status code: {status}: <?xml version="1.0"?>
<Error><Code>{code}</Code><Message>{message}</Message><Key>a</Key></Error>

Debug source:
Generic {{ body: "<Code>Other</Code>" }}"""
NO_CONNECTION = """Generic S3 error: Error performing GET http://h/pets/a in 2ms - HTTP error: error sending \
request

Debug source:
Os { code: 111, kind: ConnectionRefused, message: "Connection refused" }"""
CUT = "Generic S3 error: HTTP error: request or response body error"


def _refused(status: str, code: str, message: str = "m") -> str:
    return REFUSED.format(store="S3", status=status, code=code, message=message)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (
            _refused("503 Service Unavailable", "SlowDown", "Reduce &quot;it&quot;"),
            Answer(503, "SlowDown", '503 SlowDown: Reduce "it"'),
        ),
        (
            _refused("404 Not Found", "ContainerNotFound", "Is not there.\nRequestId:1\nTime:2"),
            Answer(404, "ContainerNotFound", "404 ContainerNotFound: Is not there."),
        ),
        (
            "x - Server returned non-2xx status code: 403 Forbidden: ",
            Answer(403, "", "403 Forbidden"),
        ),
        (
            "Bulk delete request failed for key a: Access Denied. (code: AccessDenied)",
            Answer(
                0,
                "AccessDenied",
                "Bulk delete request failed for key a: Access Denied. (code: AccessDenied)",
            ),
        ),
        ("Bulk delete request failed for key a: gone (code: 404)", 404),
        (
            NO_CONNECTION,
            Answer(
                0,
                "",
                "Generic S3 error: Error performing GET http://h/pets/a in 2ms - HTTP error: error "
                "sending request (Connection refused)",
            ),
        ),
    ],
)
def test_what_a_text_tells(text: str, answer: Answer | int) -> None:
    """Status, the service's code, and one line for people."""
    found = answer_of(Exception(text))
    assert (found.status if isinstance(answer, int) else found) == answer


@pytest.mark.parametrize(
    ("kind", "text", "expected", "number"),
    [
        ("GenericError", _refused("500 Internal Server Error", "InternalError"), None, 0),
        ("GenericError", _refused("503 Service Unavailable", "SlowDown"), None, 0),
        ("GenericError", _refused("429 Too Many Requests", "TooManyRequests"), None, 0),
        ("GenericError", _refused("400 Bad Request", "RequestTimeout"), None, 0),
        ("GenericError", NO_CONNECTION, None, 0),
        ("GenericError", CUT, None, 0),
        ("GenericError", _refused("400 Bad Request", "ExpiredToken"), RefusedError, 0),
        ("GenericError", _refused("400 Bad Request", "Odd"), OSError, errno.EIO),
        (
            "GenericError",
            _refused("404 Not Found", "NoSuchBucket"),
            FileNotFoundError,
            errno.ENOENT,
        ),
        ("GenericError", _refused("416 Range", "InvalidRange"), OSError, errno.ERANGE),
        ("PermissionDeniedError", _refused("403 F", "AccessDenied"), PermissionError, errno.EACCES),
        ("PermissionDeniedError", _refused("403 F", "InvalidAccessKeyId"), RefusedError, 0),
        ("UnauthenticatedError", _refused("401 U", "NoAuth"), RefusedError, 0),
        ("AlreadyExistsError", _refused("412 P", "PreconditionFailed"), TakenError, 0),
        ("InvalidPathError", "an object with an invalid path", OSError, errno.EINVAL),
    ],
)
def test_each_error_is_one_of_ours(
    kind: str, text: str, expected: type[Exception] | None, number: int
) -> None:
    """None where the same request may succeed later."""
    library = pytest.importorskip("obstore.exceptions")
    found = translated(getattr(library, kind)(text), URI)
    if expected is None:
        assert found is None
        return
    assert type(found) is expected
    if isinstance(found, OSError):
        assert (found.errno, found.filename) == (number, URI)


def test_a_fault_of_the_program_is_not_repeated() -> None:
    """An error that is none of the library's is raised as it is."""
    pytest.importorskip("obstore")
    error = TypeError("no such argument")
    assert translated(error, URI) is error
    name = translated(ValueError('Path "a//b" contained empty path segment'), URI)
    assert isinstance(name, OSError)
    assert name.errno == errno.EINVAL
