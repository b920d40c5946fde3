"""From a path a person typed to image references: roots, patterns, keys, folders' meaning."""

from __future__ import annotations

import functools
import os
import re
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from transforms.core.dead_letters import DeadLetter, Reason, Stage, image_dead_letter
from transforms.core.errors import ListingError
from transforms.core.references import ImageRef

IMAGE_EXTENSIONS = frozenset(
    [
        ".jpg",
        ".jpeg",
        ".jpe",
        ".jfif",
        ".jif",
        ".png",
        ".gif",
        ".bmp",
        ".dib",
        ".webp",
        ".tif",
        ".tiff",
        ".ppm",
        ".pgm",
        ".heic",
        ".avif",
        ".jp2",
    ]
)
"""Extensions listed in a folder, in lower case; so is a file without any. Whether the bytes can
be used is seen when they are read."""

SPLIT_NAMES = {
    "train": "train",
    "training": "train",
    "validation": "validation",
    "valid": "validation",
    "val": "validation",
    "dev": "validation",
    "test": "test",
    "testing": "test",
    "eval": "test",
}
"""Folder names and values of a `split` column, in lower case -> the split's name."""


_has_scheme = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://").match


@dataclass(frozen=True)
class ImageRoot:
    """A folder, and what of it is listed.

    Attributes:
      uri: the folder, without a slash at its end; keys are relative to it.
      patterns: globs relative to it; empty for all images below it.
      excluded: URIs never listed: the label files.
    """

    uri: str
    patterns: tuple[str, ...] = ()
    excluded: frozenset[str] = frozenset()


@dataclass
class Listed:
    """What one root held: references come in batches, the rest with the last."""

    images: list[ImageRef]
    dead_letters: list[DeadLetter]
    ignored: Counter[str]


def is_remote(uri: str) -> bool:
    """Whether a URI has a scheme, such as gs://."""
    return _has_scheme(uri) is not None


def has_glob(path: str) -> bool:
    """Whether a path contains a wildcard."""
    return re.search(r"[*?\[]", path) is not None


def split_pattern(path: str) -> tuple[str, str]:
    """A glob as (the folder before its first wildcard, the pattern relative to it)."""
    parts = path.split("/")
    fixed = next((i for i, part in enumerate(parts) if has_glob(part)), len(parts) - 1)
    return "/".join(parts[:fixed]) or ("/" if path.startswith("/") else "."), "/".join(
        parts[fixed:]
    )


def glob_regex(pattern: str) -> re.Pattern[str]:
    """A glob as a regular expression.

    `*`, `?` and `[...]` stay in a folder and do not stand for a dot at the beginning of a name;
    `**` goes through any number of folders.
    """
    out, i = [], 0
    while i < len(pattern):
        at_start = i == 0 or pattern[i - 1] == "/"
        piece, length = _glob_piece(pattern, i, at_start)
        if at_start and pattern[i] in "*?[" and not pattern.startswith("**/", i):
            piece = r"(?!\.)" + piece
        out.append(piece)
        i += length
    return re.compile("".join(out), re.DOTALL)


def _glob_piece(pattern: str, i: int, at_start: bool) -> tuple[str, int]:
    """The regular expression of what stands at a place of a glob, and its length there."""
    if at_start and pattern.startswith("**/", i):
        return r"(?:(?!\.)[^/]+/)*", 3
    if pattern.startswith("**", i):
        return r"(?:[^/]|/(?!\.))*", 2
    if pattern[i] == "*":
        return "[^/]*", 1
    if pattern[i] == "?":
        return "[^/]", 1
    # "]" closes a set only behind its first character.
    first = i + (2 if pattern[i + 1 : i + 2] in ("!", "^") else 1)
    end = pattern.find("]", first + 1) if pattern[i] == "[" else -1
    if end < 0:
        return re.escape(pattern[i]), 1
    members = _set_members(pattern[first:end])
    if first == i + 2:
        return f"[^/{members}]", end + 1 - i
    return f"(?!/)[{members}]" if members else "(?!)", end + 1 - i


def _set_members(text: str) -> str:
    """The inside of a set, such as a-z, escaped; a range that runs backwards holds nothing."""
    out, i = [], 0
    while i < len(text):
        if text[i + 1 : i + 2] == "-" and i + 2 < len(text):
            if text[i] <= text[i + 2]:
                out.append(f"{re.escape(text[i])}-{re.escape(text[i + 2])}")
            i += 3
        else:
            out.append(re.escape(text[i]))
            i += 1
    return "".join(out)


