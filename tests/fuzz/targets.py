"""What is fuzzed: each reader of bytes that may come from anybody, the inputs to start from, the errors it may raise.

A reader of a new format gets a line in `TARGETS`.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import itertools
import json
import os
import re
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from google.protobuf.message import DecodeError
from PIL import Image

from beam_pipeline.core.archives import ArchiveError, Entry, content, tar_entries, zip_entries
from beam_pipeline.core.dataset import manifest, receipts
from beam_pipeline.core.errors import ConversionError, UsageError
from beam_pipeline.core.images import masks, preparation
from beam_pipeline.core.images.header import BadImageError, ImageHeader
from beam_pipeline.core.labels import cells, classes, mask_colours, schema, table_files, table_rows
from beam_pipeline.core.labels.name_pattern import name_pattern
from beam_pipeline.core.listing import filters, inventory
from beam_pipeline.core.records import example_view, tfrecord, wire
from beam_pipeline.core.records.sharding import ShardSpec
from beam_pipeline.core.records.webdataset import example_of
from beam_pipeline.core.references import SampleRef, named_files
from beam_pipeline.core.report.thumbnails import small_image
from beam_pipeline.inspection import select, sources
from beam_pipeline.layouts import cifar, coco, coco_file, yolo, yolo_data_set
from beam_pipeline.layouts.coco_tasks import Captions, Classes, Instances, Panoptic, Task
from beam_pipeline.layouts.label_files import BadLabelError
from beam_pipeline.layouts.layout import ContainerLabels, SourceOptions
from beam_pipeline.layouts.named_files import CellFiles
from beam_pipeline.layouts.webdataset import WebDataset
from tests.archives import make_tar, tar_bytes, zip_bytes
from tests.conformance.outcome import config_of
from tests.layouts.proofs import FILE_LABELS, label_files, opened
from tests.pictures import picture

MOST_SECONDS = 5.0
"""A reader that takes more CPU time for 64 KiB hangs."""


@dataclass(frozen=True)
class Target:
    """A reader.

    Attributes:
      read: reads bytes to their end; asserts what must hold of the result.
      seeds: inputs that it can read.
      errors: what it may raise.
      words: pieces that mean something to it.
    """

    read: Callable[[bytes], object]
    seeds: Sequence[bytes]
    errors: tuple[type[Exception], ...] = (ConversionError,)
    words: Sequence[bytes] = ()


def _seed(name: str) -> bytes:
    return Path(__file__).with_name("seeds").joinpath(name).read_bytes()


MANIFEST, RECEIPT = _seed("manifest.json"), _seed("receipt.json")
_SAMPLE, _YAML = _seed("sample.json"), _seed("data.yaml")


# --- images -------------------------------------------------------------------------------------


def _pictures() -> list[bytes]:
    kinds = [("JPEG", "RGB"), ("JPEG", "L"), ("PNG", "RGB"), ("PNG", "P"), ("PNG", "RGBA")]
    kinds += [("GIF", "P"), ("BMP", "RGB"), ("BMP", "L"), ("WEBP", "RGB")]
    return [picture(3, file_format=kind, mode=mode, size=(19, 13)) for kind, mode in kinds]


def _header(data: bytes) -> None:
    """The header's size is Pillow's, where both can read the file."""
    header = preparation.read_header(data)
    assert 0 < header.height < 1 << 31
    assert 0 < header.width < 1 << 31
    if header.height * header.width > 1 << 20:  # Pillow would fill an APNG's canvas
        return
    try:
        with Image.open(io.BytesIO(data)) as opened:
            found = opened.size
    except Exception:
        return
    if header.format != "gif":  # Pillow adds the first frame's offset
        assert found == (header.width, header.height)


def _pixels(data: bytes) -> None:
    """Every pixel is decoded; large ones would take longer than a mutation is worth."""
    header = preparation.read_header(data)
    if header.height * header.width <= 1 << 20:
        preparation.decode_fully(data)


# --- records ------------------------------------------------------------------------------------


def _framed(payloads: Iterable[bytes]) -> bytes:
    import google_crc32c

    return b"".join(
        tfrecord.frame_header(len(data)) + data + tfrecord.frame_footer(google_crc32c.value(data))
        for data in payloads
    )


def _examples() -> list[bytes]:
    return [
        wire.encode_example(
            {
                "image/encoded": ("bytes", [bytes([number]) * 40]),
                "image/class/label": ("int64", [number]),
                "image/class/text": ("bytes", [b"cat"]),
                "score": ("float", [0.5, -1.0]),
            }
        )
        for number in range(3)
    ]


def _shard(data: bytes) -> None:
    spec = ShardSpec(split="train", number=0, of=1, file_name="d-train.tfrecord-00000-of-00001")
    for _ in example_view.read_shard(
        io.BytesIO(data), "f", spec, tfrecord.TFRecordFormat(), "image/class/label"
    ):
        pass


def _framed_example(data: bytes) -> None:
    """An example in a sound frame, so that the message's own reader sees it."""
    _shard(_framed([data]))


