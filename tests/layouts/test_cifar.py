"""CIFAR-10 and CIFAR-100 as downloaded, in the Python version."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import pickle
import re
import struct
import tarfile
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.errors import ContainerError, UsageError
from beam_pipeline.core.references import SampleRef
from beam_pipeline.layouts.cifar import (
    Cifar10,
    CifarError,
    CifarReader,
    read_pickled,
)
from beam_pipeline.layouts.layout import ContainerLabels, Source, SourceOptions
from beam_pipeline.layouts.opening import open_source
from beam_pipeline.storage import files
from tests.harness import convert, digests, manifest_of, read_all
from tests.layouts.make_cifar10 import (
    CIFAR10_BATCHES,
    CIFAR10_NAMES,
    TWO_IMAGES,
    Picture,
    UInt8Array,
    batch_10,
    cifar10_pictures,
    cifar10_python,
    cifar100_pictures,
    cifar100_python,
    pickled_batch,
    pixels_of,
    python2_pickle,
    tar_gz,
)
from tests.pictures import write_files

PY, TAR = "cifar-10-batches-py", "cifar-10-python.tar.gz"
PY_100 = "cifar-100-python"
NAMED_10 = (tuple(CIFAR10_NAMES),)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with `data` in it: both sets and their archives."""
    versions = {
        (PY, TAR): cifar10_python(),
        (PY_100, f"{PY_100}.tar.gz"): cifar100_python(),
    }
    for (folder, archive), contents in versions.items():
        write_files(f"{tmp_path}/data/{folder}", contents)
        write_files(f"{tmp_path}/data", {archive: tar_gz(folder, contents)})
    monkeypatch.chdir(tmp_path)
    return tmp_path


def expected_rows(picture: Picture) -> bytes:
    """The picture's pixels, row by row, channels together."""
    planes = np.frombuffer(picture.pixels, np.uint8).reshape(3, 32, 32)
    return planes.transpose(1, 2, 0).tobytes()


def source_of(given: SourceOptions, layout: str = "auto") -> Source:
    return open_source(layout, given)[0]


def sample_refs(source: Source, folder: Any) -> list[SampleRef | DeadLetter]:
    """What the reader yields for all files of a source, unpacked to a folder."""
    labels = source.labels
    assert isinstance(labels, ContainerLabels)
    os.makedirs(folder, exist_ok=True)
    return [item for uri in labels.files for item in labels.reader.read(uri, str(folder))]


def test_nothing_is_unpacked_for_a_plan(data: Path) -> None:
    """References say what they would; no file is written."""
    source = source_of(SourceOptions(images=(f"data/{TAR}",)))
    labels: Any = source.labels
    found = [item for uri in labels.files for item in labels.reader.read(uri, "")]
    assert os.listdir(".") == ["data"]
    unpacked = sample_refs(source, "unpacked")
    assert [ref._replace(uri="") for ref in found] == [ref._replace(uri="") for ref in unpacked]


# What is written


def test_every_image_becomes_an_example_with_its_label_name_and_pixels(data: Path) -> None:
    """Train and test, every feature, and every pixel as TensorFlow decodes it."""
    import tensorflow as tf

    assert convert("--images", f"data/{PY}", "--output", "out") == 0
    examples = read_all("out")
    assert len(examples) == 72
    for batch in CIFAR10_BATCHES:
        for i, picture in enumerate(cifar10_pictures(batch)):
            features = examples.pop(f"{batch}/{i:05d}")
            (encoded,) = features.pop("image/encoded")
            assert tf.io.decode_png(encoded).numpy().tobytes() == expected_rows(picture)
            assert features == {
                "image/format": [b"png"],
                "image/height": [32],
                "image/width": [32],
                "image/channels": [3],
                "image/filename": [picture.filename.encode()],
                "image/source_id": [f"{batch}/{i:05d}".encode()],
                "image/class/label": list(picture.labels),
                "image/class/text": [CIFAR10_NAMES[picture.labels[0]].encode()],
            }
    assert examples == {}


