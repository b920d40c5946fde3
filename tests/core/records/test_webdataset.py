"""WebDataset tars, and the files of their samples."""

from __future__ import annotations

import io
import json
import math
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any, BinaryIO, cast

import pytest
from hypothesis import given

from beam_pipeline.core.errors import DamagedRecordError
from beam_pipeline.core.images.header import ImageHeader
from beam_pipeline.core.labels.schema import ColumnKind, further_column, label_column
from beam_pipeline.core.records.features import SampleEncoder
from beam_pipeline.core.records.record_format import EncodedSample
from beam_pipeline.core.records.webdataset import (
    WebDatasetFormat,
    example_of,
    member_header,
    sample_files,
)
from beam_pipeline.core.records.wire import encode_example
from beam_pipeline.core.references import SampleRef
from tests.core.records.fixtures import FEATURES, Memory, record_of, with_kinds
from tests.pictures import picture
from tests.rows import in_rows

FORMAT = WebDatasetFormat()
KEYS = ["a/1.jpg", "a/1.png", "b.c/2.x.JPEG", "ä" * 90 + "\n.jpg", "", "../d/.jpg", "%2E"]
BASES = ["a/1", "a/1%2", "b.c/2%2Ex", "ä" * 90 + "\n", "_", "%2E%2E/d/%2Ejpg", "%252E"]


def sample(number: int) -> EncodedSample:
    """An example in one piece."""
    features = {"image/encoded": [picture(number)], "image/class/label": [number]}
    return EncodedSample(b"", record_of(features), b"")


def shard_of(keys: list[str]) -> bytes:
    """A shard of samples with these keys."""
    sink = Memory()
    writer = FORMAT.writer(sink)
    for number, key in enumerate(keys):
        writer.write(sample(number), key)
    writer.finish()
    return sink.data


def records_of(shard: bytes) -> list[bytes]:
    return list(FORMAT.records(io.BytesIO(shard), "x"))


@pytest.mark.parametrize(
    "name", ["a/1.jpg", "b" * 96 + ".jpg", "c\n", "b" * 97 + ".jpg", "ä\n.jpg"]
)
@pytest.mark.parametrize("size", [0, 511, 512, (1 << 31) - 1])
def test_the_standard_library_reads_a_header(name: str, size: int) -> None:
    """A file of this name and size, also where the name does not fit."""
    with tarfile.open(fileobj=io.BytesIO(member_header(name, size))) as tar:
        member = tar.next()
    assert member
    assert (member.name, member.size, member.type) == (name, size, tarfile.REGTYPE)


def test_the_bytes_of_a_header() -> None:
    """They are POSIX's, field by field, with a checksum over all of them."""
    assert member_header("a/1.jpg", 10) == (
        b"a/1.jpg".ljust(100, b"\0")
        + b"0000644\x000000000\x000000000\x0000000000012\x0000000000000\x00007020\x00 0"
        + bytes(100)
        + b"ustar\x0000".ljust(255, b"\0")
    )


def test_a_shard_is_a_plain_tar() -> None:
    """The standard library finds the files, each sample's side by side, and no names of anyone."""
    with tarfile.open(fileobj=io.BytesIO(shard_of(KEYS))) as tar:
        members = tar.getmembers()
        assert [m.name for m in members] == [
            f"{base}.{extension}" for base in BASES for extension in ("jpg", "cls", "json")
        ]
        assert {(m.mtime, m.uid, m.gid, m.uname, m.gname, m.mode) for m in members} == {
            (0, 0, 0, "", "", 0o644)
        }
        contents = [cast(BinaryIO, tar.extractfile(m)).read() for m in members]
    assert contents[::3] == [picture(number) for number in range(len(KEYS))]
    assert contents[1::3] == [b"%d" % number for number in range(len(KEYS))]


def test_samples_come_back() -> None:
    """Whatever their keys are; also a range of them, from a file that can only be read on."""
    shard = shard_of(KEYS)
    expected = [sample(number)[1] for number in range(len(KEYS))]
    assert records_of(shard) == expected

    class Stream(io.BytesIO):
        def seekable(self) -> bool:
            return False

    for file in (io.BytesIO(shard), Stream(shard)):
        assert list(FORMAT.records_in(file, "x", range(2, 4))) == expected[2:4]