def _encoder(data: bytes) -> None:
    """What the encoder writes of any values, protobuf reads as the same values."""
    number = int.from_bytes(data[:8].ljust(8, b"\0"), "little", signed=True)
    numbers = [number >> shift for shift in range(0, 64, 9)]
    words = data[8:].split(b"\0")
    encoded = wire.encode_example({"a": ("int64", numbers), "b/\u732b": ("bytes", words)})
    found = example_view.Example.FromString(encoded).features.feature
    assert list(found["a"].int64_list.value) == numbers
    assert list(found["b/\u732b"].bytes_list.value) == words


# --- the data set's own files -------------------------------------------------------------------


def _receipt(data: bytes) -> None:
    """Both what is spoilt and what is spoilt and then compressed, which reaches further."""
    if not data.startswith(b"\x1f\x8b"):
        data = gzip.compress(data, 1)
    receipts.parse_receipt(data, "r")


# --- tables -------------------------------------------------------------------------------------

_CSV = 'filename,label,score,xmin\n"a ""b"".jpg",cat,0.5,1\nb.jpg,\u732b,"1,5",2\n\nc.jpg,dog,-3,\n'
_JSONL = '{"file_name": "a.jpg", "label": 1, "boxes": [[1, 2, 3, 4]]}\n{"file_name": "\\ud83d"}\n'


def _json_cell(data: bytes) -> None:
    """Its text is JSON in UTF-8, which stays as it is when it is read again."""
    text = cells.json_text(data.decode("utf-8", "surrogateescape"))
    assert text is None or cells.json_text(text.encode().decode()) == text


def _table(name: str) -> Callable[[bytes], None]:
    def read(data: bytes) -> None:
        head = table_rows.TableHead(name, data[:4096], len(data) <= 4096)
        table = table_files.inspect_file(head)
        table_rows.head_rows(head, table)
        for _ in (
            *table_rows.read_lines(data, table),
            *table_rows.read_chunks(io.BytesIO(data), table),
        ):
            pass

    return read


def _parquet_file() -> list[bytes]:
    import pyarrow
    from pyarrow import parquet

    columns = {"file": ["a.jpg", None], "n": [1, 2], "boxes": [[1.0, 2.0], []], "b": [b"\xff", b""]}
    files = []
    for compression in ("none", "snappy"):
        out = io.BytesIO()
        parquet.write_table(pyarrow.table(columns), out, compression=compression)
        files.append(out.getvalue())
    return files


_ENDS_THE_PROCESS = ("histogram size mismatch", "Unencoded byte array data bytes")


def _parquet(data: bytes) -> None:
    """Reads a file, unless PyArrow (25) would end the process when asked for a column's size.

    Its `RowGroupMetaData.column` does not catch what `read_row_group` raises of spoilt statistics.
    """
    import pyarrow
    from pyarrow import parquet

    try:
        opened = parquet.ParquetFile(io.BytesIO(data))
    except (pyarrow.ArrowException, OSError, ValueError):
        opened = None
    for index in range(opened.metadata.num_columns if opened and opened.num_row_groups else 0):
        try:
            opened.reader.read_row_groups([0], [index], False)
        except (pyarrow.ArrowException, OSError, ValueError) as error:
            if any(text in str(error) for text in _ENDS_THE_PROCESS):
                return
    for _ in table_rows.read_chunks(
        io.BytesIO(data), table_rows.LabelTable("f", table_rows.Format.PARQUET)
    ):
        pass


def _all(read: Callable[[io.BytesIO, str], Iterable[object]]) -> Callable[[bytes], None]:
    """A reader that yields rows, as one that reads all."""

    def read_all(data: bytes) -> None:
        for _ in read(io.BytesIO(data), "f"):
            pass

    return read_all


_KINDS: dict[str, Any] = {}


