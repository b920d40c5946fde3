"""Packs this package as a wheel that workers install, from the modules that are imported here.

A wheel needs no build tool, here or on the worker, and no source tree: an installation by `pip
install` and a checkout both have the modules and their requirements.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import os
import zipfile
from collections.abc import Iterator

from packaging.requirements import Requirement

import beam_pipeline
from beam_pipeline.core.errors import ConversionError

DISTRIBUTION = "beam-tfrecord"
_WORKER_EXTRA = "gcp"  # for workers that read and write buckets
_BEAM = "apache-beam"
_SUFFIXES = (".py", "py.typed", ".html", ".css", ".js", ".yaml")
_WHEEL = "Wheel-Version: 1.0\nGenerator: beam-tfrecord\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def build_package(folder: str) -> str:
    """Writes the wheel, with the same bytes each time, and returns its path.

    It requires what this package and Google's client require, except Beam: a worker has Beam, and
    must keep the version that its engine was started with.

    Raises:
      ConversionError: the requirements of this package are unknown.
    """
    version = beam_pipeline.__version__
    name = DISTRIBUTION.replace("-", "_")
    info = f"{name}-{version}.dist-info"
    contents = dict(_modules())
    contents[f"{info}/METADATA"] = _metadata(version).encode()
    contents[f"{info}/WHEEL"] = _WHEEL.encode()
    record = "".join(f"{path},{_digest(data)},{len(data)}\n" for path, data in contents.items())
    contents[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    wheel = os.path.join(folder, f"{name}-{version}-py3-none-any.whl")
    with zipfile.ZipFile(wheel, "w") as file:
        for path, data in contents.items():
            member = zipfile.ZipInfo(
                path
            )  # dated 1980, so that the bytes do not depend on the time
            member.external_attr = 0o100644 << 16
            file.writestr(member, data, zipfile.ZIP_DEFLATED)
    return wheel


def requirements() -> list[str]:
    """Returns the requirements of a worker, without Beam, in `pip`'s notation.

    Raises:
      ConversionError: this package is imported from a folder, but not installed.
    """
    try:
        declared = importlib.metadata.requires(DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError as error:
        raise ConversionError(
            f"{DISTRIBUTION} is not installed, so the requirements of its workers are not known: "
            f"{os.path.dirname(beam_pipeline.__path__[0])} is only on Python's path. Install it "
            "with pip install '.[gcp]'"
        ) from error
    found = []
    for requirement in map(Requirement, declared):
        marker = requirement.marker
        if requirement.name != _BEAM and (not marker or marker.evaluate({"extra": _WORKER_EXTRA})):
            requirement.marker = None
            found.append(str(requirement))
    return found


def _modules() -> Iterator[tuple[str, bytes]]:
    """Yields (path in the wheel, content) of every module and template."""
    (root,) = beam_pipeline.__path__
    above = os.path.dirname(root)
    for folder, folders, names in os.walk(root, followlinks=True):
        folders.sort()  # includes transforms/, which is a link in a checkout
        for name in sorted(names):
            if name.endswith(_SUFFIXES):
                path = os.path.join(folder, name)
                with open(path, "rb") as file:
                    yield os.path.relpath(path, above).replace(os.sep, "/"), file.read()


def _metadata(version: str) -> str:
    lines = [f"Requires-Dist: {requirement}" for requirement in requirements()]
    return "\n".join(
        ["Metadata-Version: 2.1", f"Name: {DISTRIBUTION}", f"Version: {version}", *lines, ""]
    )


def _digest(data: bytes) -> str:
    encoded = base64.urlsafe_b64encode(hashlib.sha256(data).digest())
    return f"sha256={encoded.rstrip(b'=').decode()}"