@pytest.mark.skipif(not shutil.which("tar"), reason="there is no tar")
def test_tar_unpacks_a_shard(tmp_path: Path) -> None:
    """The program finds nothing to complain about."""
    (tmp_path / "shard.tar").write_bytes(shard_of(["a/1.jpg", "ä" * 90 + ".jpg"]))
    command = ["tar", "-xf", "shard.tar"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert (tmp_path / "a/1.jpg").read_bytes() == picture(0)
    assert (tmp_path / f"{'ä' * 90}.cls").read_bytes() == b"1"


def test_the_library_reads_a_shard(tmp_path: Path) -> None:
    """One sample for each of ours, decoded; keys are the base names."""
    wds: Any = pytest.importorskip("webdataset")
    (tmp_path / "d-train-00000.tar").write_bytes(shard_of(KEYS))
    found = list(
        wds.WebDataset(f"{tmp_path}/d-train-{{00000..00000}}.tar", shardshuffle=False).decode(
            "rgb8"
        )
    )
    assert [one["__key__"] for one in found] == BASES
    assert [one["cls"] for one in found] == list(range(len(KEYS)))
    assert [one["jpg"].shape for one in found] == [(7, 9, 3)] * len(KEYS)
    assert found[3]["json"]["image/class/label"] == 3


SHARD = shard_of(["a.jpg", "b.jpg"])
SECOND = SHARD.index(b"b.jpg")


@pytest.mark.parametrize(
    ("shard", "expected"),
    [
        (b"", "x: the member at byte 0: the file ends before the archive does"),
        (SHARD[:700], "member at byte 0: the file ends"),
        (SHARD[:-1024], rf"member at byte {len(SHARD) - 1024}: the file ends"),
        (SHARD[:-512], "an empty block, expected another one and the end"),
        (SHARD + b"x", "an empty block, expected another one and the end"),
        (SHARD.replace(b"b.jpg", b"c.jpg"), rf"member at byte {SECOND}: the header is not as"),
        (SHARD.replace(b'{"image/class', b'["image/class'), "x: sample 0 at byte 0: "),
        (
            member_header("a.json", 2) + b"{}".ljust(512, b"\0"),
            "member at byte 1024: the file ends",
        ),
        (tarfile.TarInfo("a").tobuf()[:512].replace(b"0", b"1", 1), "the header is not as"),
    ],
)
def test_damage_is_found(shard: bytes, expected: str) -> None:
    """With the place."""
    with pytest.raises(DamagedRecordError, match=expected):
        records_of(shard)


def test_links_and_forged_sizes_are_refused() -> None:
    """No memory is taken for a size that no example has."""
    link = tarfile.TarInfo("a.jpg")
    link.type = tarfile.SYMTYPE
    for header in (link.tobuf(), member_header("a.jpg", 1 << 31)):
        with pytest.raises(DamagedRecordError, match=r"not as it was written: b'a\.jpg'"):
            records_of(header)


JPEG, PNG = picture(), picture(file_format="PNG")


def files_of(features: dict[str, Any], described: dict[str, Any] | None = None) -> dict[str, bytes]:
    """The files of an example in one piece."""
    return sample_files(EncodedSample(b"", record_of(features), b""), described or {})


def json_of(files: dict[str, bytes]) -> Any:
    return json.loads(files["json"])


def test_an_encoded_sample_is_its_image_its_class_and_its_features() -> None:
    """The image is the file's own bytes, not copied; the JSON has all else under its keys."""
    columns = (
        label_column("class", ColumnKind.CLASS),
        further_column("colour", ColumnKind.BYTES),
        further_column("score", ColumnKind.FLOAT),
    )
    encoder = SampleEncoder(columns, {"cat": 3})
    ref = SampleRef("a/1.jpg", "a/1.jpg", len(JPEG), "train", ("cat", None, 0.5))
    header = ImageHeader("jpeg", 7, 9, 3)
    before, after = encoder.encode(ref, header, JPEG)
    files = sample_files(EncodedSample(before, JPEG, after), {})
    assert list(files) == ["jpg", "cls", "json"]
    assert files["jpg"] is JPEG
    assert files["cls"] == b"3"
    assert json_of(files) == {
        "image/channels": 3,
        "image/class/label": 3,
        "image/class/text": "cat",
        "image/encoded": {"file": "jpg"},
        "image/filename": "a/1.jpg",
        "image/format": "jpeg",
        "image/height": 7,
        "image/source_id": "a/1.jpg",
        "image/width": 9,
        "label/score": 0.5,
    }
    assert example_of(files, "a sample") == before + JPEG + after


def test_two_features_do_not_share_a_file() -> None:
    """The second is a URL; several classes have no file, as the library reads one number from it. Nor do pictures of a list."""
    features = {"a/b": [PNG], "a_b": [PNG + b"x"], "image/class/label": [1, 2]}
    files = files_of(features)
    assert list(files) == ["a_b.png", "json"]
    assert example_of(files, "a sample") == record_of(features)
    pictures = {"image/encoded": [PNG, JPEG]}
    files = files_of(pictures, {"image/encoded": {"shape": [None], "content": "picture"}})
    assert list(files) == [".0.png", ".1.jpg", "json"]
    assert example_of(files, "a sample") == record_of(pictures)


def test_a_list_without_values_keeps_its_kind() -> None:
    """An image without objects has lists of numbers, too."""
    record = encode_example({"a": ("float", []), "b": ("int64", []), "c": ("bytes", [])})
    assert example_of(sample_files(EncodedSample(b"", record, b""), {}), "a sample") == record


@pytest.mark.parametrize("rest", [b"", bytes(30)])
@in_rows
def test_the_first_bytes_name_a_file_however_short_it_is(
    beginning: bytes, extension: str, rest: bytes
) -> None:
    """Sounds begin as WebP does, and are no images."""
    files = files_of({"label/blob": [beginning + rest]})
    assert [name for name in files if name.startswith("label")] == [f"label_blob.{extension}"]


@given(FEATURES)
def test_nothing_of_an_example_is_lost(features: dict[str, Any]) -> None:
    """Any example comes back with the same bytes; JSON has one number that is none."""
    features = {
        key: [math.nan if value != value else value for value in values]
        for key, values in features.items()
    }
    record = encode_example(with_kinds(features))
    assert example_of(sample_files(EncodedSample(b"", record, b""), {}), "a sample") == record
