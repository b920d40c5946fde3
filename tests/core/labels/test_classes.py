"""Classes, their ids and filters; masks, their names and colours."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from hypothesis import example, given
from hypothesis import strategies as st

from beam_pipeline.core import errors, references
from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.labels.classes import (
    LABEL_ORDERS,
    ClassNumbering,
    ClassNumberingError,
    Exclusion,
    KnownClasses,
    SampleFilters,
    fit_a_list,
    label_map,
    parse_class_list,
    parse_class_manifest,
)
from beam_pipeline.core.labels.mask_colours import MaskColours, parse_mask_colours
from beam_pipeline.core.labels.mask_names import Addition, FoundNames, MaskNames, find_names

NAMES = st.sets(
    st.text(max_size=6) | st.integers(-1000, 1000).map(str) | st.sampled_from(["007", "7", "-0"])
)


# --- ids ----------------------------------------------------------------------------------------


def test_classes_are_numbered_in_the_order_of_their_code_points() -> None:
    """Capitals come first, letters with marks last, and numbers are text."""
    names = ["dog", "cat", "Äffchen", "Zebra", "10", "9"]
    assert ClassNumbering().number(names) == (
        ("10", 0),
        ("9", 1),
        ("Zebra", 2),
        ("cat", 3),
        ("dog", 4),
        ("Äffchen", 5),
    )


def test_names_that_are_integers_can_be_sorted_as_numbers() -> None:
    """They come before all others, which keep the order of their text."""
    names = ["10", "9", "cat", "-1", "007", "7", "1.5", "+3", "٣", "Bird", ""]
    numbered = ClassNumbering(order="numeric").number(names)
    assert [name for name, _ in numbered] == [
        *("-1", "007", "7", "9", "10"),
        *("", "+3", "1.5", "Bird", "cat", "٣"),
    ]
    assert [i for _, i in numbered] == list(range(len(names)))


@pytest.mark.parametrize("order", LABEL_ORDERS)
def test_a_number_of_thousands_of_digits_is_text(order: str) -> None:
    """Python refuses to make an integer of it, and nobody means one."""
    long = "9" * 5000
    assert ClassNumbering(order=order).number([long, "a", "1"]) == (("1", 0), (long, 1), ("a", 2))


def test_classes_that_the_format_knows_keep_its_ids() -> None:
    """Others come behind the last of them; those without a sample stay, and so do gaps."""
    known = (("person", 1), ("zebra", 24), ("apple", 53))
    assert ClassNumbering(known=known).number(["zebra", "unknown", "alien"]) == (
        ("person", 1),
        ("zebra", 24),
        ("apple", 53),
        ("alien", 54),
        ("unknown", 55),
    )
    assert ClassNumbering(base=1, known=known).number([]) == known


@pytest.mark.parametrize("order", LABEL_ORDERS)
@given(names=NAMES, base=st.sampled_from([0, 1]))
def test_every_class_has_an_id_of_its_own_without_gaps(
    order: str, names: set[str], base: int
) -> None:
    """Ids count up from the base, and do not depend on the order in which names come."""
    numbering = ClassNumbering(base, order)
    classes = numbering.number(names)
    assert {name for name, _ in classes} == names
    assert [i for _, i in classes] == list(range(base, base + len(names)))
    assert numbering.number(sorted(names)) == numbering.number(sorted(names)[::-1]) == classes


@given(names=NAMES, known=st.dictionaries(st.text(max_size=2), st.integers(0, 99), max_size=5))
def test_known_ids_are_kept_whatever_names_there_are(
    names: set[str], known: dict[str, int]
) -> None:
    """No other class gets one of them, and classes stand in the order of their ids."""
    classes = ClassNumbering(known=tuple(known.items())).number(names)
    ids = dict(classes)
    assert set(ids) == names | set(known)
    assert ids.items() >= known.items()
    further = [ids[name] for name in sorted(names - set(known))]
    first = max(known.values(), default=-1) + 1
    assert further == list(range(first, first + len(further)))
    assert [i for _, i in classes] == sorted(i for _, i in classes)


# --- names that are ids -------------------------------------------------------------------------


def test_a_name_can_be_its_id() -> None:
    """In the order of the ids; gaps are left, and zeros in front are passed over."""
    numbering = ClassNumbering(base=1, from_name=True)
    assert numbering.number(["10", "9", "007", "-3", "9"]) == (
        ("-3", -3),
        ("007", 7),
        ("9", 9),
        ("10", 10),
    )


@pytest.mark.parametrize(
    "name", ["cat", "", "1.0", "1e3", " 1", "1 ", "+1", "1_000", "٣", "--1", "9" * 19, "9" * 5000]
)
def test_a_name_that_is_no_integer_cannot_be_an_id(name: str) -> None:
    """The first such name is shown; ids are int64."""
    with pytest.raises(ClassNumberingError) as caught:
        ClassNumbering(from_name=True).number(["1", name])
    assert str(caught.value) == f"class {name!r} is not an integer, so it cannot be an id"


def test_an_id_may_be_any_int64() -> None:
    """The feature can hold no other."""
    names = [str(-(1 << 63)), str((1 << 63) - 1)]
    assert ClassNumbering(from_name=True).number(names) == tuple(
        (name, int(name)) for name in names
    )
    with pytest.raises(
        ClassNumberingError, match=r"^class '9223372036854775808' is not an integer"
    ):
        ClassNumbering(from_name=True).number([str(1 << 63)])


@pytest.mark.parametrize(("first", "second"), [("007", "7"), ("-0", "0"), ("00", "000")])
def test_two_names_of_one_integer_are_refused(first: str, second: str) -> None:
    """They would become one class; the message shows both."""
    with pytest.raises(ClassNumberingError) as caught:
        ClassNumbering(from_name=True).number([second, "1", first])
    assert str(caught.value) == f"classes {first!r} and {second!r} are the same integer"


# --- gaps ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("classes", "expected"),
    [
        ([], False),
        ([("a", 0), ("b", 1), ("c", 2)], True),
        ([("a", 1), ("b", 2)], True),
        ([("a", 0), ("b", 2)], False),
        ([("a", 2), ("b", 3)], False),
        ([("a", -1), ("b", 0)], False),
        ([("a", 0), ("b\nc", 1)], False),
        ([("a\u2028", 0)], False),
    ],
)
def test_a_list_of_names_says_ids_that_have_no_gaps(
    classes: Sequence[tuple[str, int]], expected: bool
) -> None:
    """The line of a name is then its id, counted from 0 or 1; a name is one line."""
    assert fit_a_list(classes) is expected


# --- label maps ---------------------------------------------------------------------------------


def _label_map_message() -> Any:
    """`StringIntLabelMap` with the fields that we write, of the numbers that the Model Garden has."""
    file = descriptor_pb2.FileDescriptorProto(
        name="string_int_label_map.proto", package="object_detection.protos"
    )
    item = file.message_type.add(name="StringIntLabelMapItem")
    item.field.add(name="name", number=1, type=9, label=1)  # optional string
    item.field.add(name="id", number=2, type=5, label=1)  # optional int32
    whole = file.message_type.add(name="StringIntLabelMap")
    kind = ".object_detection.protos.StringIntLabelMapItem"
    whole.field.add(name="item", number=1, type=11, label=3, type_name=kind)  # repeated message
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    name = "object_detection.protos.StringIntLabelMap"
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


StringIntLabelMap = _label_map_message()


def parsed(text: str) -> list[tuple[str, int]]:
    """(name, id) of every item, as protobuf reads a label map from a file."""
    message = text_format.Parse(text.encode(), StringIntLabelMap())
    return [(item.name, item.id) for item in message.item]


@given(names=st.lists(st.text(max_size=20), max_size=5))
@example(names=[chr(i) + "7" for i in range(0x100)])
def test_any_label_map_is_read_as_it_was_written(names: list[str]) -> None:
    """Whatever is in a name, protobuf reads it back, from text and from bytes."""
    classes = [(name, i) for i, name in enumerate(names, 1)]
    assert parsed(label_map(classes)) == classes
    message = text_format.Parse(label_map(classes), StringIntLabelMap())
    assert [(item.name, item.id) for item in message.item] == classes


def sample(*labels: Any) -> references.SampleRef:
    return references.SampleRef("a.jpg", "/p/a.jpg", 9, "train", labels, origin="/p/l.csv")


@pytest.mark.parametrize(
    ("data", "names"),
    [
        (b"cat\ndog\n", ["cat", "dog"]),
        (b"\xef\xbb\xbfcat\r\n dog \r\n\r\n", ["cat", "dog"]),
        ("größe\ntraffic light".encode(), ["größe", "traffic light"]),
    ],
)
def test_the_number_of_a_line_is_an_id(data: bytes, names: list[str]) -> None:
    """Counted from the base; a byte order mark, spaces around and lines at the end do not count."""
    for base in (0, 1):
        expected = tuple((name, i) for i, name in enumerate(names, base))
        assert parse_class_list(data, "c.txt", base) == expected


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b" \n", "--classes c.txt is empty; expected one class per line"),
        (
            b"cat\n\ndog",
            "--classes c.txt, line 2 is empty; expected one class per line, as the line",
        ),
        (
            b"cat\ndog\ncat",
            "--classes c.txt: lines 1 and 3 both name 'cat'; expected each class once",
        ),
        (b"\xff\xfe", "--classes c.txt is not UTF-8 ("),
    ],
)
def test_a_list_that_leaves_ids_open_is_refused(data: bytes, message: str) -> None:
    """The message says the line."""
    with pytest.raises(errors.UsageError) as caught:
        parse_class_list(data, "c.txt", 0)
    assert str(caught.value).startswith(message)


def test_a_manifest_says_the_ids_itself() -> None:
    """Gaps stay; what else it holds does not matter."""
    classes = [{"id": 7, "name": "dog"}, {"id": 2, "name": "cat", "examples": 3}]
    data = json.dumps({"format": "beam-tfrecord", "classes": classes}).encode()
    assert parse_class_manifest(data, "m.json") == (("cat", 2), ("dog", 7))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"{", "--classes m.json is not a manifest of beam-tfrecord (JSONDecodeError("),
        (b"[1]", "--classes m.json is not a manifest of beam-tfrecord (TypeError("),
        (
            b'{"format": "x"}',
            '--classes m.json is not a manifest of beam-tfrecord (ValueError("its',
        ),
        (
            b'{"format": "beam-tfrecord", "classes": []}',
            "--classes m.json: the data set lacks classes",
        ),
    ],
)
def test_another_json_file_is_no_manifest(data: bytes, message: str) -> None:
    """The message says what is expected."""
    with pytest.raises(errors.UsageError) as caught:
        parse_class_manifest(data, "m.json")
    assert str(caught.value).startswith(message)


KNOWN = KnownClasses(("cat", "dog"), 0, "c.txt")


@pytest.mark.parametrize("label", ["cat", ("cat", "dog", "cat"), ()])
def test_samples_of_known_classes_are_kept(label: Any) -> None:
    """One class, a list of them, one an object, or none."""
    assert KNOWN.dead_letter(sample(label)) is None


@pytest.mark.parametrize(
    ("label", "message"), [("cow", "'cow'"), (("dog", "cow", "ant", "cow"), "'cow', 'ant'")]
)
def test_a_sample_with_another_class_is_a_dead_letter(label: Any, message: str) -> None:
    """As a whole, if one of several is not known; the dead letter names each once."""
    assert KNOWN.dead_letter(sample(label)) == DeadLetter(
        "labels",
        "a.jpg",
        "/p/a.jpg",
        "unknown_class",
        f"{message}: no class of c.txt, which has cat, dog",
        "/p/l.csv",
    )


def ref(key: str, label: str = "cat") -> references.SampleRef:
    return references.SampleRef(key, f"/photos/{key}", 9, "train", (label,))


def test_a_file_lists_a_key_a_line() -> None:
    """With any line ends, a byte order mark, empty lines; spaces belong to a key; the first line counts."""
    data = "\ufeffa/1.jpg\r\n\n b.jpg\na/1.jpg\nlast".encode()
    assert Exclusion.parse(data, "f").lines == {"a/1.jpg": 1, " b.jpg": 3, "last": 5}
    assert Exclusion.parse(b"", "f").lines == {}


def test_a_file_that_is_no_text_is_refused() -> None:
    """The error names the option and the file."""
    with pytest.raises(errors.UsageError, match=r"^--exclude x\.bin is not UTF-8"):
        Exclusion.parse(b"\xff\xfe\x00", "x.bin")


def test_listed_samples_become_dead_letters() -> None:
    """Each with the file and the line that names it."""
    exclusion = Exclusion("/gone.txt", {"b.jpg": 7, "never.jpg": 8})
    remaining, dead_letters = SampleFilters((exclusion,)).apply([ref("a.jpg"), ref("b.jpg")])
    assert remaining == [ref("a.jpg")]
    message = "left out, as --exclude asks for"
    assert dead_letters == [
        DeadLetter("join", "b.jpg", "/photos/b.jpg", "excluded", message, "/gone.txt", 7)
    ]
    assert exclusion.not_met(letter.key for letter in dead_letters) == ["never.jpg"]


# --- The names of masks and of their images, and tables of the colours in masks


@pytest.mark.parametrize(
    ("images", "masks", "expected"),
    [
        (["a.jpg", "b.jpg"], ["a.png", "b.png"], MaskNames()),
        (["a.jpg"], ["a_mask.png"], MaskNames(Addition(mask_suffix="_mask"))),
        (["1.jpg", "10.jpg"], ["mask_1.png", "mask_10.png"], MaskNames(Addition("", "", "mask_"))),
        (
            ["x_0019_leftImg8bit.png", "y_0019_leftImg8bit.png"],
            ["x_0019_gtFine_labelIds.png", "y_0019_gtFine_labelIds.png"],
            MaskNames(Addition("", "_leftImg8bit", "", "_gtFine_labelIds")),
        ),
        (
            ["img001.png", "img002.png"],
            ["seg001.png", "seg002.png"],
            MaskNames(Addition("img", "", "seg")),
        ),
        (
            ["train/images/a.jpg", "val/images/b.jpg"],
            ["train/masks/a.png", "val/masks/b.png"],
            MaskNames(folders=(("masks", "images"),)),
        ),
        (["x/a.jpg", "y/b.jpg"], ["all/a.png", "all/b.png"], MaskNames(bare=True)),
        (["x/a.jpg", "y/a.jpg"], ["all/a.png", "more/b.png"], MaskNames()),
        (["1.jpg", "2.jpg"], ["10.png", "20.png"], MaskNames()),
        (["cat.jpg", "dog.jpg"], ["car.png", "dot.png"], MaskNames()),
        (["p1.jpg"], ["p9.png"], MaskNames()),
        (["a.jpg", "b.jpg", "c.jpg"], ["a_x.png", "d.png", "e.png"], MaskNames()),
    ],
)
def test_names_are_found_out(images: list[str], masks: list[str], expected: MaskNames) -> None:
    """An addition or folders that most masks share; nothing that could be chance."""
    assert find_names(images, masks).names == expected


@pytest.mark.parametrize(
    ("names", "key", "image"),
    [
        (MaskNames(), "train/a.b.png", "train/a.b"),
        (MaskNames(Addition(mask_suffix="_mask")), "train/a_mask.png", "train/a"),
        (MaskNames(Addition(mask_suffix="_mask")), "train/a.png", "train/a"),
        (MaskNames(Addition(mask_suffix="_mask")), "_mask.png", "_mask"),
        (MaskNames(Addition("i_", "_r", "m_", "_l")), "m_7_l.png", "i_7_r"),
        (MaskNames(folders=(("masks", "images"),)), "train/masks/a.png", "train/images/a"),
        (MaskNames(folders=(("train_labels", "train"),)), "train_labels/x/a.png", "train/x/a"),
        (MaskNames(bare=True), "x/y/a.png", "a"),
    ],
)
def test_a_mask_names_its_image(names: MaskNames, key: str, image: str) -> None:
    """Without extension; a mask that lacks the addition keeps its name."""
    assert names.image_name(key) == image


def test_several_kinds_of_masks_are_told_apart() -> None:
    """The one that is known to hold class ids comes first."""
    images = [f"{n}_leftImg8bit.png" for n in range(5)]
    kinds = ("color", "instanceIds", "labelIds")
    masks = [f"{n}_gtFine_{kind}.png" for n in range(5) for kind in kinds]
    names = find_names(images, masks)
    assert names == FoundNames(
        MaskNames(Addition("", "_leftImg8bit", "", "_gtFine_labelIds")),
        1.0,
        tuple(Addition("", "_leftImg8bit", "", f"_gtFine_{kind}") for kind in kinds[:2]),
    )
    assert names.certain
    unknown = find_names(["1.jpg", "2.jpg"], ["1_a.png", "1_b.png", "2_a.png", "2_b.png"])
    assert len(unknown.further_kinds) == 1
    assert not unknown.certain


def test_the_share_of_masks_that_meet_an_image() -> None:
    """Of those that were looked at."""
    assert find_names(["a.jpg", "b.jpg"], ["a.png", "b.png", "c.png", "d.png"]).met == 0.5
    assert find_names([], ["a.png"]).met == 0
    assert find_names(["a.jpg"], []) == FoundNames(MaskNames(), 0.0)


TWO = MaskColours(((0, 0, 0, 0), (128, 64, 1, 1)), (("sky", 0), ("road", 1)))


@pytest.mark.parametrize(
    "text",
    [
        "sky,0,0,0\nroad,128,64,1\n",
        "name,r,g,b\nsky,0,0,0\nroad,128,64,1\n",
        "\ufeffname, r, g, b\r\n\r\nsky, 0, 0, 0\r\nroad, 128, 64, 1\r\n",
        "id,label,red,green,blue\n0,sky,0,0,0\n1,road,128,64,1\n",
        "0 0 0\tsky\n128 64 1\t\troad\n",
        "# label:color_rgb:parts:actions\nsky:0,0,0::\nroad:128,64,1::\n",
    ],
)
def test_usual_tables_are_read(text: str) -> None:
    """class_dict.csv, label_colors.txt, CVAT's labelmap.txt; ids count from 0 or stand there."""
    assert parse_mask_colours(text.encode(), "t") == TWO


