"""Archives with given members, made by the tests themselves."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from beam_pipeline.core.archives import Entry, content

Members = Mapping[str, bytes] | Iterable[tuple[str, bytes]]


def _pairs(members: Members) -> Iterable[tuple[str, bytes]]:
    return members.items() if isinstance(members, Mapping) else members


def tar_bytes(members: Members, tar_format: int = tarfile.GNU_FORMAT) -> bytes:
    """A tar with these files, in their order; a name may come twice."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tar_format) as archive:
        for name, content in _pairs(members):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def zip_bytes(members: Members, compression: int = zipfile.ZIP_STORED) -> bytes:
    """A zip with these files, in their order; a name may come twice."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        for name, content in _pairs(members):
            info = zipfile.ZipInfo(name)
            info.compress_type = compression
            info.external_attr = 0o644 << 16
            archive.writestr(info, content)
    return out.getvalue()


def make_tar(path: Path, members: Members, tar_format: int = tarfile.GNU_FORMAT) -> None:
    """Writes a tar, and the folder it lies in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(tar_bytes(members, tar_format))


def make_zip(path: Path, members: Members, compression: int = zipfile.ZIP_STORED) -> None:
    """Writes a zip, and the folder it lies in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(zip_bytes(members, compression))


def contents_of(data: bytes, entries: Iterable[Entry]) -> dict[str, bytes | str]:
    """Name -> content of each member, or why it has none."""
    found: dict[str, bytes | str] = {}
    for entry in entries:
        assert entry.name not in found
        if entry.member is None:
            found[entry.name] = entry.problem
            continue
        span = data[entry.member.at : entry.member.at + entry.member.length]
        try:
            found[entry.name] = content(entry.member, span, entry.size)
        except OSError as error:
            found[entry.name] = error.strerror or str(error)
    return found