def test_raw_examples_hold_the_pixels_row_by_row(data: Path) -> None:
    """Channels together, with the format that says so."""
    assert convert("--images", f"data/{PY}", "--output", "out", "--image_encoding", "raw") == 0
    examples = read_all("out")
    for i, picture in enumerate(cifar10_pictures("test_batch")):
        features = examples[f"test_batch/{i:05d}"]
        assert features["image/encoded"] == [expected_rows(picture)]
        assert features["image/format"] == [b"raw"]
        assert (features["image/height"], features["image/width"]) == ([32], [32])
        assert features["image/channels"] == [3]
    assert manifest_of("out")["options"]["image_encoding"] == "raw"


# Where the files are


@pytest.mark.parametrize("path", [PY, TAR])
def test_references_point_into_what_was_unpacked(data: Path, path: str) -> None:
    """To the pixels of each image."""
    refs = sample_refs(source_of(SourceOptions(images=(f"data/{path}",))), data / "a")
    ref = next(ref for ref in refs if ref.key == "data_batch_1/00007")
    assert isinstance(ref, SampleRef)
    assert (ref.uri, ref.offset, ref.size) == (f"{data}/a/data_batch_1", 7 * 3072, 3072)
    with open(ref.uri, "rb") as file:
        file.seek(ref.offset)
        assert file.read(3072) == cifar10_pictures("data_batch_1")[7].pixels


@pytest.mark.slow
def test_an_archive_may_have_any_name_if_the_layout_is_named(data: Path) -> None:
    """And any order of files, with folders or without."""
    contents = dict(sorted(cifar10_python().items()))
    write_files(str(data), {"download": tar_gz("./x/y", contents)})
    assert convert("--images", f"data/{PY}", "--output", "a", "--name", "c") == 0
    arguments = ("--images", "download", "--output", "b", "--name", "c", "--layout", "cifar10")
    assert convert(*arguments) == 0
    assert digests("a") == digests("b")


# What the classes are called


def test_the_file_says_what_classes_are_called(data: Path) -> None:
    """Whatever the usual names are, and in their order."""
    names = [f"class {i}" for i in range(10)][::-1]
    meta = python2_pickle({b"label_names": [name.encode() for name in names]})
    write_files(f"data/{PY}", {"batches.meta": meta})
    source = source_of(SourceOptions(images=(f"data/{PY}",)))
    assert source.numbering.known == tuple((name, i) for i, name in enumerate(names))
    ref = next(ref for ref in sample_refs(source, "unpacked") if ref.key == "test_batch/00003")
    assert isinstance(ref, SampleRef)
    assert ref.labels[0] == "class 6"


def test_without_their_file_the_run_stops(data: Path) -> None:
    """Nobody knows whether the numbers mean what CIFAR's mean."""
    (data / f"data/{PY}/batches.meta").unlink()
    assert usage_error(SourceOptions(images=(f"data/{PY}",))) == (
        f"--images: {data}/data/{PY}, batches.meta: no such file; download cifar-10-python.tar.gz"
    )


def test_classes_that_no_image_has_keep_their_ids(data: Path) -> None:
    """CIFAR's numbers count, not those that a part would give; without a file name the key is one."""
    content = {b"data": UInt8Array(1, 3072, pixels_of(0)), b"labels": [7]}
    meta = cifar10_python()["batches.meta"]
    write_files("own", {"test_batch": python2_pickle(content), "batches.meta": meta})
    assert convert("--images", "own/test_batch", "--output", "out", "--layout=cifar10") == 0
    (features,) = read_all("out").values()
    assert features["image/class/label"] == [7]
    assert features["image/filename"] == [b"test_batch/00000"]
    assert [entry["name"] for entry in manifest_of("out")["classes"]] == CIFAR10_NAMES


# What ends a run


def read_batch(folder: Path, content: bytes) -> list[SampleRef]:
    write_files(str(folder), {"test_batch": content})
    return list(CifarReader(Cifar10(), NAMED_10).read(f"{folder}/test_batch", f"{folder}/unpacked"))


