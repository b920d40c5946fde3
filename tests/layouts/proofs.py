"""What is proven of each layout and each way to label samples, on a row of tests/conformance.

A row says what a conversion makes of small data. Here each has a parser of these tests, what spoils its files, and
files of any length. A layout of the registry or a form of tables without a proof fails tests/layouts/test_proofs.py.
"""

from __future__ import annotations

import functools
import io
import itertools
import json
import os
import re
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from beam_pipeline.core import dead_letters, packing, references
from beam_pipeline.layouts.layout import ContainerLabels, FileLabels, ListedLabels, Source
from beam_pipeline.storage.listing import list_local_root
from tests.conformance import groups, outcome
from tests.harness import read_shard, shard_names
from tests.layouts import parsers

Samples = dict[str, tuple[str | None, dict[str, Any]]]


class Proof(NamedTuple):
    """A kind of data set.

    Attributes:
      row: group and name of its row.
      parse: reads its samples, in the folder that the row writes.
    """

    row: str
    parse: parsers.Parser


PROOFS: Mapping[str, Proof] = {
    "file_names": Proof(
        "pages/official_lists_16", parsers.folders(r"(?P<label>\w+)\..*", "dogs-vs-cats/train")
    ),
    "cifar10": Proof(
        "pages/class_folders_7",
        parsers.cifar("cifar-10-batches-py", [""], train="data_batch_1", test="test_batch"),
    ),
    "cifar100": Proof(
        "pages/class_folders_6",
        parsers.cifar("cifar-100-python", ["fine_", "coarse_"], train="train", test="test"),
    ),
    "webdataset": Proof("samples/images_of_webdataset", parsers.webdataset),
    "parquet": Proof("pages/hugging_face_4", parsers.parquet),
    "labelme": Proof("layouts/labelme_values", parsers.labelme),
    "supervisely": Proof("layouts/supervisely_values", parsers.supervisely),
    "cvat": Proof("layouts/cvat_values", parsers.cvat),
    "via": Proof("layouts/via_values", parsers.via("via/via_project.json", "colour", "night")),
    "via_json": Proof("layouts/via_json", parsers.via("set/via_region_data.json")),
    "via_csv": Proof("layouts/via_csv", parsers.via("set/via_region_data.csv")),
    "kitti": Proof("golden/kitti", parsers.kitti),
    "voc": Proof("golden/voc", parsers.voc),
    "label_studio": Proof("pages/label_tools_1", parsers.label_studio),
    "labelbox": Proof("layouts/labelbox_values", parsers.labelbox),
    "ultralytics": Proof(
        "pages/label_tools_4", parsers.ultralytics("ultralytics/shapes.ndjson", "boxes", "images/")
    ),
    "ultralytics_obb": Proof("layouts/ultralytics_obb", parsers.ultralytics("set/s.ndjson", "obb")),
    "ultralytics_pose": Proof(
        "layouts/ultralytics_pose", parsers.ultralytics("set/s.ndjson", "pose")
    ),
    "ultralytics_segment": Proof(
        "layouts/ultralytics_segment", parsers.ultralytics("set/s.ndjson", "segments")
    ),
    "hasty": Proof("layouts/hasty_values", parsers.hasty),
    "datumaro": Proof("layouts/datumaro_values", parsers.datumaro),
    "coco_panoptic": Proof("pages/coco_9", parsers.panoptic),
    "coco": Proof("golden/coco", parsers.coco),
    "yolo": Proof("pages/yolo_voc_kitti_1", parsers.yolo),
    "pairs": Proof(
        "pages/files_in_cells_2",
        parsers.pairs("stereo", "image_2/*.png", "image_3/*.png", "depth/*.png"),
    ),
    "pairs_of_scenes": Proof(
        "samples/pairs_of_scenes", parsers.pairs("scenes", "*/im0.png", "*/im1.png", "*/calib.txt")
    ),
    "masks": Proof("pages/segmentation_1", parsers.masks),
    "imagefolder": Proof("golden/imagefolder", parsers.imagefolder),
    "caption_files": Proof("pages/captions_3", parsers.caption_files),
    "automl": Proof("golden/automl", parsers.automl),
    "table": Proof("pages/tables_6", parsers.boxes),
    "class_folders": Proof(
        "pages/class_folders_2", parsers.folders("(?P<split>[^/]+)/(?P<label>[^/]+)/.*", "cars")
    ),
    "conversations": Proof("samples/conversations", parsers.conversations),
    "json_lines": Proof("samples/json_lines", parsers.json_lines),
    "several_images": Proof("samples/several_images_in_each_by_id", parsers.conversations),
    "messages": Proof("pages/conversations_2", parsers.messages),
    "file_columns": Proof("samples/file_columns", parsers.file_columns),
    "json_cells": Proof("samples/json_cells", parsers.json_cells),
    "rows": Proof("samples/captions", parsers.captions),
    "crops": Proof("samples/crops", parsers.crops),
    "studies": Proof("samples/studies_of_a_patient", parsers.studies),
    "captions": Proof("layouts/table_of_captions", parsers.numbered_captions),
    "lines_of_boxes": Proof("layouts/lines_of_boxes", parsers.lines_of_boxes),
    "table_of_parquet": Proof("layouts/table_of_parquet", parsers.table_of_parquet),
    "roboflow": Proof("pages/label_tools_11", parsers.roboflow),
    "roboflow_classes": Proof("pages/label_tools_12", parsers.roboflow_classes),
    "open_images": Proof("pages/label_tools_13", parsers.open_images),
    "gtsrb": Proof("pages/label_tools_14", parsers.gtsrb),
    "list_of_names": Proof("pages/official_lists_2", parsers.lists("dtd/labels/{}1.txt")),
    "list_of_numbers": Proof("pages/official_lists_6", parsers.lists("places365_{}*.txt")),
}

