"""Checks that the output of a way holds every image: each file's bytes once, with its class number.

Every format is read according to its specification, not by the library that wrote it.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import tarfile
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from google.protobuf.message import DecodeError
from inputs import Images

from beam_pipeline.core.errors import DamagedRecordError
from beam_pipeline.core.records.example_view import Example
from beam_pipeline.core.records.tfrecord import read_records

Sample = tuple[bytes, int | None]
"""An image's digest and its class number; None where the format has none."""

_UNREADABLE = (
    OSError,
    KeyError,
    struct.error,
    tarfile.TarError,
    DamagedRecordError,
    DecodeError,
)


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def _files(folder: str, ending: str = "") -> Iterator[str]:
    for parent, _, names in os.walk(folder):
        yield from (os.path.join(parent, name) for name in names if name.endswith(ending))


def tfrecords(
    image_key: str, label_key: str, infix: str = ".tfrecord"
) -> Callable[[str], Iterator[list[Sample]]]:
    """Reads every TFRecord file of a folder; their names contain `infix`. CRCs are checked."""

    def read(folder: str) -> Iterator[list[Sample]]:
        for path in _files(folder):
            if infix in os.path.basename(path):
                with open(path, "rb") as file:
                    yield [_sample(data, image_key, label_key) for data in read_records(file, path)]

    return read


def _sample(data: bytes, image_key: str, label_key: str) -> Sample:
    feature = Example.FromString(data).features.feature
    (image,) = feature[image_key].bytes_list.value
    (label,) = feature[label_key].int64_list.value
    return _digest(image), label


def tars(folder: str) -> Iterator[list[Sample]]:
    """Reads WebDataset's shards, with KEY.cls beside each KEY.EXTENSION."""
    for path in _files(folder, ".tar"):
        images: dict[str, bytes] = {}
        labels: dict[str, int] = {}
        with tarfile.open(path) as tar:
            for member in tar:
                stream = tar.extractfile(member)
                assert stream is not None
                key, extension = os.path.splitext(member.name)
                if extension == ".cls":
                    labels[key] = int(stream.read())
                else:
                    images[key] = _digest(stream.read())
        yield [(digest, labels[key]) for key, digest in images.items()]


def mds(folder: str) -> Iterator[list[Sample]]:
    """Reads MosaicML's shards as `index.json` describes them.

    A shard holds the number n of samples as uint32, n + 1 uint32 offsets, the last for the end, and
    the samples. A sample holds a uint32 size for each column of variable size, and the columns' bytes.
    """
    with open(os.path.join(folder, "index.json"), encoding="utf-8") as file:
        shards = json.load(file)["shards"]
    for shard in shards:
        with open(os.path.join(folder, shard["raw_data"]["basename"]), "rb") as file:
            data = file.read()
        (count,) = struct.unpack_from("<I", data)
        offsets = struct.unpack_from(f"<{count + 1}I", data, 4)
        yield [_mds_sample(data, offset, shard) for offset in offsets[:-1]]


def _mds_sample(data: bytes, offset: int, shard: dict[str, Any]) -> Sample:
    sizes = list(shard["column_sizes"])
    for column, size in enumerate(sizes):
        if size is None:
            (sizes[column],) = struct.unpack_from("<I", data, offset)
            offset += 4
    values = {}
    for name, size in zip(shard["column_names"], sizes, strict=True):
        values[name] = data[offset : offset + size]
        offset += size
    return _digest(values["image"]), int.from_bytes(values["label"], "little")


def concatenations(folder: str) -> Iterator[list[Sample]]:
    """Reads the output of `cat`: the file LIST names the files whose bytes are in LIST.all."""
    for path in _files(folder, ".all"):
        with open(path[: -len(".all")], "rb") as file:
            names = file.read().split(b"\0")[:-1]
        samples: list[Sample] = []
        with open(path, "rb") as file:
            for name in names:
                samples.append((_digest(file.read(os.stat(name).st_size)), None))
            if file.read(1):
                raise ValueError(f"{path}: has more bytes than the files that it is made of")
        yield samples


def check(images: Images, folder: str, read: Callable[[str], Iterator[list[Sample]]]) -> int:
    """Compares the content of a folder with the images.

    Returns:
      The number of files that hold the images.

    Raises:
      ValueError: reports how many images are missing, wrong or duplicated.
    """
    try:
        shards = list(read(folder))
    except _UNREADABLE as error:
        raise ValueError(f"{folder}: cannot be read: {error!r}") from error
    found = Counter(sample for shard in shards for sample in shard)
    with_labels = all(label is not None for _, label in found)
    expected: Counter[Sample] = Counter()
    for file in images.files:
        with open(file.path, "rb") as stream:
            expected[_digest(stream.read()), file.label if with_labels else None] += 1
    if found != expected:
        raise ValueError(
            f"{folder}: {(expected - found).total()} of {expected.total()} images are missing, "
            f"{(found - expected).total()} are there that should not be"
        )
    return len(shards)
