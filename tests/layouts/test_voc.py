"""Pascal VOC: whole years, and sets that LabelImg wrote."""

from __future__ import annotations

import io
import pickle
import tracemalloc
from pathlib import Path

import pytest

from beam_pipeline.core.references import LabelRow
from beam_pipeline.layouts.label_files import BadLabelError, LabelFileReader, Place, Splits
from beam_pipeline.layouts.layout import SourceOptions
from beam_pipeline.layouts.voc import Voc, VocFormat
from tests.harness import ALL_BAD, convert, dead_letters_of, read_all
from tests.layouts.make_voc import BOX, CAT, Box, labelimg_xml, make_voc
from tests.pictures import picture, write_files

CLASSES = (
    *("aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow"),
    *("diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa"),
    *("train", "tvmonitor"),
)


def test_all_twenty_classes_have_vocs_own_ids(working_folder: Path) -> None:
    """Sorted from 1, as pascal_label_map.pbtxt has them; --label_base 0 counts from 0."""
    make_voc(".")
    numbering = Voc().open(SourceOptions(("labelled",))).numbering
    assert numbering.number(CLASSES) == tuple(zip(CLASSES, range(1, 21), strict=True))
    from_zero = Voc().open(SourceOptions(("labelled",), label_base=0)).numbering
    assert from_zero.number(CLASSES)[0] == ("aeroplane", 0)


# --- the reader ----------------------------------------------------------------------------------