class ListingFilter:
    """Which files of a root are listed as images, and what of the rest is said.

    A folder gives what has an image's extension or none; a pattern or a file name gives what it
    says. Hidden files and folders, macOS's `__MACOSX` and label files are passed over.
    """

    def __init__(self, root: ImageRoot) -> None:
        self._patterns = [glob_regex(pattern) for pattern in root.patterns]
        self._names_hidden = any(re.search(r"(^|/)\.", pattern) for pattern in root.patterns)
        self._excluded = root.excluded
        self.ignored: Counter[str] = Counter()

    def enters(self, folder_name: str) -> bool:
        """Whether a folder is looked into."""
        if folder_name == "__MACOSX" or (folder_name.startswith(".") and not self._names_hidden):
            self.ignored["hidden folders"] += 1
            return False
        return True

    def lists(self, key: str, uri: str) -> bool:
        """Whether a file is listed; one that is not is counted by its extension."""
        if uri in self._excluded:
            return False
        if self._patterns:
            return any(pattern.fullmatch(key) for pattern in self._patterns)
        name = key[key.rfind("/") + 1 :]
        if name.startswith("."):
            self.ignored["hidden files"] += 1
            return False
        dot = name.rfind(".")
        extension = name[dot:].lower() if dot > 0 else ""
        if extension and extension not in IMAGE_EXTENSIONS:
            self.ignored[_printable(extension)] += 1
            return False
        return True


def list_local_root(root: ImageRoot, batch_size: int) -> Iterator[Listed]:
    """Lists a local root in batches, sizes from `stat`. Links to folders are followed, but not in circles.

    Raises:
      ListingError: a folder below the root cannot be read.
    """
    rules = ListingFilter(root)
    images: list[ImageRef] = []
    dead_letters: list[DeadLetter] = []
    prefix = len(root.uri.rstrip("/")) + 1
    folders = [(root.uri, frozenset({_identity(root.uri)}))]  # and those it lies in
    while folders:
        folder, ancestors = folders.pop()
        for entry in _scan(folder):
            key = entry.path[prefix:]
            if _is_folder(entry):
                identity = _identity(entry.path)
                if rules.enters(entry.name) and identity not in ancestors:
                    folders.append((entry.path, ancestors | {identity}))
            elif rules.lists(key, entry.path):
                found = _reference(key, entry)
                if isinstance(found, ImageRef):
                    images.append(found)
                else:
                    dead_letters.append(found)
            if len(images) >= batch_size:
                yield Listed(images, [], Counter())
                images = []
    yield Listed(images, dead_letters, rules.ignored)


def _scan(folder: str) -> Sequence[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError as error:
        raise _listing_error(folder, error) from error


def _identity(folder: str) -> tuple[int, int]:
    try:
        status = os.stat(folder)
    except OSError as error:
        raise _listing_error(folder, error) from error
    return status.st_dev, status.st_ino


def _listing_error(folder: str, error: OSError) -> ListingError:
    return ListingError(
        f"{_printable(folder)} cannot be listed ({error.strerror}), so its images would be missed; "
        "make it readable or move it out of the images' folder"
    )


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def _printable(text: str) -> str:
    """Text with escapes for the bytes that are not UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode()


def _reference(key: str, entry: os.DirEntry[str]) -> ImageRef | DeadLetter:
    if not _is_utf8(entry.path):
        return image_dead_letter(
            Stage.LIST,
            _printable(key),
            _printable(entry.path),
            Reason.NAME_NOT_UTF8,
            "the name is not valid UTF-8; rename the file",
        )
    try:
        status = entry.stat()
    except OSError:  # a dangling link: reading it gives the reason
        return ImageRef(key, entry.path, 0)
    if not stat.S_ISREG(status.st_mode):
        return image_dead_letter(
            Stage.LIST, key, entry.path, Reason.NOT_A_FILE, "a socket, pipe or device, not a file"
        )
    return ImageRef(key, entry.path, status.st_size, status.st_mtime_ns)


def _is_utf8(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


@dataclass(frozen=True)
class FolderMeaning:
    """Attributes: split, empty where no folder names one; class_name, empty for an image that
    lies in no class folder.
    """

    split: str
    class_name: str


def folder_meaning(key: str) -> FolderMeaning:
    """Split and class of `[<split>/]<class>/.../file`: a first folder with a split's name counts
    as one only if a class folder follows it, so a class may be called "train".
    """
    return _meaning_of(key.rpartition("/")[0])


@functools.lru_cache(maxsize=1024)
def _meaning_of(folder: str) -> FolderMeaning:
    first, _, rest = folder.partition("/")
    split = SPLIT_NAMES.get(first.lower(), "")
    if split and rest:
        return FolderMeaning(split, rest)
    return FolderMeaning("", folder)


def first_folder_split(key: str) -> str:
    """The split that the first folder names, for images whose labels come from a table."""
    first, slash, _ = key.partition("/")
    return SPLIT_NAMES.get(first.lower(), "") if slash else ""
