"""Lists the images of a root: of a folder on this machine, a folder of a bucket, or an archive.

No image is opened. Archives are listed by their members' headers; a member is read from a range of its
archive (tar://, zip://).

A bucket returns a thousand names per request, and each request needs the answer of the previous
one. So the first few pages are listed in order. If there are more names, `key_ranges` cuts them
into ranges that are listed in parallel, and a range that turns out to be long is cut again:

    photos/a ... photos/ad | photos/ae ................................ photos/z
    listed in order        | cut into ranges, listed in parallel
                           |   photos/ae-b   photos/c-f   photos/g-p   photos/q-z
                           |                              long: the rest is cut again
"""

from __future__ import annotations

import errno
import os
import posixpath
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import BinaryIO, NamedTuple

from beam_pipeline.core import errors, references, text, uris
from beam_pipeline.core.archives import (
    TAR,
    ZIP,
    ArchiveError,
    Entry,
    Member,
    content,
    member_uri,
    parse_member_uri,
    tar_entries,
    zip_entries,
)
from beam_pipeline.core.dead_letters import DeadLetter, Reason, Stage, image_dead_letter
from beam_pipeline.core.listing import filters, globs
from beam_pipeline.core.packing import BATCH_SIZE, Columns, Same, items_of
from beam_pipeline.storage import base, files
from beam_pipeline.storage.files import file_system
from beam_pipeline.storage.key_ranges import EVERYTHING, KeyRange, find_key_ranges

_MOST_LINKS = 2  # within each other: more may multiply the folders without end
_FIRST_SURROGATE = 0xD800  # not encodable in UTF-8, like those up to U+DFFF
_ENTRIES: Mapping[str, Callable[[BinaryIO], Iterator[Entry]]] = {TAR: tar_entries, ZIP: zip_entries}

_Identity = tuple[int, int]  # of the device and the folder on it


def list_root(root: filters.ImageRoot, batch_size: int = BATCH_SIZE) -> Iterator[filters.Listed]:
    """Lists one root in batches.

    Raises:
      ListingError: something in it cannot be listed.
    """
    if root.archive:
        return list_archive(root, batch_size)
    if not uris.is_remote(root.uri):
        return list_local_root(root, batch_size)
    return (list_bucket if lists_ranges(root) else _list_remote_root)(root, batch_size)


# --- a folder on this machine ---------------------------------------------------------------------


def list_local_root(root: filters.ImageRoot, batch_size: int) -> Iterator[filters.Listed]:
    """Lists a local root in batches, with sizes from `stat`.

    Links to folders are followed, but not in circles. A folder may be reached by several links; its
    images then have several keys. If folders all link to each other, the number of paths grows with
    the factorial of their number, so links within links within links are an error.

    Raises:
      ListingError: a folder below the root or the size of a file cannot be read, or a link is inside two others.
    """
    listing = LocalListing(root, [Subfolder(root.uri)])
    dead_letters: list[DeadLetter] = []

    def images() -> Iterator[references.ImageRef]:
        for part in listing.files(batch_size):
            columns, broken = listing.images(part)
            dead_letters.extend(broken)
            yield from items_of(references.ImageRef, columns)

    yield from filters.in_batches(images(), batch_size, listing.rules, dead_letters)


class Subfolder(NamedTuple):
    """A folder to list.

    Attributes:
      path: its path.
      above: the folders above it; once it is opened, itself as well.
      links: how many of these, and itself, are links.
    """

    path: str
    above: frozenset[_Identity] = frozenset()
    links: int = 0


class Files(NamedTuple):
    """Files of one folder, known only by name.

    Attributes:
      folder: the path of the folder.
      names: their names.
    """

    folder: str
    names: Sequence[str]