def _pattern(data: bytes) -> None:
    """A pattern and a name that it is tried on, divided by a zero byte."""
    text, _, name = data.decode("latin-1").partition("\0")
    made = name_pattern(text[:100], _KINDS)
    re.compile(made.pattern).search(name[:20])


# --- annotations --------------------------------------------------------------------------------

_YOLO = b"0 0.5 0.5 0.25 0.125\n1 0.1 0.1 0.2 0.2\n"
_YOLO_OUTLINE = b"0 0.1 0.1 0.9 0.1 0.5 0.9\n3 0 0 1 0 1 1 0 1\n"


def _read_coco(data: bytes, task: Task) -> None:
    reader = coco_file.CocoReader(task)
    for _ in reader.read(io.BytesIO(data), "f"):
        pass


def _coco(data: bytes) -> None:
    keypoints = coco_file.describe(io.BytesIO(data), "f").keypoints
    for task in (Instances(), Instances(coco.LVIS_COLUMNS, masks=True, keypoints=keypoints)):
        _read_coco(data, task)


def _coco_classes(data: bytes) -> None:
    coco_file.describe(io.BytesIO(data), "f", with_fields=True)
    fields = (schema.group_column("place"), schema.further_column("hour", schema.ColumnKind.FLOAT))
    _read_coco(data, Classes(fields, all_images=False))
    _read_coco(data, Classes(fields, several=True))


def _mask(data: bytes) -> None:
    """A shape of COCO, as an annotation has it and as a label holds it, drawn on a small image."""
    try:
        shape = json.loads(data)
    except (ValueError, RecursionError):
        return
    masks.check_shape(shape)
    header = ImageHeader("jpeg", 13, 19, 3)
    drawn = masks.mask_png(json.dumps(shape), header, pixels=True)
    with Image.open(io.BytesIO(drawn)) as opened:
        assert opened.size == (19, 13)


def _yolo(data: bytes) -> None:
    yolo.line_lengths(data)
    for task in (yolo.DETECT, yolo.SEGMENT, yolo.POSE, yolo.OBB):
        line_format = yolo.LineFormat(
            task, {0: "cat"}, keypoints=2 if task == yolo.POSE else 0, masks=task == yolo.SEGMENT
        )
        try:
            line_format.parse(data, "f")
        except BadLabelError:
            pass


def _with_file(suffix: str, read: Callable[[str], object]) -> Callable[[bytes], None]:
    """A reader of a path, as one of bytes."""

    def read_bytes(data: bytes) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, f"d{suffix}")
            with open(path, "wb") as file:
                file.write(data)
            read(path)

    return read_bytes


@dataclass(frozen=True)
class LabelFiles:
    """The label files of a proof: spoilt, workers read them; one in eight is also opened before, as a job does."""

    name: str
    errors = (ConversionError,)
    words = (
        *(
            b"null",
            b"[]",
            b"{}",
            b"NaN",
            b"1e308",
            b"-1e308",
            b'"\\ud83d"',
            b"[" * 3000,
            b'"points":',
        ),
        *(b'"', b"\r", b"\0", b",,", b"<!DOCTYPE a [<!ENTITY b 'c'>]>", b"&b;", b'rotation="90"'),
    )

    @cached_property
    def uris(self) -> list[str]:
        """Those of the first samples."""
        return label_files(opened(self.name).source, 5)[:5]

    @cached_property
    def seeds(self) -> list[bytes]:
        return [Path(uri).read_bytes() for uri in self.uris]

    def read(self, data: bytes) -> None:
        folder, argv, source = opened(self.name)
        if len(data) % 8 == 0:
            Path(self.uris[0]).write_bytes(data)
            try:
                with pytest.MonkeyPatch.context() as patch:
                    patch.chdir(folder)
                    with contextlib.redirect_stderr(io.StringIO()):
                        config_of(argv)
            finally:
                Path(self.uris[0]).write_bytes(self.seeds[0])
        for _ in source.labels.reader.read(io.BytesIO(data), self.uris[0]):
            pass


# --- archives -----------------------------------------------------------------------------------


def _pickles() -> list[bytes]:
    from tests.layouts.make_cifar10 import cifar10_python

    return [data for name, data in cifar10_python(1).items() if "_batch" in name]


def _meta() -> bytes:
    from tests.layouts.make_cifar10 import cifar10_python

    (meta,) = [data for name, data in cifar10_python(1).items() if name.endswith(".meta")]
    return meta


def _pickle(data: bytes) -> None:
    cifar.read_pickled(io.BytesIO(data), cifar.Cifar10(), lambda _: None)


