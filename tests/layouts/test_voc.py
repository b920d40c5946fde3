"""Pascal VOC: whole years, and sets that LabelImg wrote."""

from __future__ import annotations

import io
import pickle
import tracemalloc
from collections.abc import Mapping
from pathlib import Path

import pytest

from beam_pipeline.core.references import LabelRow
from beam_pipeline.layouts.label_files import BadLabelError, LabelFileReader, Place, Splits
from beam_pipeline.layouts.layout import SourceOptions
from beam_pipeline.layouts.voc import (
    Voc,
    VocFormat,
)
from tests.harness import (
    ALL_BAD,
    NONE_BAD,
    convert,
    dead_letters_of,
    digests,
    manifest_of,
    read_all,
    split_of_each,
)
from tests.layouts import bucket
from tests.layouts.make_voc import BOX, CAT, Box, labelimg_xml, make, photo
from tests.pictures import picture, write_files

CLASSES = (
    *("aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow"),
    *("diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa"),
    *("train", "tvmonitor"),
)


@pytest.fixture
def voc(working_folder: Path) -> Path:
    """A folder with VOCdevkit/ and labelled/ in it, which is the working directory."""
    make(str(working_folder))
    return working_folder


def write_set(folder: Path | str, annotations: Mapping[str, str | bytes | None]) -> None:
    """images/ of 100 x 50 pixels and annotations/; None is no annotation."""
    write_files(
        str(folder),
        {
            **{f"images/{name}.jpg": photo((100, 50)) for name in annotations},
            **{f"annotations/{k}.xml": text for k, text in annotations.items() if text is not None},
        },
    )


