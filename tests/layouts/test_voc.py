"""Pascal VOC: whole years, and sets that LabelImg wrote."""

from __future__ import annotations

import io
import pickle
import tracemalloc
from pathlib import Path

import pytest

from beam_pipeline.core.references import LabelRow
from beam_pipeline.layouts import layout, voc
from beam_pipeline.layouts.label_files import LabelFileReader, Place, Splits
from tests import harness, pictures
from tests.layouts.make_voc import CAT, Box, labelimg_xml, make_voc

CLASSES = (
    *("aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow"),
    *("diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa"),
    *("train", "tvmonitor"),
)


def test_all_twenty_classes_have_vocs_own_ids(working_folder: Path) -> None:
    """Sorted from 1, as pascal_label_map.pbtxt has them; --label_base 0 counts from 0."""
    make_voc(".")
    numbering = voc.Voc().open(layout.SourceOptions(("labelled",))).numbering
    assert numbering.number(CLASSES) == tuple(zip(CLASSES, range(1, 21), strict=True))
    from_zero = voc.Voc().open(layout.SourceOptions(("labelled",), label_base=0)).numbering
    assert from_zero.number(CLASSES)[0] == ("aeroplane", 0)


# --- the reader ----------------------------------------------------------------------------------


def test_an_annotation_is_one_row_named_by_its_file() -> None:
    """Boxes carry the line of their <bndbox>; the split is the list's; the reader can be pickled."""
    reader = LabelFileReader(
        voc.VocFormat(), (Place("/d/Annotations", bare=True),), Splits({"a": "test"}, bare=True)
    )
    (row,) = pickle.loads(pickle.dumps(reader)).read(
        io.BytesIO(CAT.encode()), "/d/Annotations/x/a.xml"
    )
    assert row == LabelRow(
        "a",
        (((10.0, 20.0, 30.0, 40.0, 19),), ("cat",), (0,), (0,), ("Unspecified",)),
        "test",
        "/d/Annotations/x/a.xml",
        0,
        size=(100, 50),
    )
    beside = LabelFileReader(voc.VocFormat(), (Place("/d", bare=True), Place("/d/in")))
    names = [next(beside.read(io.BytesIO(CAT.encode()), uri)).name for uri in (  # type: ignore[union-attr]
        "/d/in/x/a.b.xml", "/d/in/a.XML", "/d/x/a.xml"
    )]  # fmt: skip
    assert names == ["x/a.b", "a", "a"]


def test_an_image_of_another_size_than_its_annotation_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is left out with both sizes; one whose size is 0, as many tools write, is taken."""
    monkeypatch.chdir(tmp_path)
    sizes = {"same": (9, 7), "other": (18, 14), "turned": (7, 9), "none": (0, 0)}
    for name, size in sizes.items():
        objects: list[tuple[str, Box]] = [("mug", ("1", "2", "5", "6"))]
        pictures.write_files(
            "set",
            {
                f"images/{name}.jpg": pictures.picture(1),
                f"annotations/{name}.xml": labelimg_xml(f"{name}.jpg", size, objects),
            },
        )
    assert harness.convert("--images", "set", "--output", "out", harness.ALL_BAD) == 0
    assert sorted(harness.read_all("out")) == ["none.jpg", "same.jpg"]
    dead_letters = {x["key"]: x for x in harness.dead_letters_of("out")}
    assert {key: x["reason"] for key, x in dead_letters.items()} == {
        "other.jpg": "size_mismatch",
        "turned.jpg": "size_mismatch",
    }
    assert dead_letters["other.jpg"]["message"].startswith(
        "the label file is for an image of 18 x 14 pixels, this one has 9 x 7; take the image"
    )
    assert dead_letters["other.jpg"]["file"] == f"{tmp_path}/set/annotations/other.xml"


def test_deep_nesting_costs_no_memory() -> None:
    """Ten thousand levels inside an object are passed over, and their paths are not kept."""
    deep = "<a>" * 10_000 + "</a>" * 10_000
    data = CAT.replace("\t</object>", f"{deep}\t</object>").encode()
    voc.VocFormat().parse(data, "")  # imports what it needs
    tracemalloc.start()
    try:
        values, *_ = voc.VocFormat().parse(data, "")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert values[1] == ("cat",)
    assert peak < 10 << 20
