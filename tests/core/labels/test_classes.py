"""Classes, their ids and filters; masks and the names of their images."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from hypothesis import example, given
from hypothesis import strategies as st

from beam_pipeline.core import errors, references
from beam_pipeline.core.labels import classes, mask_colours, mask_names
from tests.rows import in_rows, raised

NAMES = st.sets(
    st.text(max_size=6) | st.integers(-1000, 1000).map(str) | st.sampled_from(["007", "7", "-0"])
)
LONG = "9" * 5000  # Python refuses to make an integer of it, and nobody means one


@in_rows
def test_classes_have_these_ids(
    options: dict[str, Any], names: list[str], ids: tuple[tuple[str, int], ...]
) -> None:
    """In their order; those that the format knows keep theirs."""
    assert classes.ClassNumbering(**options).number(names) == ids


@in_rows
def test_names_that_cannot_be_ids_are_an_error(names: list[str], message: str) -> None:
    """The first such name is shown, or both that are one integer; ids are int64."""
    numbering = classes.ClassNumbering(from_name=True)
    assert str(raised(classes.ClassNumberingError, numbering.number, names)) == message


def test_a_number_of_thousands_of_digits_is_text() -> None:
    """In any order of classes, as an id, and as a colour."""
    for order in classes.LABEL_ORDERS:
        numbering = classes.ClassNumbering(order=order)
        assert numbering.number([LONG, "a", "1"]) == (("1", 0), (LONG, 1), ("a", 2))
    raised(classes.ClassNumberingError, classes.ClassNumbering(from_name=True).number, [LONG])
    for line in ("a,0,0,{}\n", "a:0,0,{}\n"):
        data = line.format("1" * 5000).encode()
        error = raised(errors.UsageError, mask_colours.parse_mask_colours, data, "t")
        assert "--mask_colors t, line 1: found" in str(error)


@pytest.mark.parametrize("order", classes.LABEL_ORDERS)
@given(names=NAMES, base=st.sampled_from([0, 1]))
def test_every_class_has_an_id_of_its_own_without_gaps(
    order: str, names: set[str], base: int
) -> None:
    """Ids count up from the base, and do not depend on the order in which names come."""
    numbering = classes.ClassNumbering(base, order)
    ids = numbering.number(names)
    assert {name for name, _ in ids} == names
    assert [i for _, i in ids] == list(range(base, base + len(names)))
    assert numbering.number(sorted(names)) == numbering.number(sorted(names)[::-1]) == ids


@given(names=NAMES, known=st.dictionaries(st.text(max_size=2), st.integers(0, 99), max_size=5))
def test_known_ids_are_kept_whatever_names_there_are(
    names: set[str], known: dict[str, int]
) -> None:
    """No other class gets one of them, and classes stand in the order of their ids."""
    numbered = classes.ClassNumbering(known=tuple(known.items())).number(names)
    ids = dict(numbered)
    assert set(ids) == names | set(known)
    assert ids.items() >= known.items()
    further = [ids[name] for name in sorted(names - set(known))]
    first = max(known.values(), default=-1) + 1
    assert further == list(range(first, first + len(further)))
    assert [i for _, i in numbered] == sorted(i for _, i in numbered)


def _label_map_message() -> Any:
    """`StringIntLabelMap` with the fields that we write, of the numbers that the Model Garden has."""
    package = "object_detection.protos"
    file = descriptor_pb2.FileDescriptorProto(name="string_int_label_map.proto", package=package)
    item = file.message_type.add(name="StringIntLabelMapItem")
    item.field.add(name="name", number=1, type=9, label=1)  # optional string
    item.field.add(name="id", number=2, type=5, label=1)  # optional int32
    whole = file.message_type.add(name="StringIntLabelMap")
    kind = f".{package}.StringIntLabelMapItem"
    whole.field.add(name="item", number=1, type=11, label=3, type_name=kind)  # repeated message
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(
        pool.FindMessageTypeByName(f"{package}.StringIntLabelMap")
    )


StringIntLabelMap = _label_map_message()


@given(names=st.lists(st.text(max_size=20), max_size=5))
@example(names=[chr(i) + "7" for i in range(0x100)])
def test_any_label_map_is_read_as_it_was_written(names: list[str]) -> None:
    """Whatever is in a name, protobuf reads it back, from text and from bytes."""
    ids = [(name, i) for i, name in enumerate(names, 1)]
    text = classes.label_map(ids)
    for form in (text, text.encode()):
        message = text_format.Parse(form, StringIntLabelMap())
        assert [(item.name, item.id) for item in message.item] == ids


def test_a_manifest_says_the_ids_itself() -> None:
    """Gaps stay; what else it holds does not matter."""
    entries = [{"id": 7, "name": "dog"}, {"id": 2, "name": "cat", "examples": 3}]
    data = json.dumps({"format": "beam-tfrecord", "classes": entries}).encode()
    assert classes.parse_class_manifest(data, "m.json") == (("cat", 2), ("dog", 7))


# --- filters ------------------------------------------------------------------------------------


def ref(key: str, label: Any = "cat") -> references.SampleRef:
    return references.SampleRef(key, f"/p/{key}", 9, "train", (label,), origin="/p/l.csv")


@in_rows
def test_a_sample_with_another_class_is_a_dead_letter(label: Any, found: str) -> None:
    """As a whole, if one of several is not known; the dead letter names each once."""
    known = classes.KnownClasses(("cat", "dog"), 0, "c.txt")
    message = f"{found}: no class of c.txt, which has cat, dog"
    letter = ("labels", "a.jpg", "/p/a.jpg", "unknown_class", message, "/p/l.csv", 0)
    assert known.dead_letter(ref("a.jpg", label)) == (letter if found else None)


def test_listed_samples_become_dead_letters() -> None:
    """Each with the file and the line that names it."""
    exclusion = classes.Exclusion("/gone.txt", {"b.jpg": 7, "never.jpg": 8})
    samples = [ref("a.jpg"), ref("b.jpg")]
    remaining, letters = classes.SampleFilters((exclusion,)).apply(samples)
    assert remaining == samples[:1]
    message = "left out, as --exclude asks for"
    assert letters == [("join", "b.jpg", "/p/b.jpg", "excluded", message, "/gone.txt", 7)]
    assert exclusion.not_met(letter.key for letter in letters) == ["never.jpg"]


# --- masks --------------------------------------------------------------------------------------


@in_rows
def test_a_mask_names_its_image(
    addition: Any, folders: Any, bare: bool, key: str, image: str
) -> None:
    """Without extension; a mask that lacks the addition keeps its name."""
    names = mask_names.MaskNames(mask_names.Addition(*addition), folders, bare)
    assert names.image_name(key) == image


def test_several_kinds_of_masks_are_told_apart() -> None:
    """The one that is known to hold class ids comes first; another kind may be meant as well."""
    kinds = ("color", "instanceIds", "labelIds")
    masks = [f"{n}_gtFine_{kind}.png" for n in range(5) for kind in kinds]
    names = mask_names.find_names([f"{n}_leftImg8bit.png" for n in range(5)], masks)
    additions = [("", "_leftImg8bit", "", f"_gtFine_{kind}") for kind in kinds]
    assert (names.names.addition, names.further_kinds) == (additions[2], tuple(additions[:2]))
    assert (names.met, names.certain) == (1.0, True)
    masks = ["1_a.png", "1_b.png", "2_a.png", "2_b.png"]
    unknown = mask_names.find_names(["1.jpg", "2.jpg"], masks)
    assert (len(unknown.further_kinds), unknown.certain) == (1, False)