class LocalListing:
    """Lists some folders of a local root, and what is below them.

    Attributes:
      waiting: the folders that are still to be listed.
      rules: decide which files are images, and count the others.
    """

    def __init__(self, root: filters.ImageRoot, folders: Sequence[Subfolder] = ()) -> None:
        self.waiting = list(folders)
        self.rules = filters.ListingFilter(root)
        self._prefix = os.path.join(root.uri.rstrip("/"), "") or "/"

    def files(self, at_once: int) -> Iterator[Files]:
        """Yields the files of the folders that wait, those that are not images included.

        Args:
          at_once: names yielded together, at most.

        Raises:
          ListingError: a folder cannot be read, or a link is inside two others.
        """
        while self.waiting:
            folder = self._enter(self.waiting.pop())
            if folder is None:
                continue
            yield from self._scan(folder, at_once)

    def _enter(self, folder: Subfolder) -> Subfolder | None:
        """A folder that is open; None if it is one of the folders above itself."""
        try:
            status = os.stat(folder.path)
        except OSError as error:
            raise _listing_error(folder.path, error) from error
        identity = status.st_dev, status.st_ino
        if identity in folder.above:
            return None
        if folder.links > _MOST_LINKS:
            raise errors.ListingError(
                f"{text.printable(folder.path)}: a link to a folder inside {_MOST_LINKS} other links, deeper than links are "
                f"followed; name {text.printable(os.path.realpath(folder.path))} in --images, or remove the link"
            )
        return folder._replace(above=folder.above | {identity})

    def _scan(self, folder: Subfolder, at_once: int) -> Iterator[Files]:
        names: list[str] = []
        try:
            with os.scandir(folder.path) as entries:
                for entry in entries:
                    if _is_folder(entry):
                        key = entry.path[len(self._prefix) :]
                        if self.rules.can_hold(key) and self.rules.enters(entry.name):
                            links = folder.links + entry.is_symlink()
                            self.waiting.append(Subfolder(entry.path, folder.above, links))
                        continue
                    names.append(entry.name)
                    if len(names) == at_once:
                        yield Files(folder.path, names)
                        names = []
        except OSError as error:  # of the folder, or of a link in it
            raise _listing_error(error.filename or folder.path, error) from error
        if names:
            yield Files(folder.path, names)

    def images(self, part: Files) -> tuple[Columns, list[DeadLetter]]:
        """The columns of `ImageRef` of those files that are images, and those that cannot be one.

        Raises:
          ListingError: a name cannot be decoded, or the size of a file cannot be read.
        """
        before = os.path.join(part.folder, "")
        start = len(self._prefix)
        files = [(uri[start:], uri) for uri in map(before.__add__, part.names)]
        if not self.rules.lists_all([key for key, _ in files], self._prefix):
            files = [file for file in files if self.rules.lists(*file)]
        dead_letters: list[DeadLetter] = []
        if not text.is_utf8("".join(uri for _, uri in files)) or not text.is_utf8_everywhere():
            files = [*_decoded(files, dead_letters)]
        return _with_status(files, dead_letters), dead_letters


def _listing_error(folder: str, error: OSError) -> errors.ListingError:
    return errors.ListingError(
        f"{text.printable(folder)} cannot be listed ({error.strerror}), so its images would be missed; "
        "make it readable or move it out of the images' folder"
    )


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        return False  # a link to itself


_Paths = tuple[str, str]  # the key and the path of a file


def _decoded(files: Iterable[_Paths], dead_letters: list[DeadLetter]) -> Iterator[_Paths]:
    """Yields the files whose paths are text; adds the others to dead letters."""
    for key, uri in files:
        if not key.isascii() and not text.is_utf8_everywhere():
            raise errors.ListingError(
                f"{text.printable(uri)}: a name that is not ASCII, where Python decodes names as "
                f"{sys.getfilesystemencoding()}, not as UTF-8; set PYTHONUTF8=1 before Python starts"
            )
        if text.is_utf8(uri):
            yield key, uri
            continue
        name, path = text.printable(key), text.printable(uri)
        message = "the name is not valid UTF-8; rename the file"
        dead_letters.append(
            image_dead_letter(Stage.LIST, name, path, Reason.NAME_NOT_UTF8, message)
        )


def _with_status(files: Iterable[_Paths], dead_letters: list[DeadLetter]) -> Columns:
    """The columns of images with their sizes and versions; adds what is not a file to dead letters.

    Raises:
      ListingError: the size of a file cannot be read, so that it would look as if it had changed.
    """
    rows: list[tuple[str, str, int, int]] = []
    for key, uri in files:
        try:
            status = os.stat(uri)
        except OSError as error:
            if error.errno != errno.ENOENT and not os.path.islink(uri):
                raise errors.ListingError(
                    f"the size of {text.printable(uri)} cannot be read ({error.strerror}); make the file and "
                    "its folder accessible or move it out of the images' folder"
                ) from error
            rows.append((key, uri, 0, 0))  # gone, or a dangling link: reading it reports the reason
            continue
        if stat.S_ISREG(status.st_mode):
            rows.append((key, uri, status.st_size, status.st_mtime_ns))
        else:
            message = "a socket, pipe or device, not a file"
            dead_letters.append(image_dead_letter(Stage.LIST, key, uri, Reason.NOT_A_FILE, message))
    columns = map(list, zip(*rows, strict=True)) if rows else ([], [], [], [])
    return [*columns, Same((), len(rows)), Same(b"", len(rows))]


# --- a folder of a bucket -------------------------------------------------------------------------


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


FAN_OUT = FanOut()


class NameRange(NamedTuple):
    """A range of names in a folder of a bucket.

    Attributes:
      root: the folder.
      limits: the range, relative to the folder.
    """

    root: filters.ImageRoot
    limits: KeyRange = EVERYTHING


