"""Archives: listed as folders are, by their members' headers, and members as files (tar://, zip://).

A member is read from a range of its archive.
"""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import BinaryIO

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
from beam_pipeline.core.errors import ListingError
from beam_pipeline.core.listing.filters import ImageRoot, Listed, ObjectFilter
from beam_pipeline.core.references import ImageRef
from beam_pipeline.core.text import is_utf8, printable
from beam_pipeline.storage import files
from beam_pipeline.storage.base import FileSystem, FoundFile

_ENTRIES: Mapping[str, Callable[[BinaryIO], Iterator[Entry]]] = {TAR: tar_entries, ZIP: zip_entries}


def list_archive(root: ImageRoot, batch_size: int) -> Iterator[Listed]:
    """Lists the images of an archive in batches, in its order.

    Raises:
      ListingError: it cannot be read, is damaged, or contains images outside of its top folder.
    """
    archive, rules = root.archive, MemberFilter(root)
    assert archive
    images: list[ImageRef] = []
    dead_letters: list[DeadLetter] = []
    for entry, version in archive_entries(root):
        if not rules.lists(entry):
            continue
        image = rules.reference(entry, version)
        if isinstance(image, DeadLetter):
            dead_letters.append(image)
            continue
        if not entry.name.startswith(archive.top):
            raise ListingError(
                f"{root.uri}: {printable(entry.name)} is outside of {archive.top}, in which everything "
                "at the beginning lay, so the classes are unclear; give them by --labels, or by "
                "--label_from with a regular expression for paths in the archive"
            )
        images.append(image)
        if len(images) >= batch_size:
            yield Listed(images, [], Counter())
            images = []
    yield Listed(images, dead_letters, rules.ignored, rules.label_files)


class MemberFilter:
    """Decides which members are images, and refers to them.

    Args:
      root: an archive.
    """

    def __init__(self, root: ImageRoot) -> None:
        assert root.archive
        self._archive = root.archive
        self._uri = root.uri
        self._names = ObjectFilter(root)
        self.ignored = self._names.rules.ignored
        self.label_files = self._names.rules.label_files

    def lists(self, entry: Entry) -> bool:
        """Decides whether a member is listed as an image; one that is not is counted."""
        if entry.problem:  # its folders may be `..`, or its name may be empty
            return not entry.name or self._names.lists(
                posixpath.basename(entry.name.replace("\\", "/"))
            )
        return self._names.lists(entry.name)

    def reference(self, entry: Entry, version: int) -> ImageRef | DeadLetter:
        """Returns the reference to an image, or why it is missing."""
        key = self._archive.key(entry.name)
        reason, problem = Reason.UNUSABLE_MEMBER, entry.problem
        if not is_utf8(entry.name):
            reason = Reason.NAME_NOT_UTF8
            problem = "the name is not valid UTF-8; pack it by another"
        if problem or entry.member is None:
            return image_dead_letter(Stage.LIST, printable(key), self._uri, reason, problem)
        return ImageRef(
            key,
            member_uri(self._uri, entry.member),
            entry.size,
            version,
            self._archive.aliases(entry.name),
        )


def archive_entries(root: ImageRoot) -> Iterator[tuple[Entry, int]]:
    """Yields (file in an archive, the archive's version).

    Raises:
      ListingError: it cannot be read, or is damaged.
    """
    with OpenedArchive(root) as archive:
        for entry in archive.entries():
            yield entry, archive.version


class OpenedArchive:
    """An archive open for reading while a `with` block runs, whose errors become ListingErrors.

    Attributes:
      version: of its file.
    """

    def __init__(self, root: ImageRoot) -> None:
        assert root.archive
        self._uri = root.uri
        self._entries = _ENTRIES[root.archive.kind]
        self.version = 0

    def __enter__(self) -> OpenedArchive:
        try:
            self.version = files.version_of(self._uri)
            self._file = files.open_input(self._uri)
        except OSError as error:
            raise self._unreadable(error) from error
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._file.close()
        if isinstance(error, ArchiveError):
            raise ListingError(f"{self._uri}: {error}") from error
        if isinstance(error, OSError):
            raise self._unreadable(error) from error

    def entries(self) -> Iterator[Entry]:
        """Yields its files. Raises ArchiveError, OSError."""
        return self._entries(self._file)

    def content(self, member: Member, size: int) -> bytes:
        """Reads a file of it. Raises OSError."""
        self._file.seek(member.at)
        return content(member, self._file.read(member.length), size)

    def _unreadable(self, error: OSError) -> ListingError:
        return ListingError(f"{self._uri} cannot be read: {error.strerror or error}")


class ArchiveMembers(FileSystem):
    """Members of archives in any storage. They are read, and nothing else."""

    def read_listed(self, uri: str, size: int) -> bytes:
        archive, member = parse_member_uri(uri)
        return content(member, files.read_part(archive, member.length, member.at), size)

    def read(self, uri: str, size: int = 0, offset: int = -1) -> bytes:
        """Reads a member whose size is known."""
        return self.read_listed(uri, size)[max(offset, 0) :]

    def size_of(self, uri: str) -> int:
        return -1

    def list_files(self, folder: str) -> Iterator[FoundFile]:
        return iter(())