FILE_LABELS = tuple(
    name
    for name in PROOFS
    if name not in ("class_folders", "file_names", "cifar10", "cifar100", "parquet", "webdataset")
    and not name.startswith(("pairs", "masks"))
)
"""Those with files of labels, to be read by workers; others have archives, or files of each image that are labels."""


class Opened(NamedTuple):
    """The data set of a proof: its folder, the options, and the source that they name."""

    folder: str
    argv: list[str]
    source: Source


def prepared(name: str) -> list[str]:
    """Writes a proof's data set into the working folder, and returns its options."""
    group, _, row = PROOFS[name].row.partition("/")
    return groups.GROUPS[group][row].prepared()


@functools.cache
def opened(name: str) -> Opened:
    """Writes a proof's data set into a new folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tempfile.mkdtemp())
        argv = prepared(name)
        return Opened(os.getcwd(), argv, outcome.config_of(argv).source)


# --- what they contain ----------------------------------------------------------------------------

_OF_EVERY_IMAGE = "encoded|format|height|width|channels|colorspace|filename|source_id|class/label"
_OF_IMAGES = re.compile(
    rf"image/({_OF_EVERY_IMAGE}|(object|panoptic)/((ignore/)?bbox/.*|class/.*|\w*mask))"
    r"|(?!label/|image/object/).*/(format|height|width|channels)"
)


def expected_samples(parsed: Iterable[parsers.Sample]) -> Samples:
    """Key -> split and values, without those that are empty."""
    return {key: (split, _plain(values)) for key, split, values in parsed}


def written(output: str, parsed: Samples) -> Samples:
    """The same of a data set, as TensorFlow reads it; without what no parser tells.

    These are the features of images, ids of classes, masks of objects, and splits that a hash decides.
    """
    samples: Samples = {}
    for shard in shard_names(output):
        split = shard.partition(".")[0].rpartition("-")[2]
        for features in read_shard(output, shard):
            kind = "panoptic" if "image/panoptic/id" in features else "object"
            names = features.get(f"image/{kind}/class/text", [])
            sides = [features.get(f"image/{kind}/bbox/{side}", []) for side in parsers.SIDES]
            size = features.get("image/width", [0]) + features.get("image/height", [0])
            values = {n: value for n, value in features.items() if not _OF_IMAGES.fullmatch(n)}
            corners = (
                [v * size[i % 2] for i, v in enumerate(box)] for box in zip(*sides, strict=True)
            )
            values[parsers.OBJECTS] = [
                (label, *box) for label, box in zip(names, corners, strict=bool(names))
            ]
            key = features["image/source_id"][0].decode()
            is_told = parsed.get(key, ("",))[0] is not None
            samples[key] = (split if is_told else None, _plain(values))
    return samples


def _plain(value: Any) -> Any:
    """A value for comparison: floats rounded, as those of examples have 32 bits, bytes as text, nothing empty."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items() if each}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, str):
        return value.encode().decode("latin-1")
    return round(float(value) + 3e-6, 3)


# --- bad files ------------------------------------------------------------------------------------


_SPOILT = {
    "gone": None,
    "empty": b"",
    "text": b"no image",
    "cut": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0",
}
_PICTURES = (".jpg", ".png", ".ppm", ".bmp")


class Fault(NamedTuple):
    """What is wrong with a sample, and its dead letter, as a line of faults.txt has it.

    Attributes:
      proof: whose data set.
      number: of those of the same sample.
      key: of the sample, or a part of it.
      anchor: a text in the file, or in its path, before the place.
      line, reason, message: of the dead letter; a line is `-` where no file is named.
      old, new: texts there, several divided by ` & `; or a file and what it becomes.
    """

    proof: str
    number: int
    key: str
    anchor: str
    line: str
    old: str
    new: str
    message: str
    reason: str = "bad_label_value"

    def is_of(self, key: str) -> bool:
        """True for the key of its sample."""
        return re.fullmatch(f"(.*[/:])?{re.escape(self.key)}", key) is not None

    def spoil(self) -> str:
        """Spoils a file in the working folder, and returns the path that the dead letter names."""
        if os.path.exists(self.old) or self.new.startswith("stereo/"):
            data = Path(self.new).read_bytes() if os.path.isfile(self.new) else _SPOILT[self.new]
            Path(self.old).unlink() if data is None else Path(self.old).write_bytes(data)
            return self.old
        old, new = ([part.encode() for part in text.split(" & ")] for text in (self.old, self.new))
        for path in _files_of(self.proof):
            data = path.read_bytes()
            at = 0 if self.anchor in str(path) else data.find(self.anchor.encode())
            if 0 <= at <= data.find(old[0], at):
                for pair in zip(old, new, strict=True):
                    data = data[:at] + data[at:].replace(*pair, 1)
                path.write_bytes(data)
                return self.new if self.reason == "missing_file" else str(path)
        raise AssertionError(f"{self} is nowhere")