def whole_range(root: filters.ImageRoot) -> NameRange:
    """Returns the range of all names that a root lists; with patterns, names with their common prefix."""
    beginning = globs.fixed_beginning(root.patterns)
    if not beginning:
        return NameRange(root)
    code = ord(beginning[-1]) + 1
    after = "\ue000" if code == _FIRST_SURROGATE else chr(code) if code <= sys.maxunicode else ""
    return NameRange(root, KeyRange(beginning, after and beginning[:-1] + after))


def lists_ranges(root: filters.ImageRoot) -> bool:
    """True if a root is in a bucket whose names can be listed in ranges."""
    return root.archive is None and file_system(root.uri).lists_ranges


def lists_digests(root: filters.ImageRoot) -> bool:
    """True if the listing of a root has MD5s of its files, if they are asked for."""
    return root.archive is None and file_system(root.uri).lists_digests


def list_bucket(
    root: filters.ImageRoot, batch_size: int, fan_out: FanOut = FAN_OUT
) -> Iterator[filters.Listed]:
    """Lists a folder of a bucket on this machine only, with ranges in parallel.

    Raises:
      ListingError: the bucket cannot be listed.
    """
    for part in list_first(root, batch_size, fan_out):
        if isinstance(part, NameRange):
            yield from list_all(cut(part, fan_out), batch_size, fan_out)
        else:
            yield part


def list_first(
    root: filters.ImageRoot, batch_size: int, fan_out: FanOut
) -> Iterator[filters.Listed | NameRange]:
    """Lists the first names of a bucket; the rest is yielded as a range.

    Raises:
      ListingError: the bucket cannot be listed.
    """
    return list_range(whole_range(root), batch_size, fan_out.first)


def list_all(
    ranges: Iterable[NameRange], batch_size: int, fan_out: FanOut
) -> Iterator[filters.Listed]:
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
) -> Iterator[filters.Listed | NameRange]:
    """Lists ranges in parallel; the rest of a long one is yielded as a range.

    Raises:
      ListingError: the bucket cannot be listed.
    """
    waiting = (list_range(part, batch_size, fan_out.names) for part in ranges)
    with ThreadPoolExecutor(fan_out.threads) as pool:  # each range is in one thread at a time
        running = {pool.submit(next, part, None): part for part in islice(waiting, fan_out.threads)}
        while running:
            for done in wait(running, return_when=FIRST_COMPLETED).done:
                part, item = running.pop(done), done.result()
                following = next(waiting, None) if item is None else part
                if following is not None:
                    running[pool.submit(next, following, None)] = following
                if item is not None:
                    yield item


def list_range(part: NameRange, batch_size: int, most: int) -> Iterator[filters.Listed | NameRange]:
    """Lists a range, page after page.

    Args:
      part: the range.
      batch_size: images per batch.
      most: the most names to list, at least 2; if there are more, the rest is yielded last.

    Raises:
      ListingError: the bucket cannot be listed.
    """
    root, limits, rest = part.root, part.limits, []
    folder, storage, names = f"{root.uri}/", file_system(root.uri), filters.ObjectFilter(root)

    def images() -> Iterator[references.ImageRef]:
        listed = storage.list_range(folder, *limits, digests=root.digests)
        for number, file in enumerate(listed, 1):
            key = file.name
            if number == most:  # not listed here; the rest begins with it
                rest.append(part._replace(limits=limits._replace(start=key)))
                return
            if names.lists(key):
                uri = names.prefix + key
                yield references.ImageRef(key, uri, file.size, file.version, digest=file.digest)
            elif number == 1 and _seen_before(folder, names.hidden_folder(key), limits):
                names.rules.ignored.clear()  # the previous range has counted it

    with _naming(root):
        yield from filters.in_batches(images(), batch_size, names.rules)
    yield from rest


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
    first = partial(file_system(part.root.uri).first_name, f"{part.root.uri}/")
    with _naming(part.root), ThreadPoolExecutor(fan_out.threads) as pool:
        cuts = find_key_ranges(first, fan_out.ranges, within=part.limits, map_probes=pool.map)
    for limits in cuts:
        yield part._replace(limits=limits)


@contextmanager
def _naming(root: filters.ImageRoot) -> Iterator[None]:
    """Turns errors of a bucket into ListingErrors that name the root."""
    try:
        yield
    except (errors.BucketError, OSError) as error:
        raise errors.ListingError(
            f"{root.uri} cannot be listed: {errors.reason_of(error)}"
        ) from error


def _list_remote_root(root: filters.ImageRoot, batch_size: int) -> Iterator[filters.Listed]:
    """Lists the files below a folder in one go."""
    names = filters.ObjectFilter(root)

    def images() -> Iterator[references.ImageRef]:
        try:
            for key, size, version, *_ in files.list_files(root.uri):
                if names.lists(key):
                    yield references.ImageRef(key, names.prefix + key, size, version)
        except Exception as error:  # each Beam filesystem raises its own client's errors
            raise errors.ListingError(f"{root.uri} cannot be listed: {error}") from error

    return filters.in_batches(images(), batch_size, names.rules)