def _cifar_names(data: bytes) -> None:
    cifar.Cifar10().meanings(data)


def _tar() -> list[bytes]:
    names = ("x/data_batch_1.bin", "x/" + "n" * 90 + "/test_batch.bin")
    formats = (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT)
    return [tar_bytes(dict.fromkeys(names, b"0123456789"), of) for of in formats]


def _tar_of_long_attribute() -> bytes:
    """One whose attribute of a member says that it is longer than any memory."""
    return re.sub(rb"\d+ path=", b"19223372036854775807 path=", _tar()[1], count=1)


def _archive(data: bytes) -> None:
    """Both what is spoilt and what is spoilt and then compressed, which reaches further."""
    if not data.startswith(b"\x1f\x8b"):
        data = gzip.compress(data, 1)
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        with cifar.opened(file.name, True) as inside:
            for _, content in inside:
                content.read(1 << 20)


def _sample(data: bytes) -> None:
    """JSON of a sample, in files of its own and of a column: each sample is a reference or a dead letter."""
    image = _pictures()[2]
    files = {"a.png": image, "a.right.png": image, "a.json": data, "a.talk.json": data}
    with tempfile.TemporaryDirectory() as folder:
        tar = f"{folder}/a.tar"
        make_tar(Path(tar), {**files, "b.png": image, "b.right.png": image, "b.cls": b"1"})
        reader = WebDataset().open(SourceOptions(images=(tar,), columns={"talk": "json"})).labels
        assert isinstance(reader, ContainerLabels)
        assert len(list(reader.reader.read(tar, ""))) == 2


def _dumped(value: Any) -> bytes:
    return json.dumps(value).encode()


def _zip() -> list[bytes]:
    members = {"cat/1.jpg": b"0123456789" * 20, "dog/猫.jpg": b""}
    return [zip_bytes(members, of) for of in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)]


def _members_of(entries: Callable[[BinaryIO], Iterable[Entry]]) -> Callable[[bytes], None]:
    """Lists an archive and reads each member as a job does; none is longer than it was listed."""

    def read(data: bytes) -> None:
        for entry in itertools.islice(entries(io.BytesIO(data)), 100):
            assert bool(entry.problem) == (entry.member is None)
            if entry.member is None or entry.size > 1 << 20:
                continue
            packed = data[entry.member.at : entry.member.at + entry.member.length]
            try:
                assert len(content(entry.member, packed, entry.size)) == entry.size
            except OSError:
                continue

    return read


# --- masks --------------------------------------------------------------------------------------

_IMAGE = ImageHeader("jpeg", 13, 19, 3)
_SEGMENTS = ((0, 1, 0), (9, 2, 0), (70_000, 3, 1))


def _panoptic_mask(data: bytes) -> None:
    for mask in masks.panoptic_pngs(data, _SEGMENTS, _IMAGE, check=preparation.read_header):
        assert preparation.read_header(mask).width == _IMAGE.width


def _segmentation_mask(data: bytes) -> None:
    for bits in (8, 16):
        for colours in (None, {(0, 0, 0): 0, (255, 0, 0): 1}):
            try:
                mask = masks.segmentation_png(
                    data, _IMAGE, bits=bits, check=preparation.read_header, colours=colours
                )
            except BadImageError:
                continue
            assert preparation.read_header(mask).width == _IMAGE.width


def _segments_png() -> list[bytes]:
    out = io.BytesIO()
    mask = Image.new("RGB", (_IMAGE.width, _IMAGE.height), (9, 0, 0))
    mask.putpixel((3, 2), (0, 0, 0))
    mask.save(out, "PNG")
    return [out.getvalue()]


def _masks() -> list[bytes]:
    modes = ("L", "P", "RGB", "RGBA", "1", "I;16")
    return [picture(1, file_format="PNG", mode=mode, size=(19, 13)) for mode in modes]


def _file_of_cell(data: bytes) -> None:
    """Whatever a cell names, no file outside of the folder is found."""
    name = data.decode(errors="surrogateescape")
    with tempfile.TemporaryDirectory() as folder:
        inside = os.path.realpath(f"{folder}/in")
        os.makedirs(f"{inside}/a")
        for path in (f"{inside}/a/b.png", f"{folder}/out.png"):
            open(path, "wb").close()
        sample = SampleRef("1.png", f"{inside}/1.png", 1, "train", (name, (name, name)))
        columns = [schema.further_column("file", schema.ColumnKind.FILE)] * 2
        located, letters = CellFiles(columns, [filters.ImageRoot(inside)]).locate([sample])
        assert len(located) + len(letters) == 1
        for of_sample in located:
            for label in of_sample.labels:
                for uri, *_ in named_files(label):
                    assert os.path.realpath(uri).startswith(f"{inside}/"), uri


