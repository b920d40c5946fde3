"""Layouts and record formats of other packages, found by their entry points.

    [project.entry-points."beam_tfrecord.layouts"]
    sidecar = "camera_data.sidecar:Sidecar"

Importing `importlib.metadata` takes 40 to 120 ms, so it is imported only if a file of entry points names the
group. Reading these files takes 2 ms for 170 packages.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from beam_pipeline.core.errors import UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

LAYOUT_GROUP, FORMAT_GROUP = "beam_tfrecord.layouts", "beam_tfrecord.formats"


def plugins_of(group: str, built_in: Collection[str]) -> Mapping[str, EntryPoint]:
    """Name -> entry point of each plugin of a group, sorted.

    Args:
      group: `LAYOUT_GROUP` or `FORMAT_GROUP`.
      built_in: names that plugins must not have.

    Raises:
      UsageError: a name is built in, or that of two plugins.
    """
    points: dict[str, EntryPoint] = {}
    for point in _entry_points(group):
        taken = "is built in" if point.name in built_in else ""
        if point.name in points:
            taken = f"is also the name of {_package(points[point.name])}"
        if taken:
            raise UsageError(
                f"{_package(point)} adds {point.name!r} to {group}, a name that {taken}; uninstall the package "
                "or rename its entry point"
            )
        points[point.name] = point
    return points


@functools.cache
def load(point: EntryPoint) -> Any:
    """Imports the object of an entry point. Raises UsageError."""
    try:
        return point.load()
    except Exception as error:  # whatever somebody else's module raises
        raise bad_plugin(point, f"cannot be loaded ({type(error).__name__}: {error})") from error


def bad_plugin(point: EntryPoint, problem: str) -> UsageError:
    """The error of a plugin that cannot be used."""
    return UsageError(
        f"{point.name!r} in {point.group}, {point.value} of {_package(point)}, {problem}; correct or uninstall "
        "the package"
    )


@functools.cache
def _entry_points(group: str) -> tuple[EntryPoint, ...]:
    needle = f"[{group}]".encode()
    if not any(needle in content for content in _files()):
        return ()
    from importlib.metadata import entry_points

    return tuple(sorted(entry_points(group=group), key=lambda point: (point.name, point.value)))


def _files() -> Iterator[bytes]:
    """Yields the content of the file of entry points of each package in a folder of Python's path."""
    for folder in map(os.path.abspath, sys.path):
        with suppress(OSError):
            for name in os.listdir(folder):
                if name.endswith((".dist-info", ".egg-info")):
                    with suppress(OSError), open(f"{folder}/{name}/entry_points.txt", "rb") as file:
                        yield file.read()


def _package(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else "a package"