@pytest.mark.parametrize("label", [b"cat", [1, 2], True, 2.0, 1 << 100, 10, -1])
def test_a_label_that_is_no_class_ends_the_run(tmp_path: Path, label: Any) -> None:
    """No batch that anybody publishes has one."""
    content = {"data": np.zeros((2, 3072), np.uint8), "labels": [3, label]}
    message = r"expected an integer from 0 to 9; download it again$"
    with pytest.raises(ContainerError, match=message):
        read_batch(tmp_path, pickle.dumps(content, 4))


def test_a_file_name_that_is_no_text_ends_the_run(tmp_path: Path) -> None:
    """Its bytes are not UTF-8."""
    with pytest.raises(ContainerError, match="1 of the file names is not a text in UTF-8"):
        read_batch(tmp_path, batch_10(filenames=[b"a.png", b"b\xff.png"]))


def test_both_labels_of_cifar100_are_looked_at(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message tells which one it is; of an archive it names the archive and the batch."""
    pictures = cifar100_pictures("test")
    pictures[1] = pictures[1]._replace(labels=(5, 100))
    batch = pickled_batch("testing batch 1 of 1", ("coarse_labels", "fine_labels"), pictures)
    write_files(".", {"c.tar.gz": tar_gz(PY_100, {**cifar100_python(), "test": batch})})
    assert convert("--images", "c.tar.gz", "--output", "out", "--layout=cifar100") == 1
    problem = "fine_label 100, expected an integer from 0 to 99; download it again"
    assert f"error: {data}/c.tar.gz: test: {problem}\n" in capsys.readouterr().err


class Exploit:
    """Pickled, it runs a command wherever it is unpickled without care."""

    def __init__(self, marker: Path) -> None:
        self._command = f"touch {marker}"

    def __reduce__(self) -> Any:
        return os.system, (self._command,)


def test_a_pickle_that_would_run_something_is_refused(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run ends with the file and what it refers to; nothing was run."""
    marker = data / "marker"
    content = {"data": Exploit(marker), "labels": [], "filenames": []}
    write_files(f"data/{PY}", {"data_batch_2": pickle.dumps(content, 2)})
    assert convert("--images", f"data/{PY}", "--output", "out") == 1
    error = capsys.readouterr().err
    assert f"error: {data}/data/{PY}/data_batch_2: refuses {os.name}.system: " in error
    assert "Traceback" not in error
    assert not marker.exists()
    assert not (data / "out/manifest.json").exists()


CUT = "not a pickle, or one that is cut short"
EXPECTED = "expected a NumPy array of shape (images, 3072) and type u1, with all of its pixels"
BROKEN_PICKLES = {
    "empty": (b"", CUT),
    "a text": (b"<html>Not found</html>", CUT),
    "no dict": (python2_pickle([1]), "contains [1], expected a dict"),
    "cut in the labels": (batch_10()[:70], CUT),
    "cut in the pixels": (batch_10()[:4000], CUT),
    "cut at the end": (batch_10()[:-1], CUT),
    "a negative length": (b"\x80\x02T\xff\xff\xff\xff.", CUT),
    "no data": (batch_10(data=None), f"'data' is None, {EXPECTED}"),
    "a list for data": (batch_10(data=[1, 2]), f"'data' is [1, 2], {EXPECTED}"),
    "another shape": (
        batch_10(data=UInt8Array(4, 1536, TWO_IMAGES)),
        f"'data' is a NumPy array, {EXPECTED}",
    ),
    "a shape that is none": (
        batch_10().replace(b"K\x01K\x02M\x00\x0c\x86", b"K\x01NM\x00\x0c\x86"),
        f"'data' is a NumPy array, {EXPECTED}",
    ),
    "another type": (
        batch_10(data=UInt8Array(2, 3072, TWO_IMAGES, "i1")),
        f"'data' is a NumPy array, {EXPECTED}",
    ),
    "too few pixels": (
        batch_10(data=UInt8Array(2, 3072, TWO_IMAGES[:-1])),
        f"'data' is a NumPy array, {EXPECTED}",
    ),
    "no image": (
        batch_10(labels=[], filenames=[], data=UInt8Array(0, 3072, b"")),
        f"'data' is a NumPy array, {EXPECTED}",
    ),
    "no labels": (batch_10(labels=None), "'labels' is None, expected a list of 2"),
    "an array of labels": (
        pickle.dumps({"data": np.zeros((2, 3072), np.uint8), "labels": np.zeros(2, np.uint8)}, 4),
        "'labels' is a NumPy array, expected a list of 2",
    ),
    "a label too few": (batch_10(labels=[1]), "'labels' is [1], expected a list of 2"),
    "a name too many": (
        batch_10(filenames=[b"a", b"b", b"c"]),
        "'filenames' is [b'a', b'b', b'c'], expected a list of 2",
    ),
    "the order of Fortran": (
        pickle.dumps({"data": np.zeros((2, 3072), np.uint8, order="F"), "labels": [0, 0]}, 4),
        f"'data' is a NumPy array, {EXPECTED}",
    ),
    "of Python 3's protocol 2": (
        pickle.dumps({"data": np.zeros((2, 3072), np.uint8), "labels": [0, 0]}, 2),
        "refuses _codecs.encode: ",
    ),
    "of protocol 5": (
        pickle.dumps({"data": np.zeros((2, 3072), np.uint8), "labels": [0, 0]}, 5),
        "refuses numpy._core.numeric._frombuffer: ",
    ),
    "CIFAR-100's": (cifar100_python()["test"], "'labels' is None, expected a list of 12"),
}


@pytest.mark.parametrize("case", BROKEN_PICKLES)
def test_a_broken_batch_is_refused_as_a_whole(tmp_path: Path, case: str) -> None:
    """Nobody knows which images it held; the message says file, place and what was expected."""
    content, message = BROKEN_PICKLES[case]
    with pytest.raises(ContainerError) as caught:
        read_batch(tmp_path, content)
    assert str(caught.value).startswith(f"{tmp_path}/test_batch: {message}")
    assert not (tmp_path / "unpacked/test_batch").exists()


def test_a_batch_that_cannot_be_read_ends_the_run(data: Path) -> None:
    """Without a traceback."""
    source = source_of(SourceOptions(images=(f"data/{PY}",)))
    (data / f"data/{PY}/test_batch").unlink()
    with pytest.raises(ContainerError, match=r"test_batch cannot be read, .*: No such file"):
        sample_refs(source, data / "unpacked")


# Archives


def archive_reader() -> CifarReader:
    return CifarReader(Cifar10(), NAMED_10, archived=True)


def read_archive(content: bytes, folder: Path) -> list[SampleRef | DeadLetter]:
    write_files(str(folder), {"x.tar.gz": content})
    return list(archive_reader().read(f"{folder}/x.tar.gz", f"{folder}/unpacked"))


WHOLE = tar_gz(PY, cifar10_python())


def flipped() -> bytes:
    """An archive with a wrong bit among bytes that are stored as they are."""
    stored = gzip.compress(gzip.decompress(tar_gz(PY, cifar10_python())), compresslevel=0)
    content = bytearray(stored)
    content[content.index(pixels_of(1)) + 100] ^= 1
    return bytes(content)


def unknown_block() -> bytes:
    """An archive whose second half is of a kind of block that there is not."""
    tar = gzip.decompress(tar_gz(PY, cifar10_python()))
    compressor = zlib.compressobj(wbits=16 + zlib.MAX_WBITS)
    content = compressor.compress(tar[: len(tar) // 2]) + compressor.flush(zlib.Z_FULL_FLUSH)
    return content + b"\xff" * 1000


@pytest.mark.parametrize(
    ("content", "message"),
    [
        *((WHOLE[: int(len(WHOLE) * share)], "cut short") for share in (0.001, 0.3, 0.95, 0.9999)),
        (b"", "damaged or cut short"),
        (b"no archive", "is not a .tar.gz, or is damaged or cut short (Not a gzipped file"),
        (gzip.compress(b"some text, and not a tar", mtime=0), "is not a .tar.gz, or is damaged"),
        (flipped(), "CRC check failed"),
        (unknown_block(), "invalid block type"),
    ],
    ids=[*("header", "half", "batch", "end", "nothing", "text", "gzip", "bit", "block")],
)
def test_a_broken_archive_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    """Wherever it ends, and whatever it is."""
    with pytest.raises(ContainerError) as caught:
        read_archive(content, tmp_path)
    assert message in str(caught.value)
    assert str(caught.value).endswith("; download it again")


def test_an_archive_without_one_of_the_batches_is_refused(tmp_path: Path) -> None:
    """The message names it."""
    contents = cifar10_python()
    del contents["data_batch_5"]
    with pytest.raises(ContainerError, match=r"x\.tar\.gz lacks data_batch_5; download it again"):
        read_archive(tar_gz(PY, contents), tmp_path)
    with pytest.raises(ContainerError, match=r"x\.tar\.gz lacks data_batch_1, data_batch_2, "):
        read_archive(gzip.compress(bytes(10240), mtime=0), tmp_path)


def test_an_archive_with_a_batch_twice_is_refused(tmp_path: Path) -> None:
    """In two folders."""
    contents = {**cifar10_python(), "again/test_batch": batch_10()}
    with pytest.raises(ContainerError, match="contains test_batch twice"):
        read_archive(tar_gz(PY, contents), tmp_path)


def test_names_in_an_archive_lead_nowhere(tmp_path: Path) -> None:
    """Of a path only the last part counts; links, devices and folders are passed over."""
    contents = cifar10_python()
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, kind in (("data_batch_1", tarfile.SYMTYPE), ("test_batch", tarfile.DIRTYPE)):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "/etc/passwd"
            archive.addfile(member)
        for name, content in contents.items():
            member = tarfile.TarInfo(f"../../../{tmp_path}/escaped/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    assert len(read_archive(out.getvalue(), tmp_path / "in")) == 72
    assert not (tmp_path / "escaped").exists()
    found = {path.name for path in (tmp_path / "in/unpacked").iterdir() if path.is_file()}
    assert found == set(CIFAR10_BATCHES)


# What cannot be meant


def usage_error(given: SourceOptions, layout: str = "cifar10") -> str:
    with pytest.raises(UsageError) as caught:
        open_source(layout, given)
    return str(caught.value)


def test_a_folder_that_cannot_be_looked_into_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a bucket whose server does not answer."""

    def fail(uri: str) -> bool:
        raise OSError(f"no answer about {uri}")

    monkeypatch.setattr(files, "exists", fail)
    with pytest.raises(UsageError, match=r"^--images: no answer about gs://bucket/cifar/"):
        Cifar10().open(SourceOptions(("gs://bucket/cifar",)))


def test_an_archive_of_other_files_is_refused_before_the_job(tmp_path: Path) -> None:
    """Without the file of names."""
    archive = tmp_path / "x.tar.gz"
    archive.write_bytes(tar_gz(PY, {"readme.html": b""}))
    assert usage_error(SourceOptions(images=(str(archive),)), "cifar100") == (
        f"--images: {archive}, meta: no such file; download cifar-100-python.tar.gz"
    )


def test_a_folder_without_some_batches_is_refused_with_their_names(data: Path) -> None:
    """What is there can still be had by naming it."""
    for batch in ("data_batch_2", "data_batch_4", "data_batch_5", "test_batch"):
        (data / f"data/{PY}/{batch}").unlink()
    folder = f"{data}/data/{PY}"
    assert usage_error(SourceOptions(images=(folder,)), "auto") == (
        f"--images: {folder} lacks data_batch_2, data_batch_4, data_batch_5, test_batch of CIFAR-10's Python version; "
        "expected all of its files, or a folder with cifar-10-batches-py. Download it again, or name single files"
    )


@pytest.mark.parametrize(
    ("meta", "message"),
    [
        (b"", "no such file; download cifar-10-python.tar.gz"),
        (
            python2_pickle({b"num_vis": 3072}),
            "'label_names' is None, expected a list of 10",
        ),
        (
            python2_pickle({b"label_names": [b"cat"] * 10}),
            "1 different names, expected 10, one for each label",
        ),
        (
            python2_pickle({b"label_names": [b"\xff", *(str(i).encode() for i in range(9))]}),
            "9 different names, expected 10, one for each label",
        ),
        (pickle.dumps({"label_names": print}), "refuses builtins.print: "),
    ],
)
def test_names_that_are_none_are_refused(data: Path, meta: bytes, message: str) -> None:
    """The message names the file."""
    write_files(f"data/{PY}", {"batches.meta": meta})
    folder = f"{data}/data/{PY}"
    assert usage_error(SourceOptions(images=(folder,))).startswith(
        f"--images: {folder}, batches.meta: {message}"
    )


# The files themselves


def test_the_made_pickles_are_those_of_python_2() -> None:
    """The digest is of what cPickle of Python 2.7.18 with NumPy 1.16.6 made of the same values."""
    values = {
        b"data": UInt8Array(300, 3072, bytes(i % 256 for i in range(300 * 3072))),
        b"labels": [i % 10 for i in range(300)],
        b"batch_label": b"training batch 1 of 5",
        b"filenames": [b"x_s_%06d.png" % i for i in range(300)],
    }
    pickled = python2_pickle(values)
    digest = "c26b373897a204ffb138234b2414923c7e5a9121988ad569e861c5565ab92913"
    assert hashlib.sha256(pickled).hexdigest() == digest
    content = pickle.loads(pickled, encoding="bytes")
    assert content[b"data"].tobytes() == values[b"data"].data
    assert {key: value for key, value in content.items() if key != b"data"} == {
        key: value for key, value in values.items() if key != b"data"
    }


# Pickles of any Python, and none that could do harm


def refused(data: bytes) -> str:
    """Why a pickle is refused."""
    with pytest.raises(CifarError) as caught:
        read_pickled(io.BytesIO(data), Cifar10(), lambda _: None)
    return str(caught.value)


@pytest.mark.parametrize("protocol", [3, 4])
@pytest.mark.parametrize("texts", [str, str.encode])
@pytest.mark.parametrize("package", [b"numpy.core", b"numpy._core"])
def test_what_todays_python_pickles_is_read_too(protocol: int, texts: Any, package: bytes) -> None:
    """Texts as str or bytes, NumPy's old and new module names, and another array beside the pixels."""
    pixels = np.frombuffer(pixels_of(3) + pixels_of(4), np.uint8).reshape(2, 3072)
    content = {
        texts("data"): pixels,
        texts("labels"): [3, 4],
        texts("filenames"): [texts("a"), "b"],
        "more": pixels[:1],
    }
    data = pickle.dumps(content, protocol)
    if protocol == 3:  # whose names have no length
        data = data.replace(b"cnumpy._core.", b"c" + package + b".")
    copied: list[bytes] = []
    labels, filenames = read_pickled(io.BytesIO(data), Cifar10(), copied.append)
    assert b"".join(copied) == pixels.tobytes()
    assert (labels, filenames) == (([3, 4],), ["a", "b"])


@pytest.mark.parametrize(
    "name", [b"numpy\nndarray", b"numpy\ndtype", b"numpy.core.multiarray\n_reconstruct"]
)
def test_a_pickle_cannot_change_what_the_next_one_finds(name: bytes) -> None:
    """State is taken by what was made, and not by what makes it: here BUILD would set attributes."""
    attack = b"\x80\x02c" + name + b"\nN(X\x08\x00\x00\x00__init__K\x01d\x86b."
    assert refused(attack).startswith("not a pickle, or one that is cut short (TypeError ")
    assert "__setstate__" in refused(attack)
    copied: list[bytes] = []
    read_pickled(io.BytesIO(batch_10()), Cifar10(), copied.append)
    assert b"".join(copied) == TWO_IMAGES


@pytest.mark.parametrize(
    "name",
    [
        b"builtins\neval",
        b"__builtin__\neval",
        b"posix\nsystem",
        b"numpy\nload",
        b"numpy.core.multiarray\nscalar",
        b"numpy.core.multiarray\nndarray.tofile",
        b"copy_reg\n_reconstructor",
    ],
)
@pytest.mark.parametrize("opcodes", [b"\x80\x02c%b\n.", b"\x80\x02(i%b\n."])
def test_nothing_but_arrays_is_found(name: bytes, opcodes: bytes) -> None:
    """By GLOBAL or INST, whatever it is; the message names it."""
    named = name.decode().replace("\n", ".")
    assert refused(opcodes % name).startswith(f"refuses {named}: ")


# Pickles that crash a C unpickler or fill the memory


def test_a_key_of_nested_tuples_does_not_end_the_process() -> None:
    """A million of them; hashing the outermost one would overflow the C stack."""
    attack = b"\x80\x02}K\x00" + b"\x85" * 1_000_000 + b"K\x01s."
    assert refused(attack).startswith(
        "contains more than 64 tuples, expected a dict of lists and one"
    )


@pytest.mark.slow
def test_nested_lists_and_dicts_are_taken_apart_again() -> None:
    """A million of them are no batch, and no stack overflows when they are freed."""
    lists = b"\x80\x02" + b"]" * 1_000_000 + b"a" * 999_999 + b"."
    assert re.fullmatch(r"contains \[+\.\.\., expected a dict", refused(lists))
    nested = b"\x80\x02" + b"}K\x00" * 1_000_000 + b"}" + b"s" * 1_000_000 + b"."
    assert refused(nested).startswith("'data' is None, expected a NumPy array")


@pytest.mark.parametrize(
    "attack",
    [
        b"\x80\x02]r" + struct.pack("<I", 0x7FFFFFFF) + b".",
        b"\x80\x02]p2147483647\n.",
        b"\x80\x02T" + struct.pack("<i", 0x7FFFFFFF) + b"x.",
        b"\x80\x05\x8e" + struct.pack("<Q", 1 << 62) + b"x.",
        b"\x80\x05\x96" + struct.pack("<Q", 1 << 40) + b"x.",
        b"\x80\x05\x95" + struct.pack("<Q", 1 << 62) + b".",
        b"\x80\x02\x8b" + struct.pack("<i", 0x7FFFFFFF) + b"x.",
        b"L" + b"9" * 100_000 + b"L\n.",
    ],
    ids=["memo", "memo as text", "text", "bytes", "bytearray", "frame", "integer", "digits"],
)
def test_lengths_that_are_not_there_allocate_nothing(attack: bytes) -> None:
    """A few bytes that claim gigabytes: of the memo, of a text, of a frame, of an integer."""
    tracemalloc.start()
    try:
        refused(attack)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 10 << 20


def test_a_forged_type_does_not_reach_numpy() -> None:
    """NumPy would take the bytes for pointers to objects and crash; here the type is refused."""
    forged = pickle.dumps(
        {"data": np.zeros((2, 3072), np.dtype([("a", "u1")])), "labels": [0, 0]}, 4
    )
    assert refused(forged) == f"'data' is a NumPy array, {EXPECTED}"
    objects = pickle.dumps({"data": np.full((2, 3072), None), "labels": [0, 0]}, 4)
    assert refused(objects) == f"'data' is a NumPy array, {EXPECTED}"


def test_a_file_larger_than_any_batch_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before it is unpickled, so that a wrong file does not fill the memory."""
    monkeypatch.setattr("beam_pipeline.layouts.cifar._MAX_FILE_BYTES", 5 << 20)
    images = 2000
    content = {
        "labels": [0] * images,
        "filenames": [b"x.png"] * images,
        "data": UInt8Array(images, 3072, bytes(images * 3072)),
    }
    assert refused(batch_10(**content)).startswith("more than 5 MiB, expected a file of CIFAR's")