def test_an_annotation_is_one_row_named_by_its_file() -> None:
    """Boxes carry the line of their <bndbox>; the split is the list's; the reader can be pickled."""
    reader = LabelFileReader(
        VocFormat(), (Place("/d/Annotations", bare=True),), Splits({"a": "test"}, bare=True)
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
    beside = LabelFileReader(VocFormat(), (Place("/d", bare=True), Place("/d/in")))
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
        write_files(
            "set",
            {
                f"images/{name}.jpg": picture(1),
                f"annotations/{name}.xml": labelimg_xml(f"{name}.jpg", size, objects),
            },
        )
    assert convert("--images", "set", "--output", "out", ALL_BAD) == 0
    assert sorted(read_all("out")) == ["none.jpg", "same.jpg"]
    dead_letters = {x["key"]: x for x in dead_letters_of("out")}
    assert {key: x["reason"] for key, x in dead_letters.items()} == {
        "other.jpg": "size_mismatch",
        "turned.jpg": "size_mismatch",
    }
    assert dead_letters["other.jpg"]["message"].startswith(
        "the label file is for an image of 18 x 14 pixels, this one has 9 x 7; take the image"
    )
    assert dead_letters["other.jpg"]["file"] == f"{tmp_path}/set/annotations/other.xml"


BOMB = (
    '<?xml version="1.0"?>\n<!DOCTYPE annotation [\n<!ENTITY a "boom">\n'
    + "".join(f'<!ENTITY {chr(i + 1)} "{f"&{chr(i)};" * 10}">\n' for i in range(ord("a"), ord("j")))
    + "]>\n<annotation><filename>&j;</filename></annotation>\n"
)


REFUSED = "a document type (<!DOCTYPE>) may fill the memory or read other files; remove it"


BAD_FILES: dict[str, tuple[str | bytes, int, str]] = {
    "bomb": (BOMB, 2, REFUSED),
    "external": (
        '<!DOCTYPE annotation [<!ENTITY x SYSTEM "file:///etc/passwd">]>\n' + CAT,
        1,
        REFUSED
    ),
    "dtd": ('\n<!DOCTYPE annotation SYSTEM "http://localhost:1/voc.dtd">\n' + CAT, 2, REFUSED),
    "cut": (CAT[:60], 3, "not well-formed XML: unclosed token"),
    "mismatched": (CAT.replace("</name>", "</nam>"), 15, "not well-formed XML: mismatched tag"),
    "empty": ("", 1, "not well-formed XML: no element found"),
    "entity": (CAT.replace(">cat<", ">&cat;<"), 15, "not well-formed XML: undefined entity"),
    "latin1": (
        CAT.replace(">cat<", ">ch\xeane<").encode("latin-1"),
        15,
        "not well-formed XML: not well-formed (invalid token)"
    ),
    "gb2312": (
        f'<?xml version="1.0" encoding="gb2312"?>\n{CAT}',
        1,
        "XML that cannot be read: multi-byte encodings are not supported; save it as UTF-8"
    ),
    "coco": ("<annotations/>\n", 1, "the root element is <annotations>, expected <annotation>"),
    "nameless": (CAT.replace("<name>cat</name>", "<name/>"), 14, "object 1 has no <name>"),
    "names": (
        CAT.replace("<name>cat</name>", "<name>cat</name><name>dog</name>"),
        14,
        "object 1 has 2 <name>, expected one"
    ),
    "polygon": (
        CAT.replace("bndbox>", "polygon>"),
        14,
        "object 1 ('cat') has 0 <bndbox>, expected one; it contains <name>, <pose>, <truncated>, <difficult>, "
        "<polygon>"
    ),
    "boxes": (
        CAT.replace("\t</object>", "\t\t<bndbox/>\n\t</object>"),
        14,
        "object 1 ('cat') has 2 <bndbox>, expected one; it contains <name>, <pose>, <truncated>, <difficult>, "
        "<bndbox>, <bndbox>"
    ),
    "second": (
        labelimg_xml("a.jpg", (100, 50), [("cat", BOX), ("dog", ("1", "2", "x", "4"))]),
        26,
        "object 2 ('dog'): <bndbox/xmax> is 'x', expected a number"
    ),
    "missing": (
        CAT.replace("\t\t\t<ymin>20</ymin>\n", ""),
        14,
        "object 1 ('cat'): <bndbox/ymin> is missing or empty, expected a number"
    ),
    "nan": (CAT.replace(">30<", ">nan<"), 14, "object 1 ('cat'): <bndbox/xmax> is 'nan', expected a number"),
    "infinite": (CAT.replace(">30<", ">-inf<"), 14, "object 1 ('cat'): <bndbox/xmax> is '-inf', expected a number"),
    "large": (CAT.replace(">30<", ">1e39<"), 14, "object 1 ('cat'): <bndbox/xmax> is '1e39', expected a number"),
    "difficult": (
        CAT.replace("<difficult>0", "<difficult>no"),
        14,
        "object 1 ('cat'): <difficult> is 'no', expected an integer"
    )
}  # fmt: skip


"""name -> (text of the annotation, line, message)."""


@pytest.mark.parametrize(("text", "line", "message"), BAD_FILES.values(), ids=BAD_FILES)
def test_an_annotation_that_cannot_be_read_is_an_error(
    text: str | bytes, line: int, message: str
) -> None:
    """XML bombs, files that would read others, broken XML, objects without a box: the error has the
    line and says what was found."""
    with pytest.raises(BadLabelError) as caught:
        VocFormat().parse(text.encode() if isinstance(text, str) else text, "")
    assert (str(caught.value), caught.value.line) == (message, line)


@pytest.mark.parametrize(
    "annotation",
    [
        "<annotation><object><name>cat</name><bndbox><xmin>1</xmin><ymin>2</ymin><xmax>3</xmax>"
        "<ymax>4</ymax></bndbox></object></annotation>",
        '<?xml version="1.0" encoding="utf-8"?><annotation verified="yes"><source><annotation>x'
        "</annotation><object>no</object></source><object><bndbox><ymax> 4 </ymax><xmax>3.0</xmax>"
        "<ymin>2</ymin><xmin>1</xmin></bndbox><name>\n cat </name><pose/><truncated></truncated>"
        "<part><name>ear</name><bndbox><xmin>9</xmin></bndbox></part></object></annotation>",
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_order_blanks_and_optional_elements_do_not_count(annotation: str, encoding: str) -> None:
    """Missing or empty flags are 0, a missing pose is Unspecified, elements of other depth than an
    object's own are passed over."""
    assert VocFormat().parse(annotation.encode(encoding), "")[0] == (
        ((1.0, 2.0, 3.0, 4.0, 1),),
        ("cat",),
        (0,),
        (0,),
        ("Unspecified",),
    )


def test_an_annotation_in_utf_16_and_with_character_references() -> None:
    """XML says its own encoding, and what a reference stands for."""
    text = CAT.replace(">cat<", ">Kätzchen &amp; &#20;&#x732b;<".replace("&#20;", ""))
    values, *_ = VocFormat().parse(text.encode("utf-16"), "")
    assert values[1] == ("Kätzchen & 猫",)


def test_deep_nesting_costs_no_memory() -> None:
    """Ten thousand levels inside an object are passed over, and their paths are not kept."""
    deep = "<a>" * 10_000 + "</a>" * 10_000
    data = CAT.replace("\t</object>", f"{deep}\t</object>").encode()
    VocFormat().parse(data, "")  # imports what it needs
    tracemalloc.start()
    try:
        values, *_ = VocFormat().parse(data, "")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert values[1] == ("cat",)
    assert peak < 10 << 20