_FILES = {"png": b"i", "views.0.png": b"v", "views.1.png": b"w", "talk.json": b"[]"}
TARGETS: dict[str, Target] = {
    "path in a cell": Target(
        _file_of_cell,
        [b"a/b.png", b"../out.png", b"/etc/hostname", b"..\\out.png", b"file://a/b.png"],
        words=(b"../", b"\\", b"gs://", b"/./", b"//"),
    ),
    "files of a sample": Target(
        lambda data: example_of({**_FILES, "json": data}, "a sample"),
        [_SAMPLE],
        words=(b'{"file":', b"null", b"[]", b"[{", b'"talk.json"'),
    ),
    "WebDataset sample": Target(
        _sample,
        [_SAMPLE, b'{"n": 1.5, "tags": ["a"], "split": "val", "right": {}}'],
        words=(
            b'{"file":',
            b"null",
            b"[]",
            b'"image/encoded": {',
            b'"image/class/text":',
            b"1e999",
        ),
    ),
    "image header": Target(_header, _pictures(), (BadImageError,)),
    "image pixels": Target(_pixels, _pictures(), (BadImageError,)),
    "TFRecord": Target(_all(tfrecord.read_records), [_framed(_examples())]),
    "TFRecord examples": Target(_shard, [_framed(_examples())]),
    "any TFRecord": Target(
        _all(sources.records_of),
        [
            _framed(_examples()),
            gzip.compress(_framed(_examples()), 1),
        ],
    ),
    "where-expression": Target(
        lambda data: select.parse_conditions(data.decode(errors="replace")),
        [b"image/width<200 and 'a b' != \"c\""],
        words=(b" and ", b"'", b"<=", b"=="),
    ),
    "picture for a terminal": Target(lambda data: small_image(data, 24), _pictures(), ()),
    "example": Target(_framed_example, _examples(), (ConversionError, DecodeError)),
    "wire format": Target(_encoder, [b"\1" * 20, b"\xff" * 9 + b"\0a\0"], ()),
    "TFRecord index": Target(
        lambda data: tfrecord.index_file([*tfrecord.TFRecordFormat().sizes(io.BytesIO(data), "f")]),
        [_framed(_examples())],
    ),
    "manifest": Target(
        lambda data: manifest.parse_manifest(data, "m"),
        [MANIFEST],
        words=(b"null", b"[]", b'"../x"', b"true", b'{"a":'),
    ),
    "receipt": Target(
        _receipt, [RECEIPT, gzip.compress(RECEIPT, 1)], words=(b"null", b"[[", b'"../x"', b"{}")
    ),
    "CSV": Target(
        _table("t.csv"), [_CSV.encode(), _CSV.encode("utf-16")], words=(b'"', b"\r", b"\0")
    ),
    "JSON Lines": Target(
        _table("t.jsonl"),
        [_JSONL.encode(), _seed("talks.jsonl")],
        words=(b"[" * 3000, b"null", b"\\u", b'"images":', b'"messages": ['),
    ),
    "JSON in a cell": Target(
        _json_cell,
        [b' [{"from": "human", "value": "<image> \xc3\xa9"}, 1.5e3]', b"{}", b"NaN"],
        (cells.BadCellError,),
        words=(b"[" * 3000, b"null", b"\\ud83d", b"e999"),
    ),
    "array of JSON": Target(
        _table("t.json"),
        [f"[{_JSONL}]".replace("}\n{", "},\n{").encode()],
        words=(b"[" * 3000, b"null"),
    ),
    "Parquet": Target(_parquet, _parquet_file()),
    "inventory": Target(
        _all(inventory.read_inventory),
        [b"uri,size\n/a.jpg,3\ngs://b/c.jpg,0\n", gzip.compress(b"uri,size\n/a.jpg,3\n")],
    ),
    "COCO": Target(_coco, [_seed("coco.json")], words=(b"null", b"[]", b'"id":', b"[" * 3000)),
    "COCO classes": Target(_coco_classes, [_seed("coco_classes.json")], words=(b"null", b'"id":')),
    "COCO captions": Target(
        lambda data: _read_coco(data, Captions()),
        [_seed("coco_captions.json")],
        words=(b"null", b"{}"),
    ),
    "COCO masks": Target(
        _mask,
        [
            _dumped([[1, 1, 4, 1, 4, 4.5]]),
            _dumped({"size": [13, 19], "counts": "53_7"}),
            _dumped({"size": [13, 19], "counts": [5, 3, 239]}),
        ],
        (masks.BadShapeError,),
        (b"[]", b"null", b"1e308", b"-5"),
    ),
    "YOLO labels": Target(_yolo, [_YOLO, _YOLO_OUTLINE], ()),
    "data.yaml": Target(
        _with_file(".yaml", yolo_data_set.read_description),
        [_YAML],
        (UsageError,),
        (b"&a [*a]", b"!!python/object:os.system", b"<<: *a", b"? ", b"- " * 500, b"{" * 500),
    ),
    "YOLO class file": Target(
        _with_file(".names", yolo_data_set.read_class_file), [b"cat\ndog\n", _YAML], (UsageError,)
    ),
    "class list": Target(
        lambda data: classes.parse_class_list(data, "f", 0), [b"cat\n\xe7\x8c\xab\ndog\n"]
    ),
    "class manifest": Target(lambda data: classes.parse_class_manifest(data, "f"), [MANIFEST]),
    "label pattern": Target(
        _pattern,
        [b"(?P<label>[a-z]+)_(?P<split>train|test)\0cat_train", b"^(?P<label>.*?)-\\d+$\0dog-12"],
        (re.error, OverflowError, RecursionError),
        (b"(?P<", b"{2,}", b"\\1"),
    ),
    "CIFAR pickles": Target(_pickle, _pickles(), (cifar.CifarError,)),
    "CIFAR names": Target(_cifar_names, [_meta()], (cifar.CifarError,)),
    "tar archive": Target(_members_of(tar_entries), _tar(), (ArchiveError,)),
    "zip archive": Target(
        _members_of(zip_entries), _zip(), (ArchiveError,), (b"PK\5\6", b"PK\1\2")
    ),
    "COCO panoptic": Target(
        lambda data: _read_coco(data, Panoptic(masks={"f": os.path.dirname(__file__)})),
        [_seed("coco_panoptic.json")],
        words=(b"null", b"[]", b'"id":', b"[" * 3000),
    ),
    "panoptic mask": Target(_panoptic_mask, _segments_png(), (BadImageError,)),
    "segmentation mask": Target(_segmentation_mask, _masks(), (BadImageError,)),
    "mask colours": Target(
        lambda data: mask_colours.parse_mask_colours(data, "f"),
        [
            b"# label:color_rgb:parts:actions\ncat:128,0,0::\ndog:0,128,0::\n",
            b"64 128 64\tAnimal\n",
        ],
        (UsageError,),
    ),
    "tar members": Target(_archive, [*_tar(), gzip.compress(_tar()[0], 1)]),
    **{name: LabelFiles(name) for name in FILE_LABELS},
}