# --- an archive -----------------------------------------------------------------------------------


def list_archive(root: filters.ImageRoot, batch_size: int) -> Iterator[filters.Listed]:
    """Lists the images of an archive in batches, in its order.

    Raises:
      ListingError: it cannot be read, is damaged, or contains images outside of its top folder.
    """
    archive, rules = root.archive, MemberFilter(root)
    assert archive
    dead_letters: list[DeadLetter] = []

    def images() -> Iterator[references.ImageRef]:
        for entry, version in archive_entries(root):
            if not rules.lists(entry):
                continue
            image = rules.reference(entry, version)
            if isinstance(image, DeadLetter):
                dead_letters.append(image)
            elif not entry.name.startswith(archive.top):
                raise errors.ListingError(
                    f"{root.uri}: {text.printable(entry.name)} is outside of {archive.top}, in which everything "
                    "at the beginning lay, so the classes are unclear; give them by --labels, or by "
                    "--label_from with a regular expression for paths in the archive"
                )
            else:
                yield image

    yield from filters.in_batches(images(), batch_size, rules.rules, dead_letters)


class MemberFilter:
    """Decides which members are images, and refers to them.

    Args:
      root: an archive.
    """

    def __init__(self, root: filters.ImageRoot) -> None:
        assert root.archive
        self._archive = root.archive
        self._uri = root.uri
        self._names = filters.ObjectFilter(root)
        self.rules = self._names.rules
        self.ignored = self.rules.ignored

    def lists(self, entry: Entry) -> bool:
        """Decides whether a member is listed as an image; one that is not is counted."""
        if entry.problem:  # its folders may be `..`, or its name may be empty
            return not entry.name or self._names.lists(
                posixpath.basename(entry.name.replace("\\", "/"))
            )
        return self._names.lists(entry.name)

    def reference(self, entry: Entry, version: int) -> references.ImageRef | DeadLetter:
        """Returns the reference to an image, or why it is missing."""
        key = self._archive.key(entry.name)
        reason, problem = Reason.UNUSABLE_MEMBER, entry.problem
        if not text.is_utf8(entry.name):
            reason = Reason.NAME_NOT_UTF8
            problem = "the name is not valid UTF-8; pack it by another"
        if problem or entry.member is None:
            return image_dead_letter(Stage.LIST, text.printable(key), self._uri, reason, problem)
        return references.ImageRef(
            key,
            member_uri(self._uri, entry.member),
            entry.size,
            version,
            self._archive.aliases(entry.name),
        )


def archive_entries(root: filters.ImageRoot) -> Iterator[tuple[Entry, int]]:
    """Yields (file in an archive, the archive's version).

    Raises:
      ListingError: it cannot be read, or is damaged.
    """
    with opened_archive(root) as archive:
        for entry in archive.entries():
            yield entry, archive.version


class OpenedArchive(NamedTuple):
    """An archive open for reading.

    Attributes:
      file: its file.
      kind: "tar" or "zip".
      version: of its file.
    """

    file: BinaryIO
    kind: str
    version: int

    def entries(self) -> Iterator[Entry]:
        """Yields its files. Raises ArchiveError, OSError."""
        return _ENTRIES[self.kind](self.file)

    def content(self, member: Member, size: int) -> bytes:
        """Reads a file of it. Raises OSError."""
        self.file.seek(member.at)
        return content(member, self.file.read(member.length), size)


@contextmanager
def opened_archive(root: filters.ImageRoot) -> Iterator[OpenedArchive]:
    """Opens an archive while the block runs, whose errors become ListingErrors."""
    assert root.archive
    try:
        with files.naming(root.uri, errors.ListingError):
            version = files.version_of(root.uri)
            with files.open_input(root.uri) as file:
                yield OpenedArchive(file, root.archive.kind, version)
    except ArchiveError as error:
        raise errors.ListingError(f"{root.uri}: {error}") from error


class ArchiveMembers(base.FileSystem):
    """Members of archives in any storage. They are read, and nothing else."""

    def read_listed(self, uri: str, size: int) -> bytes:
        archive, member = parse_member_uri(uri)
        return content(member, files.read_part(archive, member.length, member.at), size)

    def read(self, uri: str, size: int = 0, offset: int = -1) -> bytes:
        """Reads a member whose size is known."""
        return self.read_listed(uri, size)[max(offset, 0) :]

    def find(self, uri: str) -> base.FoundFile:
        raise FileNotFoundError(uri)

    def list_files(self, folder: str) -> Iterator[base.FoundFile]:
        return iter(())