def test_a_class_may_have_several_colours_and_any_id() -> None:
    """Names that repeat share an id; ids may leave gaps."""
    colours = parse_mask_colours(b"a,1,1,1\nb,2,2,2\na,3,3,3\n", "t")
    assert colours == MaskColours(((1, 1, 1, 0), (2, 2, 2, 1), (3, 3, 3, 0)), (("a", 0), ("b", 1)))
    colours = parse_mask_colours(b"name,r,g,b,id\nvoid,0,0,0,255\nb,2,2,2,7\n", "t")
    assert colours.classes == (("b", 7), ("void", 255))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "lacks a line with a class"),
        ("name,r,g,b\n", "lacks a line with a class"),
        ("a,1,2\n", "line 1: found 'a,1,2', expected a class and its colour"),
        ("a,0,0,0\nb,256,0,0\n", "line 2: found"),
        (",0,0,0\n", "line 1: found"),
        ("a,0,0,0\nb,0,0,0\n", "line 2: the colour 0,0,0 means another class, too"),
        (f"a,0,0,{'1' * 5000}\n", "line 1: found"),
        (f"a:0,0,{'1' * 5000}\n", "line 1: found"),
        ("name,r,g,b,id\na,0,0,0,1\na,1,0,0,2\n", "line 3: 'a' has the id 2"),
        ("name,r,g,b,id\na,0,0,0,1\nb,1,0,0,1\n", "gives two classes one id"),
        ("name,r,g,b,id\na,0,0,0,70000\n", "line 2: 'a' has the id 70000"),
    ],
)
def test_what_is_no_table_is_refused(text: str, said: str) -> None:
    """With the line."""
    with pytest.raises(errors.UsageError, match="--mask_colors t") as caught:
        parse_mask_colours(text.encode(), "t")
    assert said in str(caught.value)