KEPT: dict[str, list[bytes]] = {
    "WebDataset sample": [b'{"image/encoded": {"file": "png"}, "label/n": [null, 1e999]}'],
    "labelme": [
        b'{"shapes": [{"label": "a", "points": [], "shape_type": {}}]}',
        b'{"shapes": [{"label": "a", "points": [[1, 2], [3, 4]], "shape_type": "rectangle", "flags": {"b": 1e999}}]}',
    ],
    "via": [b'{"a": {"filename": "a", "regions": [{"shape_attributes": {"name": {}}}]}}'],
    "COCO": [b'{"images": [], "annotations": [{"id": 1e99999999999999999999}]}'],
    "COCO captions": [
        b'{"images": [{"id": 1, "file_name": "a", "width": 1e99999999999999999999}]}'
    ],
    "COCO masks": [b'{"size": [-13, -19], "counts": "53_7"}'],
    "labelbox": [b'{"data_row": {"row_data": "https://h[]/a.jpg"}}'],
    "inventory": [b"uri,size\0\n/a.jpg,3\n"],
    "class manifest": [MANIFEST.replace(b'"id": 0', b'"id": 1e400')],
    "mask colours": [b"cat:128\0,0,0::\n", b"a" * 140_000 + b",0,0,0\n"],
    "tar archive": [_tar_of_long_attribute()],
    "tar members": [_tar_of_long_attribute()],
}
"""Target -> inputs that once ended in another error."""