def _files_of(name: str) -> list[Path]:
    """The files of a proof that are no pictures, relative to its folder; those of labels first."""
    folder, _, source = opened(name)
    places = [Path(os.path.relpath(uri, folder)) for uri in reversed(source.uris)]
    files = [path for place in places for path in (place, *sorted(place.rglob("*")))]
    return [path for path in files if path.is_file() and path.suffix not in _PICTURES]


def _faults() -> Iterator[Fault]:
    """Each line of faults.txt: `proof  line  anchor => key  old  new  message  reason`.

    The anchor may be left out if it is the key, and the reason if it is bad_label_value.
    """
    seen = Counter[tuple[str, str]]()
    for line in Path(__file__).with_name("faults.txt").read_text().splitlines():
        proof, number, place, *rest = line.split("  ")
        anchor, _, key = place.rpartition(" => ")
        yield Fault(proof, seen[proof, key], key, anchor or key, number, *rest)
        seen[proof, key] += 1


FAULTS = tuple(_faults())


# --- files of any length --------------------------------------------------------------------------


def lengthen(path: Path, count: int) -> None:
    """Repeats the entries of a label file until there are so many."""
    if path.suffix == ".tar":
        with tarfile.open(path) as archive:
            members = [(each.name, archive.extractfile(each).read()) for each in archive]  # type: ignore[union-attr]
        with tarfile.open(path, "w") as archive:
            samples = len({name.partition(".")[0] for name, _ in members})
            for i, (name, data) in itertools.product(range(count // samples + 1), members):
                member = tarfile.TarInfo(f"{i}_{name}")
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
        return
    text = path.read_text()
    if path.suffix == ".json":
        content = document = json.loads(text)
        if isinstance(content, dict):
            name = max(content, key=lambda member: len(json.dumps(content[member])))
            document = content[name] if len(json.dumps(content[name])) > len(text) / 2 else content
        if isinstance(document, list):
            document.extend(itertools.islice(itertools.cycle([*document]), count - len(document)))
        else:
            entries = itertools.islice(itertools.cycle([*document.items()]), count - len(document))
            document.update({f"{key}{i}": value for i, (key, value) in enumerate(entries)})
        text = json.dumps(content)
    elif path.suffix == ".xml":
        head, *images = text.removesuffix("</annotations>\n").split("  <image ")
        repeated = itertools.islice(itertools.cycle(images), count)
        text = "  <image ".join([head, *repeated]) + "</annotations>\n"
    else:
        head, *lines = text.splitlines()
        text = "\n".join([head, *itertools.islice(itertools.cycle(lines), count)]) + "\n"
    path.write_text(text)


def label_files(source: Source, most: int) -> list[str]:
    """The label files of a source; of those in a folder, not many more than `most`."""
    labels: Any = source.labels
    listed = (
        each for root in getattr(labels, "folders", ()) for each in list_local_root(root, most)
    )
    return [*getattr(labels, "files", ())] or [
        image.uri for each in listed for image in each.images
    ]


def read_labels(source: Source, least: int) -> int:
    """Reads all labels of a source as workers do, and returns their number; files of one image so often as needed."""
    labels, number = source.labels, 0
    if isinstance(labels, ContainerLabels):
        return sum(1 for uri in labels.files for _ in labels.reader.read(uri, ""))
    uris = label_files(source, least)
    if isinstance(labels, ListedLabels):
        refs = (references.ImageRef(uri, uri, 1) for uri in itertools.cycle(uris))
        return sum(1 for _ in map(labels.reader.row, itertools.islice(refs, least)))
    assert isinstance(labels, FileLabels)
    for uri in uris if labels.files else itertools.cycle(uris):
        if number >= least and not labels.files:
            break
        with open(uri, "rb") as file:
            for row in labels.reader.read(file, uri):
                assert not isinstance(row, dead_letters.DeadLetter)
                number += len(row) if isinstance(row, packing.LabelBatch) else 1
    return number


def _peak() -> int:
    """The most memory that this process has had, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


if __name__ == "__main__":
    LEAST, *ARGV = sys.argv[1:]
    SOURCE = outcome.config_of(ARGV).source
    BEFORE = _peak()
    assert read_labels(SOURCE, int(LEAST)) > int(LEAST) / 2, "of VIA's rows several are an image"
    sys.stdout.write(str(_peak() - BEFORE))
