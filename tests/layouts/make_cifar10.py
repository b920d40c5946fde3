"""CIFAR-10 and CIFAR-100 in small: every file of the real ones, byte for byte as they are written, with few images.

The Python version was written by Python 2's cPickle with protocol 2. No Python 3 writes such pickles
(its texts are unicode, Python 2's are bytes), so `python2_pickle` puts the opcodes together; a test
holds it to what cPickle wrote.
"""

from __future__ import annotations

import io
import os
import struct
import tarfile
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tests.layouts.data_sets import exported
from tests.pictures import write_files

CIFAR10_NAMES, COARSE_NAMES, FINE_NAMES = (
    [name.decode() for name in content.split()] for content in exported("cifar").values()
)
CIFAR10_BATCHES = (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")


class Picture(NamedTuple):
    """One image: its labels, coarse before fine, its name, its planes of 32 x 32."""

    labels: tuple[int, ...]
    filename: str
    pixels: bytes


class UInt8Array(NamedTuple):
    """What NumPy's array of rows of bytes is, for `python2_pickle`."""

    rows: int
    columns: int
    data: bytes
    type_name: str = "u1"


def pixels_of(seed: int) -> bytes:
    """Three planes in which neither rows, columns nor channels can be exchanged unseen."""
    return bytes(
        (seed * 37 + channel * 80 + row * 3 + column * 2) % 256
        for channel in range(3)
        for row in range(32)
        for column in range(32)
    )


def cifar10_pictures(batch: str, count: int = 12) -> list[Picture]:
    """Images of all classes in turn."""
    start = CIFAR10_BATCHES.index(batch) * count
    return [
        Picture((i % 10,), f"{CIFAR10_NAMES[i % 10]}_s_{start + i:06d}.png", pixels_of(start + i))
        for i in range(count)
    ]


def cifar100_pictures(batch: str, count: int = 12) -> list[Picture]:
    """Images with a coarse and a fine label."""
    start = 0 if batch == "train" else 1000
    return [
        Picture(
            ((start + 3 * i) % 20, (start + 7 * i) % 100),
            f"{FINE_NAMES[7 * i % 100]}_s_{start + i:06d}.png",
            pixels_of(start + i),
        )
        for i in range(count)
    ]


def cifar10_python(count: int = 12) -> dict[str, bytes]:
    """The files of `cifar-10-batches-py`, in the order of the archive."""
    batches = {
        batch: pickled_batch(
            f"training batch {batch[-1]} of 5" if batch != "test_batch" else "testing batch 1 of 1",
            ("labels",),
            cifar10_pictures(batch, count),
        )
        for batch in CIFAR10_BATCHES
    }
    meta = {
        b"num_cases_per_batch": count,
        b"label_names": [name.encode() for name in CIFAR10_NAMES],
        b"num_vis": 3072,
    }
    return {
        "data_batch_4": batches["data_batch_4"],
        "readme.html": b'<meta HTTP-EQUIV="REFRESH" content="0; url=https://www.cs.toronto.edu">\n',
        "test_batch": batches["test_batch"],
        "data_batch_3": batches["data_batch_3"],
        "batches.meta": python2_pickle(meta),
        **{f"data_batch_{i}": batches[f"data_batch_{i}"] for i in (2, 5, 1)},
    }


def cifar100_python(count: int = 12) -> dict[str, bytes]:
    """The files of `cifar-100-python`, in the order of the archive."""
    meta = {
        b"fine_label_names": [name.encode() for name in FINE_NAMES],
        b"coarse_label_names": [name.encode() for name in COARSE_NAMES],
    }
    return {
        "file.txt~": b"",
        **{
            batch: pickled_batch(
                f"{batch}ing batch 1 of 1",
                ("coarse_labels", "fine_labels"),
                cifar100_pictures(batch, count),
            )
            for batch in ("train", "test")
        },
        "meta": python2_pickle(meta),
    }


def pickled_batch(title: str, label_keys: Sequence[str], pictures: Sequence[Picture]) -> bytes:
    """The file of a batch."""
    lists = {
        key.encode(): [picture.labels[index] for picture in pictures]
        for index, key in enumerate(label_keys)
    }
    data = b"".join(picture.pixels for picture in pictures)
    return python2_pickle(
        {
            b"batch_label": title.encode(),
            **lists,
            b"data": UInt8Array(len(pictures), 3072, data),
            b"filenames": [picture.filename.encode() for picture in pictures],
        }
    )


def python2_pickle(value: Any) -> bytes:
    """What `cPickle.dumps(value, 2)` of Python 2 writes for dicts, lists, ints, `str` and arrays.

    Opcodes as `pickletools` names them: PROTO 2; SHORT_BINSTRING and BINSTRING for `str`, given here
    as bytes; BINPUT and LONG_BINPUT for what goes into the memo, numbered from 1; GLOBAL with the
    modules' names of NumPy 1; lists and dicts in parts of up to 1,000.
    """
    return _Python2Pickler().dump(value)


class _Python2Pickler:
    def __init__(self) -> None:
        self._out = bytearray()
        self._memo = 0

    def dump(self, value: Any) -> bytes:
        self._out += b"\x80\x02"
        self._save(value)
        return bytes(self._out + b".")

    def _put(self) -> None:
        self._memo += 1
        self._out += (
            b"q" + bytes([self._memo]) if self._memo < 256 else b"r" + struct.pack("<I", self._memo)
        )

    def _save(self, value: Any) -> None:
        if isinstance(value, dict):
            self._out += b"}"
            self._put()
            self._save_items([item for pair in value.items() for item in pair], 2000, b"u")
        elif isinstance(value, list):
            self._out += b"]"
            self._put()
            self._save_items(value, 1000, b"e")
        elif isinstance(value, int):
            self._out += _integer(value)
        elif isinstance(value, bytes):
            self._out += _string(value)
            self._put()
        else:
            self._save_array(value)

    def _save_items(self, items: Sequence[Any], most: int, end: bytes) -> None:
        for start in range(0, len(items), most):
            self._out += b"("
            for item in items[start : start + most]:
                self._save(item)
            self._out += end

    def _save_array(self, array: UInt8Array) -> None:
        """As `numpy.ndarray.__reduce__` has it; what only the pickler holds gets no number."""
        self._out += b"cnumpy.core.multiarray\n_reconstruct\n"
        self._put()
        self._out += b"cnumpy\nndarray\n"
        self._put()
        self._out += b"K\x00\x85" + _string(b"b") + b"\x87R"
        self._put()
        self._out += b"(K\x01" + _integer(array.rows) + _integer(array.columns) + b"\x86"
        self._out += b"cnumpy\ndtype\n"
        self._put()
        self._out += _string(array.type_name.encode()) + b"K\x00K\x01\x87R"
        self._put()
        self._out += b"(K\x03" + _string(b"|") + b"NNN" + b"J\xff\xff\xff\xff" * 2 + b"K\x00tb"
        self._out += b"\x89" + _string(array.data) + b"tb"


def _integer(value: int) -> bytes:
    if 0 <= value < 1 << 8:
        return b"K" + bytes([value])
    if 0 <= value < 1 << 16:
        return b"M" + struct.pack("<H", value)
    return b"J" + struct.pack("<i", value)


def _string(value: bytes) -> bytes:
    if len(value) < 256:
        return b"U" + bytes([len(value)]) + value
    return b"T" + struct.pack("<i", len(value)) + value


def tar_gz(folder: str, contents: Mapping[str, bytes]) -> bytes:
    """An archive of one folder."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        top = tarfile.TarInfo(folder)
        top.type, top.mode = tarfile.DIRTYPE, 0o755
        archive.addfile(top)
        for name, content in contents.items():
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return out.getvalue()


def batch_10(**changes: Any) -> bytes:
    """A pickled batch of two images, some of its entries changed; None leaves one out."""
    content = {
        "batch_label": b"testing batch 1 of 1",
        "labels": [1, 2],
        "data": UInt8Array(2, 3072, pixels_of(1) + pixels_of(2)),
        "filenames": [b"a.png", b"b.png"],
        **changes,
    }
    return python2_pickle({k.encode(): v for k, v in content.items() if v is not None})


TWO_IMAGES = pixels_of(1) + pixels_of(2)


def make_cifar10(folder: str) -> None:
    """CIFAR-10 as downloaded and unpacked, CIFAR-100 unpacked."""
    python = cifar10_python(20)
    write_files(folder, {"cifar-10-python.tar.gz": tar_gz("cifar-10-batches-py", python)})
    write_files(os.path.join(folder, "cifar-10-batches-py"), python)
    write_files(os.path.join(folder, "cifar-100-python"), cifar100_python(60))
