"""Files by URI: each function calls the method of its name, which `FileSystem` documents."""

from __future__ import annotations

import contextlib
import errno
import functools
import importlib
import os
import posixpath
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from typing import Concatenate, ParamSpec, TypeVar

from google_crc32c import extend

from beam_pipeline.core import errors, text
from beam_pipeline.core.dataset.names import temporary_name
from beam_pipeline.core.records.record_format import Sink
from beam_pipeline.core.uris import is_remote, scheme_of
from beam_pipeline.storage import base, local

_NOT_NORMAL = re.compile(r"//|/\.\.?(/|\Z)|/\Z")
_LOCAL = local.LocalFiles()
_AZURE = ("obstore_driver", "AzureFiles", "azure")
_ARCHIVES = ("listing", "ArchiveMembers", "")
_CLASSES = {
    "gs": ("google", "GoogleStorage", "gcp"),
    "s3": ("s3", "S3Files", "s3"),
    **dict.fromkeys(("abfs", "abfss", "az"), _AZURE),
    **dict.fromkeys(("tar", "zip"), _ARCHIVES),
}
"""Scheme -> module of this package, class, and the extra that installs what it imports.

Other schemes are left to Beam's file systems."""

_P = ParamSpec("_P")
_T = TypeVar("_T")


def file_system(uri: str) -> base.FileSystem:
    """Returns the file system of a URI or of a local path."""
    if uri.startswith("/"):  # called for every image of a local job
        return _LOCAL
    scheme = scheme_of(uri)
    return _remote(scheme) if scheme else _LOCAL


@functools.cache
def _remote(scheme: str) -> base.FileSystem:
    """Makes the file system of a scheme; its module is imported when a URI first needs it."""
    module, name, extra = _CLASSES.get(scheme, ("beam_filesystems", "BeamFileSystem", ""))
    try:
        imported = importlib.import_module(f"{__package__}.{module}")
    except ImportError as error:
        raise errors.UsageError(
            f"{scheme}:// needs a library that is not installed ({error}): "
            f"pip install '.[{extra}]' in the checkout of beam-tfrecord"
        ) from error
    system: base.FileSystem = getattr(imported, name)()
    return system


def _by_uri(
    method: Callable[Concatenate[base.FileSystem, str, _P], _T],
) -> Callable[Concatenate[str, _P], _T]:
    """Returns the function that calls a method of the file system of its first argument."""
    name = method.__name__

    @functools.wraps(method)
    def call(uri: str, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        result: _T = getattr(file_system(uri), name)(uri, *args, **kwargs)
        return result

    return call


read_if_there = _by_uri(base.FileSystem.read_if_there)
read_part = _by_uri(base.FileSystem.read)
open_input = _by_uri(base.FileSystem.open_input)
exists = _by_uri(base.FileSystem.exists)
size_of = _by_uri(base.FileSystem.size_of)
holds = _by_uri(base.FileSystem.holds)
is_older = _by_uri(base.FileSystem.is_older)
altered = _by_uri(base.FileSystem.altered)
describe = _by_uri(base.FileSystem.describe)
version_of = _by_uri(base.FileSystem.version_of)
changed_at = _by_uri(base.FileSystem.changed_at)
list_folder = _by_uri(base.FileSystem.list_folder)
list_files = _by_uri(base.FileSystem.list_files)
files_in = _by_uri(base.FileSystem.files_in)
check_readable = _by_uri(base.FileSystem.check_readable)
make_folder = _by_uri(base.FileSystem.make_folder)
delete_folder = _by_uri(base.FileSystem.delete_folder)
remove_folder = _by_uri(base.FileSystem.remove_folder)


def canonical(uri: str) -> str:
    """Returns the absolute form of a local path, or a URI without slashes at its end."""
    if uri.startswith("file://"):
        uri = uri[len("file://") :]
    if is_remote(uri):
        return uri.rstrip("/")
    if uri.startswith("/") and not _NOT_NORMAL.search(uri):  # fast, for a million inventory rows
        return uri
    try:
        return os.path.abspath(os.path.expanduser(uri))
    except FileNotFoundError as error:
        fault = f"{uri}: the working directory was deleted; change to another one"
        raise errors.UsageError(fault) from error


def join(folder: str, *names: str) -> str:
    """Returns a URI below a folder."""
    if is_remote(folder):  # a name there may begin with a slash
        return "/".join((folder, *filter(None, names)))
    return posixpath.join(folder, *names)


@contextlib.contextmanager
def naming(
    uri: str, error: type[errors.ConversionError] = errors.ConversionError, deed: str = "read"
) -> Iterator[None]:
    """Turns an OSError of the block into an error for people, which names a file."""
    try:
        yield
    except OSError as fault:
        raise error(f"{uri} cannot be {deed}: {fault.strerror or fault}") from fault


def read_image(uri: str, size: int, offset: int = -1) -> bytes:
    """Reads a whole file, or one image of a file that contains several.

    Args:
      uri: the file.
      size: its bytes, as listed.
      offset: the first byte; -1 for the whole file.

    Raises:
      ChangedFileError: the whole file has another size now.
      OSError: the file is missing, cannot be read, or ends before `offset + size`.
    """
    if offset < 0:
        return file_system(uri).read_listed(uri, size)
    data = file_system(uri).read(uri, size, offset)
    if len(data) < size:
        raise OSError(errno.EIO, f"the file ends before byte {offset + size}", uri)
    return data


def read_bytes(uri: str) -> bytes:
    """Reads a whole file. Raises OSError, also for a local pipe or device."""
    data = read_if_there(uri)
    if data is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), uri)
    return data


