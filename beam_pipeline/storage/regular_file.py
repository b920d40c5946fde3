"""Opens local files of unknown kind: only regular ones, and without blocking."""

from __future__ import annotations

import errno
import os
import stat

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


def open_regular(path: str) -> int:
    """Opens a regular file for reading and returns its descriptor.

    Opening a pipe would wait for a writer, perhaps forever, and opening a device can have side
    effects.

    Raises:
      OSError: the file cannot be opened, or it is a folder, a pipe, a socket or a device.
    """
    try:
        file = os.open(path, _FLAGS)
    except ValueError as error:  # a null character, or half of a surrogate pair
        raise OSError(errno.EINVAL, f"no name of a file ({error})", path) from error
    mode = os.fstat(file).st_mode
    if stat.S_ISREG(mode):
        return file
    os.close(file)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    raise OSError(errno.EINVAL, "a pipe, socket or device, not a file", path)
