"""Lists a folder of a bucket in ranges of names, many in parallel.

A bucket returns a thousand names per request, and each request needs the answer of the previous
one. So the first few pages are listed in order. If there are more names, `key_ranges` cuts them
into ranges that are listed in parallel, and a range that turns out to be long is cut again:

    photos/a ... photos/ad | photos/ae ................................ photos/z
    listed in order        | cut into ranges, listed in parallel
                           |   photos/ae-b   photos/c-f   photos/g-p   photos/q-z
                           |                              long: the rest is cut again
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from functools import partial
from itertools import islice
from typing import NamedTuple, TypeVar

from beam_pipeline.core.errors import BucketError, ListingError
from beam_pipeline.core.listing.filters import ImageRoot, Listed, ObjectFilter
from beam_pipeline.core.listing.globs import fixed_beginning
from beam_pipeline.core.references import ImageRef
from beam_pipeline.storage.files import file_system
from beam_pipeline.storage.key_ranges import EVERYTHING, KeyRange, find_key_ranges

_FIRST_SURROGATE = 0xD800  # not encodable in UTF-8, like those up to U+DFFF

_T = TypeVar("_T")


class FanOut(NamedTuple):
    """The parallelism of a listing.

    Attributes:
      first: names listed in order before the rest is cut into ranges.
      names: names listed in a range before the rest of it is cut again.
      ranges: the approximate number of ranges into which the rest is cut.
      threads: ranges that one worker lists in parallel.
    """

    first: int = 4_000
    names: int = 32_000
    ranges: int = 64
    threads: int = 8


class NameRange(NamedTuple):
    """A range of names in a folder of a bucket.

    Attributes:
      root: the folder.
      limits: the range, relative to the folder.
    """

    root: ImageRoot
    limits: KeyRange = EVERYTHING


def whole_range(root: ImageRoot) -> NameRange:
    """Returns the range of all names that a root lists; with patterns, names with their common prefix."""
    beginning = fixed_beginning(root.patterns)
    if not beginning:
        return NameRange(root)
    return NameRange(root, KeyRange(beginning, _following(beginning)))


def _following(beginning: str) -> str:
    """Returns the first text after all texts with this prefix, or empty."""
    code = ord(beginning[-1]) + 1
    if code > sys.maxunicode:
        return ""
    return beginning[:-1] + ("\ue000" if code == _FIRST_SURROGATE else chr(code))


def lists_ranges(root: ImageRoot) -> bool:
    """True if a root is in a bucket whose names can be listed in ranges."""
    return root.archive is None and file_system(root.uri).lists_ranges


def lists_digests(root: ImageRoot) -> bool:
    """True if the listing of a root has MD5s of its files, if they are asked for."""
    return root.archive is None and file_system(root.uri).lists_digests


def list_bucket(root: ImageRoot, batch_size: int, fan_out: FanOut) -> Iterator[Listed]:
    """Lists a folder of a bucket on this machine only, with ranges in parallel.

    Raises:
      ListingError: the bucket cannot be listed.
    """
    for part in list_range(whole_range(root), batch_size, fan_out.first):
        if isinstance(part, NameRange):
            yield from list_all(cut(part, fan_out), batch_size, fan_out)
        else:
            yield part


def list_all(ranges: Iterable[NameRange], batch_size: int, fan_out: FanOut) -> Iterator[Listed]:
    """Lists ranges completely; those that are long are cut again.

    Raises:
      ListingError: the bucket cannot be listed.
    """
    ranges = list(ranges)
    while ranges:
        rest: list[NameRange] = []
        for part in list_ranges(ranges, batch_size, fan_out):
            if isinstance(part, NameRange):
                rest.append(part)
            else:
                yield part
        ranges = [piece for long in rest for piece in cut(long, fan_out)]


def list_ranges(
    ranges: Iterable[NameRange], batch_size: int, fan_out: FanOut
) -> Iterator[Listed | NameRange]:
    """Lists ranges in parallel; the rest of a long one is yielded as a range.

    Raises:
      ListingError: the bucket cannot be listed.
    """
    return _in_parallel(
        (list_range(part, batch_size, fan_out.names) for part in ranges), fan_out.threads
    )


def list_range(part: NameRange, batch_size: int, most: int) -> Iterator[Listed | NameRange]:
    """Lists a range, page after page.

    Args:
      part: the range.
      batch_size: images per batch.
      most: the most names to list, at least 2; if there are more, the rest is yielded last.

    Raises:
      ListingError: the bucket cannot be listed.
    """
    folder, storage = _folder(part.root), file_system(part.root.uri)
    names = ObjectFilter(part.root)
    limits = part.limits
    images: list[ImageRef] = []
    rest: NameRange | None = None
    try:
        listed = storage.list_range(folder, *limits, digests=part.root.digests)
        for number, (key, size, version, digest) in enumerate(listed, 1):
            if number == most:  # not listed here; the rest begins with it
                rest = part._replace(limits=limits._replace(start=key))
                break
            if names.lists(key):
                images.append(ImageRef(key, names.prefix + key, size, version, digest=digest))
            elif number == 1 and _seen_before(folder, names.hidden_folder(key), limits):
                names.rules.ignored.clear()  # the previous range has counted it
            if len(images) >= batch_size:
                yield Listed(images, [], Counter())
                images = []
    except (BucketError, OSError) as error:
        raise _listing_error(part.root, error) from error
    yield Listed(images, [], names.rules.ignored, names.rules.label_files)
    if rest is not None:
        yield rest


def _seen_before(folder: str, hidden: str, limits: KeyRange) -> bool:
    """True if a range begins inside a hidden folder that also has names before the range."""
    start = limits.start.removeprefix(hidden)
    if not hidden or not start or not limits.start.startswith(hidden):
        return False
    return file_system(folder).first_name(folder + hidden, "", start) is not None


def cut(part: NameRange, fan_out: FanOut) -> Iterator[NameRange]:
    """Cuts a range into several.

    Raises:
      ListingError: the bucket cannot be listed.
    """
    try:
        with ThreadPoolExecutor(fan_out.threads) as pool:
            first = partial(file_system(part.root.uri).first_name, _folder(part.root))
            cuts = find_key_ranges(first, fan_out.ranges, within=part.limits, map_probes=pool.map)
    except (BucketError, OSError) as error:
        raise _listing_error(part.root, error) from error
    for limits in cuts:
        yield part._replace(limits=limits)


def _folder(root: ImageRoot) -> str:
    return root.uri + "/"


def _listing_error(root: ImageRoot, error: Exception) -> ListingError:
    return ListingError(f"{root.uri} cannot be listed: {getattr(error, 'strerror', None) or error}")


def _in_parallel(iterators: Iterable[Iterator[_T]], threads: int) -> Iterator[_T]:
    """Yields the items of all iterators as they come; each runs in one thread at a time."""
    waiting = iter(iterators)
    with ThreadPoolExecutor(threads) as pool:
        running = {pool.submit(next, items, None): items for items in islice(waiting, threads)}
        while running:
            for done in wait(running, return_when=FIRST_COMPLETED).done:
                items = running.pop(done)
                item = done.result()
                following = next(waiting, None) if item is None else items
                if following is not None:
                    running[pool.submit(next, following, None)] = following
                if item is not None:
                    yield item