def read_text(uri: str, name: str = "", *, most: int | None = None) -> str:
    """Reads a text file in UTF-8, with or without a byte order mark.

    Args:
      uri: the file.
      name: the file as messages name it; by default its URI.
      most: the bytes that it may have; None for any number.

    Raises:
      UsageError: the file is missing, cannot be read, is too long, or is not UTF-8.
    """
    name = name or uri
    with naming(name, errors.UsageError):
        if most is not None and (size := size_of(uri)) > most:
            raise errors.UsageError(f"{name} has {size} bytes; expected {most} at most")
        return text.decoded(read_bytes(uri), name)


def check_credentials(uris: Iterable[str]) -> None:
    """Checks before a job that there are credentials for these URIs.

    Raises:
      UsageError: there are none, or the library for them is not installed.
    """
    for system in {file_system(uri): None for uri in uris}:
        system.check_credentials()


def prepare_folder(folder: str) -> None:
    """Makes a folder and its parents, or checks that a bucket can be written to.

    Raises:
      BucketError: the bucket does not exist, or a permission is missing.
    """
    file_system(folder).prepare_folder(folder, temporary_name(join(folder, "probe")))


def free_bytes(folder: str) -> int | None:
    """Returns the bytes that can still be written to a local folder; None if unknown."""
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None


def delete(folder: str, names: list[str]) -> None:
    """Deletes files in a folder; missing ones are ignored."""
    if names:
        file_system(folder).delete([join(folder, name) for name in names])


def open_output(uri: str, *, new: bool = False) -> contextlib.AbstractContextManager[Sink]:
    """Opens a file that appears under its name, whole, when its `with` block ends without error.

    Args:
      uri: the file; an older one is replaced, and stays whole until then.
      new: no other job may write this file at the same time. If the storage can detect that, an
        existing file is kept, and raises an OutputError if its bytes differ.
    """
    return file_system(uri).open_output(uri, temporary_name(uri), new=new)


def write_bytes(uri: str, data: bytes, *, new: bool = False) -> None:
    """Writes a whole file atomically; replaces an older one; `new` is `open_output`'s."""
    with open_output(uri, new=new) as file:
        file.write(data)


def copy(source: str, uri: str, crc32c: int, *, new: bool = False) -> bool:
    """Makes a file of another one: a hard link on one disk, a copy by the service in one kind of
    bucket, else a plain copy, whose checksum is compared.

    Args:
      source: the other file.
      uri: the file; an older one is replaced.
      crc32c: of the other file.
      new: as in `open_output`.

    Returns: False, with nothing done, if a plain copy has another checksum.

    Raises:
      OSError: the other file is gone or cannot be read, or the file cannot be written.
    """
    system = file_system(uri)
    is_same = file_system(source) is system
    if is_same and system.copy_from(source, uri, temporary_name(uri), new=new):
        return True
    crc = 0
    discarded = contextlib.suppress(_OtherBytesError)
    with discarded, open_input(source) as file, open_output(uri, new=new) as sink:
        while chunk := file.read(base.CHUNK_BYTES):
            crc = extend(crc, chunk)
            sink.write(chunk)
        if crc != crc32c:
            raise _OtherBytesError
    return crc == crc32c


class _OtherBytesError(Exception):
    """Keeps a file from appearing that contains other bytes than it should."""