"""What make() draws: image -> (width, height), objects."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("argv", "why", "images"),
    [
        (
            ["--images", "VOCdevkit/VOC2007"],
            "JPEGImages/ beside Annotations/ in VOCdevkit/VOC2007",
            4,
        ),
        (
            ["--images", "VOCdevkit/VOC2012/JPEGImages/"],
            "JPEGImages/ beside Annotations/ in VOCdevkit/VOC2012",
            2,
        ),
        (
            ["--images", "."],
            "JPEGImages/ beside Annotations/ in VOCdevkit/VOC2007, VOCdevkit/VOC2012",
            6,
        ),
        (
            ["--images", "VOCdevkit/VOC2007", "VOCdevkit/VOC2012"],
            "JPEGImages/ beside Annotations/ in VOCdevkit/VOC2007; "
            "JPEGImages/ beside Annotations/ in VOCdevkit/VOC2012",
            6,
        ),
        (
            ["--images", "VOCdevkit/VOC2007", "--labels", "VOCdevkit/VOC2007/Annotations"],
            ".xml files of Pascal VOC in VOCdevkit/VOC2007/Annotations",
            4,
        ),
        (["--images", "labelled"], "images/ beside annotations/ in labelled", 2),
        (
            ["--images", "labelled/images"],
            "images/ beside annotations/ in labelled",
            2,
        ),
        (
            ["--images", "labelled/images/*.jpg", "--labels", "labelled/annotations"],
            ".xml files of Pascal VOC in labelled/annotations",
            2,
        ),
    ],
)
def test_the_layout_is_seen_from_names_and_the_first_annotation(
    voc: Path, capsys: pytest.CaptureFixture[str], argv: list[str], why: str, images: int
) -> None:
    """Whichever folder is named, the layout is found, the reason printed and every image read."""
    assert convert(*argv, "--output", "out", NONE_BAD) == 0
    assert capsys.readouterr().out.splitlines()[0] == f"Layout voc: {why}"
    assert manifest_of("out")["options"]["layout"] == "voc"
    assert len(read_all("out")) == images


DOG = CAT.replace(">cat<", ">dog<")
STALE = {
    "copied": CAT,
    "bare": CAT.replace("<filename>a.jpg", "<filename>bare"),
    "png": CAT.replace("<filename>a.jpg", "<filename>png.png"),
    "none": CAT.replace("\t<filename>a.jpg</filename>\n", ""),
    "abc_jpg.rf.0f3": CAT,
}


@pytest.mark.parametrize(
    ("argv", "annotations", "images", "expected"),
    [
        pytest.param(
            "--images set",
            {"train/1.xml": CAT, "test/1.xml": DOG},
            ["train/1.jpg", "test/1.jpg"],
            {"train/1.jpg": b"cat", "test/1.jpg": b"dog"},
            id="beside images in folders of splits",
        ),
        pytest.param(
            "--layout voc --images set/Data --labels set/Annotations",
            {"Annotations/a/1.xml": CAT, "Annotations/b/1.xml": DOG},
            ["Data/a/1.jpg", "Data/b/1.jpg"],
            {"a/1.jpg": b"cat", "b/1.jpg": b"dog"},
            id="in a tree like the images",
        ),
        pytest.param(
            "--images set",
            {"annotations/xmls/Abyssinian_1.xml": CAT, "annotations/trimaps/Abyssinian_1.png": ""},
            ["images/Abyssinian_1.jpg"],
            {"Abyssinian_1.jpg": b"cat"},
            id="further down, as of the Oxford pets",
        ),
        pytest.param(
            "--images set",
            {f"annotations/{name}.xml": text for name, text in STALE.items()},
            [f"images/{name}.jpg" for name in STALE],
            {f"{name}.jpg": b"cat" for name in STALE},
            id="whatever <filename> says",
        ),
    ],
)
def test_an_annotation_is_for_the_image_of_its_name(
    working_folder: Path,
    argv: str,
    annotations: Mapping[str, str],
    images: list[str],
    expected: Mapping[str, bytes],
) -> None:
    """By its path where the folders of both are alike, else by its name alone; <filename> is often stale."""
    write_files("set", {**annotations, **dict.fromkeys(images, photo((100, 50)))})
    assert convert(*argv.split(), "--output", "out", NONE_BAD) == 0
    objects = {k: f["image/object/class/text"] for k, f in read_all("out").items()}
    assert objects == {key: [name] for key, name in expected.items()}
    folders = {key: key.partition("/")[0] for key in expected}
    splits = {key: name if name in ("train", "test") else "train" for key, name in folders.items()}
    assert split_of_each("out") == splits


@pytest.mark.slow
def test_images_in_no_list_have_a_split_of_their_own_and_are_counted(
    voc: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """So are names in lists that have no annotation; trainval.txt alone is train."""
    write_files(
        "VOCdevkit/VOC2012",
        {
            "JPEGImages/2007_000027.jpg": photo((100, 50)),
            "Annotations/2007_000027.xml": CAT,
            "JPEGImages/2010_000001.jpg": photo((100, 50)),
            "Annotations/2010_000001.xml": CAT,
            "ImageSets/Main/trainval.txt": "2008_000008\r\n2011_003276\r\n2010_000001.jpg\r\n",
            "ImageSets/Main/test.txt": "2012_000001\n2012_000002\n",
        },
    )
    assert convert("--images", "VOCdevkit/VOC2012", "--output", "out", NONE_BAD) == 0
    assert split_of_each("out") == {
        "2007_000027.jpg": "unlisted",
        "2008_000008.jpg": "train",
        "2010_000001.jpg": "train",
        "2011_003276.jpg": "validation",
    }
    notes = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Note: ")]
    assert notes == [
        f"Note: 2 of 2 names in {voc}/VOCdevkit/VOC2012/ImageSets/Main/test.txt, such as "
        "'2012_000001', have none of the .xml files",
        "Note: 1 of 4 .xml files are in no list of ImageSets/Main/, so their images go to a "
        "split 'unlisted' unless --splits is given",
    ]


@pytest.mark.slow
def test_a_folder_with_some_annotations_leaves_the_other_images_out(voc: Path) -> None:
    """--labels with the listed ones only: the rest are unlabelled, and the lists still count."""
    write_files(
        "VOCdevkit/VOC2012",
        {"JPEGImages/2007_000027.jpg": photo((100, 50)), "Annotations/2007_000027.xml": CAT},
    )
    for name in ("2008_000008", "2011_003276"):
        text = (voc / f"VOCdevkit/VOC2012/Annotations/{name}.xml").read_text()
        write_files("listed", {f"{name}.xml": text})
    argv = ("--images", "VOCdevkit/VOC2012", "--labels", "listed", "--output", "out", NONE_BAD)
    assert convert(*argv) == 0
    assert split_of_each("out") == {"2008_000008.jpg": "train", "2011_003276.jpg": "validation"}
    assert [(d["key"], d["reason"]) for d in dead_letters_of("out")] == [
        ("2007_000027.jpg", "unlabelled")
    ]


def test_all_twenty_classes_have_vocs_own_ids(voc: Path) -> None:
    """Sorted from 1, as pascal_label_map.pbtxt has them; --label_base 0 counts from 0."""
    numbering = Voc().open(SourceOptions(("labelled",))).numbering
    assert numbering.number(CLASSES) == tuple(zip(CLASSES, range(1, 21), strict=True))
    from_zero = Voc().open(SourceOptions(("labelled",), label_base=0)).numbering
    assert from_zero.number(CLASSES)[0] == ("aeroplane", 0)


@pytest.mark.parametrize(
    ("files", "argv", "message"),
    [
        (
            {"ImageSets/Main/train.txt": "a\nb\n", "ImageSets/Main/val.txt": "c\nb\n"},
            ["--images", "set"],
            "{here}/set/ImageSets/Main/val.txt names 1 image, such as 'b', that another list "
            "beside it gives to train; take each out of one of them",
        ),
        (
            {"ImageSets/Main/train.txt": b"caf\xe9\n"},
            ["--images", "set"],
            "{here}/set/ImageSets/Main/train.txt is not UTF-8",
        ),
        (
            {"../other/JPEGImages/a.jpg": b"", "../other/Annotations/a.XML": CAT},
            ["--images", "."],
            "{here}/other/Annotations and {here}/set/Annotations contain annotations of the same "
            "names, 1 in all, such as a.xml. VOC2012 contains all",
        ),
        (
            {"../other/JPEGImages/a.jpg": b""},
            ["--images", "other"],
            "--layout voc: {here}/other has JPEGImages/ and no Annotations/ with .xml files beside "
            "it; put it there, or name the folder with --labels",
        ),
        (
            {"../plain/a.jpg": b""},
            ["--images", "plain"],
            "--images plain: no Pascal VOC set; expected a folder with JPEGImages/ and Annotations/",
        ),
        ({}, ["--images", "nowhere"], "--images nowhere: no Pascal VOC set"),
        (
            {"../plain/a.jpg": b""},
            ["--images", "plain", "--labels", "plain"],
            "no .xml files of Pascal VOC in {here}/plain; expected one for each image, of its name",
        ),
        (
            {"../plain/a.jpg": b""},
            ["--images", "plain", "--labels", "set/Annotations/a.xml"],
            "--labels set/Annotations/a.xml is a file; expected a folder of .xml files of Pascal VOC",
        ),
        (
            {},
            ["--images", "set", "--label_column", "x"],
            "--label_column means nothing for the layout voc",
        ),
    ],
)
def test_what_cannot_be_used_is_said(
    working_folder: Path,
    capsys: pytest.CaptureFixture[str],
    files: dict[str, str | bytes],
    argv: list[str],
    message: str,
) -> None:
    """Exit code 2, with what was found and what was expected, and nothing written."""
    year = {"JPEGImages/a.jpg": photo((100, 50)), "Annotations/a.xml": CAT, **files}
    write_files(f"{working_folder}/set", year)
    assert convert(*argv, "--layout", "voc", "--output", "out") == 2
    assert message.format(here=working_folder) in capsys.readouterr().err
    assert not (working_folder / "out").exists()


def test_what_is_not_vocs_is_left_to_other_layouts(tmp_path: Path) -> None:
    """Other XML, folders of other names, tables, nothing at all: no reason is given."""
    write_files(
        str(tmp_path),
        {
            "cvat/images/a.jpg": b"",
            "cvat/annotations/annotations.xml": '<?xml version="1.0"?>\n<annotations></annotations>',
            "beside/a.jpg": b"",
            "beside/a.xml": "<album/>",
            "lonely/JPEGImages/a.jpg": b"",
            "classes/cat/a.jpg": b"",
            "classes/cat/a.xml": CAT,
            "labels.csv": "filename,label\na.jpg,cat\n",
            "good/a.xml": CAT,
        },
    )

    def seen(*labels: str, images: str = "classes") -> str:
        folders = tuple(f"{tmp_path}/{name}" for name in labels)
        return Voc().recognise(SourceOptions((f"{tmp_path}/{images}",), folders))

    for images in ("cvat", "cvat/images", "beside", "lonely", "classes", "nowhere", "labels.csv"):
        assert seen(images=images) == ""
    for labels in ("labels.csv", "nowhere", "cvat/annotations", "beside"):
        assert seen(labels) == seen("good", labels) == ""
    assert seen("good") == f".xml files of Pascal VOC in {tmp_path}/good"
    for path in ("", "gs://bucket/photos", "*"):
        assert Voc().recognise(SourceOptions((path,))) == ""
        assert Voc().recognise(SourceOptions((str(tmp_path),), (path,))) == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("images", "labels", "why"),
    [
        (
            "VOCdevkit",
            (),
            "JPEGImages/ beside Annotations/ in {root}/VOCdevkit/VOC2007, {root}/VOCdevkit/VOC2012",
        ),
        ("VOCdevkit/VOC2012", (), "JPEGImages/ beside Annotations/ in {root}/VOCdevkit/VOC2012"),
        ("labelled", (), "images/ beside annotations/ in {root}/labelled"),
        (
            "labelled/images",
            ("labelled/annotations",),
            ".xml files of Pascal VOC in {root}/labelled/annotations",
        ),
    ],
)
def test_sets_in_a_bucket(voc: Path, images: str, labels: tuple[str, ...], why: str) -> None:
    """They are recognised as folders on this machine are, and their lists are read."""
    root = f"{bucket.Bucket.scheme()}://{voc}"
    remote = tuple(f"{root}/{folder}" for folder in labels)
    given = ("--images", f"{root}/{images}", *(f"--labels={folder}" for folder in remote))
    local = ("--images", images, *(f"--labels={folder}" for folder in labels))
    assert Voc().recognise(SourceOptions((f"{root}/{images}",), remote)) == why.format(root=root)
    argv = ("--name", "d", "--writers", "0", NONE_BAD)
    assert convert(*given, *argv, "--output", "from_bucket") == 0
    assert convert(*local, *argv, "--output", "from_disk") == 0
    assert digests("from_bucket") == digests("from_disk")


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
        "/d/in/x/a.b.xml", "/d/in/a.XML", "/d/x/a.xml",
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
        REFUSED,
    ),
    "dtd": ('\n<!DOCTYPE annotation SYSTEM "http://localhost:1/voc.dtd">\n' + CAT, 2, REFUSED),
    "cut": (CAT[:60], 3, "not well-formed XML: unclosed token"),
    "mismatched": (CAT.replace("</name>", "</nam>"), 15, "not well-formed XML: mismatched tag"),
    "empty": ("", 1, "not well-formed XML: no element found"),
    "entity": (CAT.replace(">cat<", ">&cat;<"), 15, "not well-formed XML: undefined entity"),
    "latin1": (
        CAT.replace(">cat<", ">ch\xeane<").encode("latin-1"),
        15,
        "not well-formed XML: not well-formed (invalid token)",
    ),
    "gb2312": (
        f'<?xml version="1.0" encoding="gb2312"?>\n{CAT}',
        1,
        "XML that cannot be read: multi-byte encodings are not supported; save it as UTF-8",
    ),
    "coco": ("<annotations/>\n", 1, "the root element is <annotations>, expected <annotation>"),
    "nameless": (CAT.replace("<name>cat</name>", "<name/>"), 14, "object 1 has no <name>"),
    "names": (
        CAT.replace("<name>cat</name>", "<name>cat</name><name>dog</name>"),
        14,
        "object 1 has 2 <name>, expected one",
    ),
    "polygon": (
        CAT.replace("bndbox>", "polygon>"),
        14,
        "object 1 ('cat') has 0 <bndbox>, expected one; it contains <name>, <pose>, <truncated>, <difficult>, "
        "<polygon>",
    ),
    "boxes": (
        CAT.replace("\t</object>", "\t\t<bndbox/>\n\t</object>"),
        14,
        "object 1 ('cat') has 2 <bndbox>, expected one; it contains <name>, <pose>, <truncated>, <difficult>, "
        "<bndbox>, <bndbox>",
    ),
    "second": (
        labelimg_xml("a.jpg", (100, 50), [("cat", BOX), ("dog", ("1", "2", "x", "4"))]),
        26,
        "object 2 ('dog'): <bndbox/xmax> is 'x', expected a number",
    ),
    "missing": (
        CAT.replace("\t\t\t<ymin>20</ymin>\n", ""),
        14,
        "object 1 ('cat'): <bndbox/ymin> is missing or empty, expected a number",
    ),
    "nan": (CAT.replace(">30<", ">nan<"), 14, "object 1 ('cat'): <bndbox/xmax> is 'nan', expected a number"),
    "infinite": (CAT.replace(">30<", ">-inf<"), 14, "object 1 ('cat'): <bndbox/xmax> is '-inf', expected a number"),
    "large": (CAT.replace(">30<", ">1e39<"), 14, "object 1 ('cat'): <bndbox/xmax> is '1e39', expected a number"),
    "difficult": (
        CAT.replace("<difficult>0", "<difficult>no"),
        14,
        "object 1 ('cat'): <difficult> is 'no', expected an integer",
    ),
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
