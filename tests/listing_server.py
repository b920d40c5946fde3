"""A server that lists a bucket as Google Cloud Storage does, and keeps no objects; and what listing it should give."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from beam_pipeline.core.listing.filters import Listed
from beam_pipeline.core.references import ImageRef
from beam_pipeline.storage.listing import FanOut, NameRange
from tests.servers import Asked

PAGE = 200
SMALL = FanOut(first=2 * PAGE, names=16 * PAGE)


def size_of(name: str) -> int:
    """The size that the server says an object has."""
    return 1000 + len(name.encode())


def generation_of(name: str) -> int:
    """The generation that it says it has."""
    return 1_700_000_000_000_000 + len(name)


class Request(NamedTuple):
    """A request for names. Attributes: as in its URL; found, how many names it was given."""

    prefix: str
    start: str
    end: str
    token: str
    most: int
    found: int


class ListingServer:
    """Serves `GET /storage/v1/b/pets/o` by `answer`; of any other bucket there is none.

    Args:
      names: of the objects in the bucket.

    Attributes:
      requests: what was asked for, in order.
      most_requests: how many are answered; further ones are forbidden.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.keys = sorted({name.encode() for name in names})
        self.requests: list[Request] = []
        self.most_requests = 1_000_000

    def answer(self, asked: Asked) -> tuple[int, dict[str, str], bytes]:
        url = urlsplit(asked.path)
        given = {name: values[0] for name, values in parse_qs(url.query).items()}
        status, content = 200, {}
        if unquote(url.path) != "/storage/v1/b/pets/o":
            status, content = 404, {"error": {"code": 404, "message": "The bucket does not exist."}}
        elif len(self.requests) >= self.most_requests:
            status, content = 403, {"error": {"code": 403, "message": "No more."}}
        else:
            names = ("prefix", "startOffset", "endOffset", "pageToken")
            most = min(int(given.get("maxResults", PAGE)), PAGE)
            content = self._list(*(given.get(name, "") for name in names), most)
        return status, {"Content-Type": "application/json"}, json.dumps(content).encode()

    def _list(self, prefix: str, start: str, end: str, token: str, most: int) -> dict[str, Any]:
        first = prefix.encode()
        low = bisect_left(self.keys, max(first, start.encode()))
        if token:
            low = bisect_right(self.keys, token.encode())
        high = bisect_left(self.keys, end.encode()) if end else len(self.keys)
        high = min(high, bisect_left(self.keys, first + b"\xff"))
        found = [key.decode() for key in self.keys[low : min(high, low + most)]]
        self.requests.append(Request(prefix, start, end, token, most, len(found)))
        answer: dict[str, Any] = {"kind": "storage#objects"}
        if found:
            answer["items"] = [
                {"name": name, "size": str(size_of(name)), "generation": str(generation_of(name))}
                for name in found
            ]
        if low + most < high:
            answer["nextPageToken"] = found[-1]
        return answer

    def chains(self) -> list[int]:
        """How many pages each listing took, one after another; listings of one name left out."""
        return list(Counter(request[:3] for request in self.requests if request.most > 1).values())

    @property
    def probes(self) -> int:
        """Requests for one name."""
        return sum(request.most == 1 for request in self.requests)


Serve = Callable[[Iterable[str]], ListingServer]


def image_at(name: str, folder: str = "") -> ImageRef:
    """What is listed of an object."""
    key = name.removeprefix(f"{folder}/") if folder else name
    return ImageRef(key, f"gs://pets/{name}", size_of(name), generation_of(name))


def together(parts: Iterable[Listed | NameRange]) -> Listed:
    """All batches as one, images and dead letters sorted."""
    whole = Listed([], [], Counter())
    for part in parts:
        assert isinstance(part, Listed)
        whole.images += part.images
        whole.dead_letters += part.dead_letters
        whole.ignored.update(part.ignored)
        whole.label_files.add(part.label_files)
    images, letters = sorted(whole.images), sorted(whole.dead_letters)
    return replace(whole, images=images, dead_letters=letters)


def photos(count: int) -> list[str]:
    return [f"photos/image_{number:07d}.jpg" for number in range(count)]
