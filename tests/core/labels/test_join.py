from __future__ import annotations

import random
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.labels import join
from beam_pipeline.core.labels.join import Joined
from beam_pipeline.core.labels.meeting import bucket_of
from beam_pipeline.core.labels.samples import AGREE, KeepUnlabelled, RowMerger
from beam_pipeline.core.labels.schema import ColumnKind, label_column
from beam_pipeline.core.packing import Columns
from beam_pipeline.core.references import Box, ImageRef, LabelRow, LabelValue, SampleRef, Size
from tests.profiles import examples
from tests.rows import in_rows

CSV = "/labels/labels.csv"
NFC, NFD = (unicodedata.normalize(form, "café") for form in ("NFC", "NFD"))


def join_bucket(
    images: Iterable[ImageRef],
    rows: Iterable[LabelRow],
    merger: RowMerger = AGREE,
    keep: KeepUnlabelled | None = None,
) -> Joined:
    """What becomes of images and rows, all samples one by one."""
    return one_by_one(join.join_bucket(columns_of(images), columns_of(rows), merger, keep))


def label_by_folder(images: Iterable[ImageRef], keep: KeepUnlabelled | None = None) -> Joined:
    return one_by_one(join.label_by_folder(columns_of(images), keep))


def one_by_one(joined: Joined) -> Joined:
    return replace(joined, samples=joined.all_samples(), columns=())


def columns_of(items: Iterable[ImageRef] | Iterable[LabelRow]) -> Columns:
    return list(zip(*items, strict=True))


def image(key: str, root: str = "/photos") -> ImageRef:
    return ImageRef(key, f"{root}/{key}", 5)


def row(
    name: str,
    *values: LabelValue,
    line: int = 2,
    file: str = CSV,
    split: str = "",
    problem: str = "",
) -> LabelRow:
    return LabelRow(name, values or ("cat",), split, file, line, problem)


def sample(key: str, *labels: LabelValue, split: str = "train", origin: str = "") -> SampleRef:
    return SampleRef(key, f"/photos/{key}", 5, split, labels, origin=origin)


def left_out(
    key: str, reason: str, message: str, line: int = 0, file: str = "", stage: str = "join"
) -> DeadLetter:
    return DeadLetter(stage, key, f"/photos/{key}", reason, message, file, line)


def labelled(joined: Joined) -> dict[str, tuple[LabelValue, ...]]:
    return {sample.key: sample.labels for sample in joined.samples}


def reasons(joined: Joined) -> dict[str, str]:
    return {dead_letter.key: dead_letter.reason for dead_letter in joined.dead_letters}


def joined_alone(name: str, *keys: str, file: str = CSV) -> list[str]:
    """The keys of the images that a single row of that name labels."""
    joined = join_bucket([image(key) for key in keys], [row(name, file=file)])
    return [sample.key for sample in joined.samples]


# --- the ways of naming -------------------------------------------------------------------------


NAMED = [  # a name; the image that it means; other images
    ("cat/a.jpg", "cat/a.jpg"),
    ("/photos/cat/a.jpg", "cat/a.jpg"),
    ("file:///photos/cat/a.jpg", "cat/a.jpg"),
    ("../photos/cat/a.jpg", "cat/a.jpg"),
    ("./cat/a.jpg", "cat/a.jpg"),
    (".//cat/./a.jpg", "cat/a.jpg"),
    ("cat\\a.jpg", "cat/a.jpg"),
    ("cat/a", "cat/a.jpg"),
    ("cat\\a", "cat/a.jpg"),
    ("cat/a.b", "cat/a.b.jpg"),
    ("a.jpg", "cat/deep/a.jpg"),
    ("a", "cat/deep/a.jpg"),
    ("a.b", "cat/a.b.jpg"),
    ("a", "a"),
    (".a", "cat/.a.jpg"),
    ("a b#[c].jpg", "cat/a b#[c].jpg"),
    ("강아지/사진", "강아지/사진.jpg"),
    # a table made by `dir` or PowerShell says .\cat\a.jpg where others say ./cat/a.jpg
    (".\\cat\\a.jpg", "cat/a.jpg", "dog/a.jpg"),
    (".\\cat\\a", "cat/a.jpg", "dog/a.jpg"),
    # on Linux a name may hold a backslash; the name as written counts before the one of Windows
    ("x\\a.jpg", "x\\a.jpg", "x/a.jpg"),
    ("file:///photos/x\\a.jpg", "x\\a.jpg"),
    # the stricter way of naming decides
    ("a.jpg", "a.jpg", "cat/a.jpg"),
    ("a", "a", "a.jpg"),
    ("cat/a", "cat/a", "cat/a.jpg"),
    ("cat/a", "cat/a.jpg", "dog/a"),
    ("a", "a.jpg", "cat/a"),
    ("a.b", "cat/a.b", "dog/a.b.jpg"),
    ("/photos/a.jpg", "a.jpg", "cat/a.jpg"),
]


@in_rows
def test_a_row_names_its_image_in_one_of_these_ways(name: str, key: str, others: list[str]) -> None:
    """URI, path, path from the label file, with or without folder or extension."""
    assert joined_alone(name, key, *others) == [key]
    assert joined_alone(name, *others, key) == [key]


@in_rows
def test_a_path_may_start_from_the_label_files_folder(file: str, name: str) -> None:
    """Two folders hold this file name, and the one beside the label file is meant; a remote URI is a name."""
    root = "gs://b" if file.startswith("gs:") else "/photos"
    images = [image("train/a.jpg", root), image("test/a.jpg", root)]
    assert labelled(join_bucket(images, [row(name, file=file)])) == {"train/a.jpg": ("cat",)}


SIMILAR = "no listed image has this name, with or without folder or extension"
ELSEWHERE = (
    "no listed image has this path, with or without extension; of the same file name there is"
)
NOWHERE = "no listed image has this path or its file name, with or without extension"
COULD = "could mean {}; name the path relative to the root"
CASE = "the image {} differs from this name in case: write one of them as the other"


@in_rows
def test_a_name_of_none_or_several_images_is_told_so(
    name: str, message: str, keys: list[str]
) -> None:
    """No guess is made: the row and each of the images are dead letters, in any order."""
    reason = "ambiguous_key" if message.startswith("could") else "missing_image"
    for order in (keys, keys[::-1]):
        joined = join_bucket([image(key) for key in order], [row(name, line=7)])
        assert (joined.samples, joined.orphan_rows) == ([], 1)
        assert joined.dead_letters[0] == DeadLetter(
            "join", name, "", reason, message, "/labels/labels.csv", 7
        )
        assert sorted(joined.dead_letters[1:]) == [
            DeadLetter("join", key, f"/photos/{key}", "unlabelled", "no label row names this image")
            for key in sorted(keys)
        ]
    if message.startswith("the image"):
        assert bucket_of(name, 97) == bucket_of(keys[0], 97)


@pytest.mark.parametrize(("listed", "written"), [(NFC, NFD), (NFD, NFC), (NFD, NFD)])
@in_rows
def test_composed_and_decomposed_letters_are_the_same_name(
    listed: str, written: str, form: str
) -> None:
    """macOS writes é as two characters, and a table made elsewhere as one."""
    key = f"{listed}/{listed}.jpg"
    assert joined_alone(form.replace("{}", written), key) == [key]
    assert bucket_of(form.replace("{}", written), 1 << 30) == bucket_of(key, 1 << 30)


def test_two_images_that_differ_in_composition_only_are_told_by_the_exact_name() -> None:
    """The row that spells one of them exactly means it; for their bare names there is no telling."""
    images = [image(f"x/{NFC}.jpg"), image(f"x/{NFD}.jpg")]
    rows = [row(f"x/{NFC}.jpg", "one"), row(f"/photos/x/{NFD}.jpg", "two", line=3)]
    assert labelled(join_bucket(images, rows)) == {
        f"x/{NFC}.jpg": ("one",),
        f"x/{NFD}.jpg": ("two",),
    }
    assert reasons(join_bucket(images, [row(f"{NFC}.jpg")]))[f"{NFC}.jpg"] == "ambiguous_key"


# --- what comes of a match ----------------------------------------------------------------------


@in_rows
def test_an_image_and_its_row_become_a_sample(key: str, asked: str, split: str) -> None:
    """Key, URI and size are the image's, labels the row's; a first folder may name the split."""
    named = row(key, "cat", 3, None, 0.5, split=asked)
    expected = sample(key, "cat", 3, None, 0.5, split=split, origin=CSV)
    for size in (None, (3, 4)):
        joined = join_bucket([image(key)], [named._replace(size=size)])
        assert joined == Joined(samples=[expected._replace(claimed_size=size)])


def test_rows_that_say_the_same_are_one() -> None:
    """Named in different ways, in different files, they agree and are counted as repeated."""
    rows = [row("x/a.jpg"), row("a.jpg", line=9), row("a", file="/labels/b.csv")]
    joined = join_bucket([image("x/a.jpg")], rows)
    expected = sample("x/a.jpg", "cat", origin="/labels/b.csv")
    assert joined == Joined(samples=[expected], repeated_rows=2)


@in_rows
def test_values_agree_as_their_types_have_them(
    first: LabelValue, second: LabelValue, agree: bool
) -> None:
    """Numbers were parsed before they come here, so 5 and 05 agree as numbers, and not as text."""
    joined = join_bucket([image("a.jpg")], [row("a.jpg", first), row("a.jpg", second, line=3)])
    assert bool(joined.samples) is agree
    assert reasons(joined) == ({} if agree else {"a.jpg": "conflicting_labels"})


def test_images_of_the_same_path_in_several_roots_are_duplicates() -> None:
    """Nothing tells which is meant, so each is a dead letter that names the others."""
    roots = ("/photos", "/more", "/x")
    joined = join_bucket([*(image("x/a.jpg", root) for root in roots), image("b.jpg")], [])
    assert joined.dead_letters[:3] == [
        DeadLetter(
            *("join", "x/a.jpg", f"{root}/x/a.jpg", "duplicate_key"),
            "has the same path below its root as "
            + ", ".join(f"{other}/x/a.jpg" for other in sorted({*roots} - {root}))
            + "; rename one of them, or give --images a folder above both",
        )
        for root in roots
    ]
    assert reasons(joined)["b.jpg"] == "unlabelled"


@in_rows
def test_a_row_that_means_duplicates_labels_no_other_image(
    duplicate: str, stem_twin: str, name: str
) -> None:
    """A name that two duplicates answer to is not handed on to an image of another path."""
    images = [image(duplicate), image(duplicate, "/more"), image(stem_twin)]
    joined = join_bucket(images, [row(name)])
    assert labelled(joined) == {}
    assert joined.orphan_rows == 1
    assert reasons(joined)[stem_twin] == "unlabelled"


@pytest.mark.parametrize("name", ["a.jpg", "a", "/photos/a.jpg"])
def test_a_row_that_means_duplicates_is_not_sent_in_circles(name: str) -> None:
    """Their paths below the roots are the same, so only their URIs tell them apart."""
    joined = join_bucket([image("a.jpg"), image("a.jpg", "/more")], [row(name)])
    (dead_letter,) = (dead_letter for dead_letter in joined.dead_letters if not dead_letter.uri)
    assert "path relative to the root" not in dead_letter.message
    assert "/photos/a.jpg" in dead_letter.message
    assert name.startswith("/") or "/more/a.jpg" in dead_letter.message


# --- rows that add up ---------------------------------------------------------------------------

OBJECTS = RowMerger((True, True, False))  # boxes, classes and a text that is the image's


LISTED = RowMerger(by_folder=True)


def listed(name: str, split: str = "", line: int = 2) -> LabelRow:
    return LabelRow(name, (None,), split, "/lists/train.txt", line)


def box_row(
    *boxes: Box,
    classes: tuple[str, ...] = (),
    note: str = "sunny",
    line: int = 2,
    file: str = CSV,
    split: str = "",
) -> LabelRow:
    named = classes or tuple("cat" for _ in boxes)
    return LabelRow("a.jpg", (boxes, named, note), split, file, line)


def box(number: float, line: int = 2) -> Box:
    return (0.0, 0.0, float(number), float(number), line)


@in_rows
def test_the_lists_of_an_images_rows_are_put_together(
    rows: list[LabelRow],
    boxes: tuple[Box, ...],
    classes: tuple[str, ...],
    repeated: int,
    origin: str,
) -> None:
    """In any order in which the rows come; what is no list they share."""
    expected = sample("a.jpg", boxes, classes, "sunny", origin=origin)
    for order in (rows, rows[::-1]):
        joined = join_bucket([image("a.jpg")], order, OBJECTS)
        assert joined == Joined(samples=[expected], repeated_rows=repeated)


def test_a_class_of_several_rows_counts_once() -> None:
    """Numbers of the same rows do not."""
    merger = RowMerger((True, True), unique=(True, False))
    rows = [
        row("a.jpg", ("dog",), (1,)),
        row("a.jpg", ("cat", "dog"), (2, 1), line=3),
        row("a.jpg", (), (), line=4),
    ]
    for order in (rows, rows[::-1]):
        joined = join_bucket([image("a.jpg")], order, merger)
        assert labelled(joined) == {"a.jpg": (("dog", "cat"), (1, 2, 1))}


SIZES = (
    "/labels/labels.csv, line 3 claims an image of 4 x 3 pixels, /labels/labels.csv, line 9 one of "
    "3 x 4; correct the wrong one"
)


@pytest.mark.promise("bad_label")
@pytest.mark.parametrize(
    ("merger", "rows", "message"),
    [
        (
            AGREE,
            [row("a.jpg", "cat", 1, line=3), row("a.jpg", "dog", 1, line=9)],
            "{0}, line 3 says 'cat', 1, {0}, line 9 says 'dog', 1; remove the wrong one",
        ),
        (
            AGREE,
            [row("a.jpg", split="train"), row("a.jpg", split="test", line=3)],
            "{0}, line 2 says 'cat' in train, {0}, line 3 says 'cat' in test; remove the wrong one",
        ),
        (
            AGREE,
            [row("a.jpg", "cat", line=0), row("a.jpg", "dog", line=0)],
            "{0} says 'cat', {0} says 'dog'; remove the wrong one",
        ),
        (  # lists must agree where rows do not add up
            AGREE,
            [
                box_row(box(1, 1), box(2, 2), file="/labels/a.txt", line=0),
                box_row(box(2, 1), box(1, 2), file="/labels/b/a.txt", line=0),
            ],
            "/labels/a.txt says [(0.0, 0.0, 1.0, 1.0), (0.0, 0.0, 2.0, 2.0)], ['cat', 'cat'], 'sunny', "
            "/labels/b/a.txt says [(0.0, 0.0, 2.0, 2.0), (0.0, 0.0, 1.0, 1.0)], ['cat', 'cat'], 'sunny'; "
            "remove the wrong one",
        ),
        (  # what is no list must agree; of each, the first few objects are shown without their lines
            OBJECTS,
            [box_row(*map(box, (1.0, 2.0, 3.0, 4.0, 5.0))), box_row(box(6.0), note="rain", line=3)],
            "{0}, line 2 says [(0.0, 0.0, 1.0, 1.0), (0.0, 0.0, 2.0, 2.0), (0.0, 0.0, 3.0, 3.0) and 2 "
            "more], ['cat', 'cat', 'cat' and 2 more], 'sunny', {0}, line 3 says [(0.0, 0.0, 6.0, 6.0)], "
            "['cat'], 'rain'; remove the wrong one",
        ),
        (  # a size turned is another size, also of rows that say the same otherwise
            OBJECTS,
            [
                box_row(box(1, 3), line=3)._replace(size=(4, 3)),
                box_row(box(3, 5), line=5),
                box_row(box(1, 9), line=9)._replace(size=(3, 4)),
            ],
            SIZES,
        ),
        (
            OBJECTS,
            [
                box_row(box(1, 3), line=3)._replace(size=(4, 3)),
                box_row(box(2, 9), line=9)._replace(size=(3, 4)),
            ],
            SIZES,
        ),
        (
            LISTED,
            [listed("a", "train"), listed("a", "test", line=9)],
            "/lists/train.txt, line 2 says the split train, /lists/train.txt, line 9 says the split "
            "test; remove the wrong one",
        ),
        (  # masks of two kinds complete each other, unless they are in two splits
            RowMerger(complete="mask"),
            [
                row("a.jpg", ("/c.png", 3, 0), None, file="/c.png", split="train"),
                row("a.jpg", None, ("/o.png", 4, 0), file="/o.png", split="test"),
            ],
            "/c.png, line 2 says ['/c.png', 3, 0], None in train, /o.png, line 2 says None, "
            "['/o.png', 4, 0] in test; remove the wrong one",
        ),
    ],
)
def test_rows_that_disagree_cost_the_image(
    merger: RowMerger, rows: list[LabelRow], message: str
) -> None:
    """The message says who says what, the earlier first; file and line are those of the later."""
    later = rows[-1]
    expected = left_out("a.jpg", "conflicting_labels", message.format(CSV), later.line, later.file)
    for order in (rows, rows[::-1]):
        joined = join_bucket([image("a.jpg")], order, merger)
        assert (joined.samples, joined.dead_letters) == ([], [expected])
        assert joined.orphan_rows == 0


@pytest.mark.promise("bad_label")
@pytest.mark.parametrize("merger", [AGREE, OBJECTS])
def test_a_bad_value_costs_the_image_with_file_and_line(merger: RowMerger) -> None:
    """Left out alone, an object would be missing from the example, and nobody would know."""
    problem = "column 'xmin': 'left' is not a number"
    bad = box_row(line=7, file="/labels/more.csv")._replace(problem=problem)
    joined = join_bucket([image("a.jpg")], [box_row(box(1)), bad], merger)
    expected = left_out("a.jpg", "bad_label_value", problem, 7, "/labels/more.csv", "labels")
    assert (joined.samples, joined.dead_letters) == ([], [expected])


def test_lists_may_agree_where_rows_do_not_add_up() -> None:
    """Two label files of one image agree if their objects do, whichever lines they are on."""
    first = box_row(box(1, 1), box(2, 2), file="/labels/a.txt", line=0)
    same = box_row(box(1, 4), box(2, 5), file="/labels/b/a.txt", line=0)
    expected = sample("a.jpg", *first.values, origin="/labels/a.txt")
    joined = join_bucket([image("a.jpg")], [first, same])
    assert joined == Joined(samples=[expected], repeated_rows=1)


ROWS_THAT_ADD_UP = st.lists(
    st.builds(
        box_row,
        st.integers(1, 3).map(box),
        note=st.sampled_from(["sunny", "sunny", "sunny", "rain"]),
        line=st.integers(1, 99),
        file=st.sampled_from(["/labels/a.csv", "/labels/b.csv"]),
    ),
    min_size=1,
    max_size=6,
    unique_by=lambda row: (row.file, row.line),
)


@settings(max_examples=examples(200))
@given(rows=ROWS_THAT_ADD_UP, seed=st.integers(0, 1 << 30))
def test_what_rows_add_up_to_does_not_depend_on_their_order(
    rows: list[LabelRow], seed: int
) -> None:
    """Each object is there once, in every list at the same place, or the rows disagree."""
    joined = join_bucket([image("a.jpg")], rows, OBJECTS)
    shuffled = random.Random(seed).sample(rows, len(rows))
    assert join_bucket([image("a.jpg")], shuffled, OBJECTS) == joined
    notes = {row.values[2] for row in rows}
    assert bool(joined.samples) is (len(notes) == 1)
    for sample in joined.samples:
        boxes, classes, _ = sample.labels
        assert isinstance(boxes, tuple)
        assert isinstance(classes, tuple)
        assert len(boxes) == len(classes) == len(rows) - joined.repeated_rows
        assert len({box[:4] for box in boxes}) == len(boxes)
        assert {box[:4] for box in boxes} == {row.values[0][0][:4] for row in rows}


# --- without a label table ----------------------------------------------------------------------


def test_folders_are_labels_where_there_is_no_table() -> None:
    """Class and split come from the folders; an image without a class folder is a dead letter."""
    images = [image(key) for key in ("cat/a.jpg", "val/dog/big/b.jpg", "c.jpg", "train/d.jpg")]
    message = "is in no class folder; move it into one, or give --labels"
    assert label_by_folder(images) == Joined(
        samples=[
            sample("cat/a.jpg", "cat"),
            sample("val/dog/big/b.jpg", "dog/big", split="validation"),
            sample("train/d.jpg", "train"),
        ],
        dead_letters=[left_out("c.jpg", "unlabelled", message)],
    )


def test_a_listed_image_has_the_class_of_its_folder() -> None:
    """The list says the split, else a folder does; an image in no list is left out."""
    keys = ("a/cat/1.jpg", "train/dog/2.jpg", "test/dog/3.jpg", "cat/4.jpg", "5.jpg", "cat/6.jpg")
    rows = [
        listed("a/cat/1", "test"),
        *(listed(name) for name in ("2", "/photos/test/dog/3.jpg", "cat/4.jpg", "5.jpg")),
        listed("cat/4", line=7),
        listed("cat/9"),
    ]
    joined = join_bucket(map(image, keys), rows, LISTED)
    assert {sample.key: (sample.split, sample.labels) for sample in joined.samples} == {
        "a/cat/1.jpg": ("test", ("a/cat",)),
        "train/dog/2.jpg": ("train", ("dog",)),
        "test/dog/3.jpg": ("test", ("dog",)),
        "cat/4.jpg": ("train", ("cat",)),
    }
    assert reasons(joined) == {
        "5.jpg": "unlabelled",
        "cat/6.jpg": "unlabelled",
        "cat/9": "missing_image",
    }
    assert (joined.orphan_rows, joined.repeated_rows) == (1, 1)


def test_images_in_no_class_folder_are_kept_if_asked_for() -> None:
    """So are those right in a split's folder, and in a folder `unlabelled`; each is marked."""
    keep = KeepUnlabelled.of((label_column("folder", ColumnKind.CLASS),))
    expected = {
        "cat/a.jpg": ("train", ("cat", 1)),
        "c.jpg": ("train", (None, 0)),
        "train/d.jpg": ("train", (None, 0)),
        "Val/e.jpg": ("validation", (None, 0)),
        "test/Unlabeled/f.jpg": ("test", (None, 0)),
        "val/cat/g.jpg": ("validation", ("cat", 1)),
    }
    joined = label_by_folder(map(image, expected), keep)
    assert {sample.key: (sample.split, sample.labels) for sample in joined.samples} == expected
    assert not joined.dead_letters


# --- buckets ------------------------------------------------------------------------------------

FOLDERS = st.sampled_from(["", "x/", "x/y/", "café/", f"{NFD}/", "train/", "a/"])
STEMS = st.sampled_from(["a", "b", "a.b", ".a", NFC, NFD, "a b", "한", "A"])
EXTENSIONS = st.sampled_from(["", ".jpg", ".png", ".b.jpg", ".JPG"])
KEYS = st.builds("{}{}{}".format, FOLDERS, STEMS, EXTENSIONS)
ROOTS = st.sampled_from(["/photos", "/labels", "gs://b/photos"])
IMAGES = st.lists(st.builds(image, KEYS, ROOTS), max_size=8, unique_by=lambda image: image.uri)
FORMS = st.sampled_from(
    ["{}", "./{}", "/photos/{}", "file:///photos/{}", "gs://b/photos/{}", "../photos/{}", "y/../{}"]
)
NAMES = st.builds(
    lambda form, key, windows: form.format(key).replace("/", "\\" if windows else "/"),
    FORMS,
    KEYS,
    st.booleans(),
)
ROWS = st.lists(
    st.builds(
        LabelRow,
        name=NAMES,
        values=st.sampled_from([("cat",), ("dog",)]),
        split=st.sampled_from(["", "", "test"]),
        file=st.sampled_from(["/labels/l.csv", "/photos/x/l.csv", "gs://b/photos/x/l.csv"]),
        line=st.integers(2, 99),
        problem=st.sampled_from(["", "", "", "column 'label': is empty"]),
    ),
    max_size=8,
    unique_by=lambda row: (row.file, row.line),
)


def in_order(joined: Joined) -> Joined:
    return Joined(
        sorted(joined.samples, key=repr),
        sorted(joined.dead_letters),
        joined.orphan_rows,
        joined.repeated_rows,
    )


def join_by_buckets(images: Iterable[ImageRef], rows: Iterable[LabelRow], buckets: int) -> Joined:
    return join_in(images, rows, lambda name: bucket_of(name, buckets))


def join_in(
    images: Iterable[ImageRef], rows: Iterable[LabelRow], bucket: Callable[[str], int]
) -> Joined:
    groups: dict[int, tuple[list[ImageRef], list[LabelRow]]] = {}
    for ref in images:
        groups.setdefault(bucket(ref.key), ([], []))[0].append(ref)
    for label in rows:
        groups.setdefault(bucket(label.name), ([], []))[1].append(label)
    whole = Joined()
    for group in groups.values():
        part = join_bucket(*group)
        whole.samples += part.samples
        whole.dead_letters += part.dead_letters
        whole.orphan_rows += part.orphan_rows
        whole.repeated_rows += part.repeated_rows
    return whole


@settings(max_examples=examples(400))
@given(images=IMAGES, rows=ROWS, buckets=st.sampled_from([1, 2, 3, 7, 1024, 1 << 31]))
def test_buckets_come_to_the_same_as_everything_at_once(
    images: list[ImageRef], rows: list[LabelRow], buckets: int
) -> None:
    """However many buckets there are, no row and image that could meet are kept apart."""
    assert in_order(join_by_buckets(images, rows, buckets)) == in_order(join_bucket(images, rows))


@in_rows
def test_a_name_that_ends_in_a_slash_meets_its_image_in_any_bucket_or_in_none(name: str) -> None:
    """Names that are odd come to the same with one bucket and with many."""
    images, rows = [image("a.jpg")], [row(name, file="/photos/l.csv")]
    for buckets in (2, 3, 1024):
        in_buckets = in_order(join_by_buckets(images, rows, buckets))
        assert in_buckets == in_order(join_bucket(images, rows))


@settings(max_examples=examples(300))
@given(images=IMAGES, rows=ROWS, seed=st.integers(0, 1 << 30))
def test_the_order_of_images_and_rows_plays_no_part(
    images: list[ImageRef], rows: list[LabelRow], seed: int
) -> None:
    """Samples and dead letters, their messages included, are the same in any order."""
    shuffler = random.Random(seed)
    other_images = shuffler.sample(images, len(images))
    other_rows = shuffler.sample(rows, len(rows))
    assert in_order(join_bucket(other_images, other_rows)) == in_order(join_bucket(images, rows))


@pytest.mark.promise("books")
@settings(max_examples=examples(300))
@given(images=IMAGES, rows=ROWS)
def test_the_books_of_a_join_balance(images: list[ImageRef], rows: list[LabelRow]) -> None:
    """Every image and every row without one ends once, as a sample or as a dead letter."""
    joined = join_bucket(images, rows)
    assert len(images) + joined.orphan_rows == len(joined.samples) + len(joined.dead_letters)
    ends = [sample.uri for sample in joined.samples]
    ends += [dead_letter.uri for dead_letter in joined.dead_letters if dead_letter.uri]
    assert Counter(ends) == Counter(ref.uri for ref in images)
    orphans = [dead_letter for dead_letter in joined.dead_letters if not dead_letter.uri]
    assert len(orphans) == joined.orphan_rows
    assert {dead_letter.reason for dead_letter in orphans} <= {"missing_image", "ambiguous_key"}


@settings(max_examples=examples(300))
@given(images=IMAGES, rows=ROWS)
def test_every_row_is_accounted_for(images: list[ImageRef], rows: list[LabelRow]) -> None:
    """A row is an orphan, or says something of one image, or says again what another row says."""
    orphans = 0
    values_of: dict[str, set[tuple[object, ...]]] = {}  # URI -> what rows say of it
    for label in rows:
        single = join_bucket(images, [label])
        orphans += single.orphan_rows
        met = [sample.uri for sample in single.samples]
        met += [
            dead_letter.uri
            for dead_letter in single.dead_letters
            if dead_letter.reason == "bad_label_value"
        ]
        assert len(met) + single.orphan_rows == 1
        for uri in met:
            values_of.setdefault(uri, set()).add((label.values, label.split, label.problem))
    joined = join_bucket(images, rows)
    assert joined.orphan_rows == orphans
    assert joined.repeated_rows == len(rows) - orphans - sum(map(len, values_of.values()))
    agreed = {uri for uri, values in values_of.items() if len(values) == 1}
    assert {sample.uri for sample in joined.samples} <= agreed
    assert len(joined.samples) == sum(
        not problem for uri in agreed for *_, problem in values_of[uri]
    )


class EmptyIfUnnamed:
    """Images that no row names have no objects."""

    def row(self, image: ImageRef) -> LabelRow:
        return LabelRow(image.key, ((),), "test", "", 0)

    def unread(self, uri: str, problem: str) -> LabelRow:
        raise AssertionError(uri)


def test_images_without_a_row_may_stand_for_something() -> None:
    """Those that no row names; one that a row may mean, or that is there twice, is left out as ever."""
    images = [image(key) for key in ("a.jpg", "b.jpg", "x/c.jpg", "y/c.jpg")]
    rows = [row("b.jpg"), row("c.jpg")]
    joined = join_bucket(images, rows, RowMerger(unnamed=EmptyIfUnnamed()))
    assert labelled(joined) == {"a.jpg": ((),), "b.jpg": ("cat",)}
    assert [sample.split for sample in joined.samples] == ["test", "train"]
    assert reasons(joined) == {
        "c.jpg": "ambiguous_key",
        "x/c.jpg": "unlabelled",
        "y/c.jpg": "unlabelled",
    }


@pytest.mark.parametrize("unknown", [None, (0, 0), (0, 4)])
def test_a_row_that_claims_no_size_agrees_with_one_that_does(unknown: Size | None) -> None:
    """In any order, also where one says again what the other says."""
    rows = [box_row(box(1, 2))._replace(size=unknown), box_row(box(1, 3), line=3)]
    for order in (rows, rows[::-1]):
        (sample,) = join_bucket([image("a.jpg")], order, OBJECTS).samples
        assert sample.claimed_size is None
    rows[1] = rows[1]._replace(size=(3, 4))
    for order in (rows, rows[::-1]):
        (sample,) = join_bucket([image("a.jpg")], order, OBJECTS).samples
        assert (sample.labels[0], sample.claimed_size) == ((box(1, 2),), (3, 4))


def test_files_of_one_image_complete_each_other() -> None:
    """Each fills a column; two of one column conflict, and without the first there is no label."""
    images = [image(f"{name}.jpg") for name in "abcd"]
    classes, objects = ("/c/a.png", 3, 0), ("/o/a.png", 4, 0)
    rows = [
        row("a", None, objects, file="/o/a.png", split="train"),
        row("a", classes, None, file="/c/a.png"),
        row("b", classes, None, file="/c/b.png"),
        row("c", None, objects, file="/o/c.png"),
        row("d", classes, None, file="/c/d.png"),
        row("d", objects, None, file="/c/d.gif"),
    ]
    joined = join_bucket(images, rows, RowMerger(complete="mask"))
    assert labelled(joined) == {"a.jpg": (classes, objects), "b.jpg": (classes, None)}
    assert {sample.key: sample.split for sample in joined.samples}["a.jpg"] == "train"
    assert {letter.key: (letter.reason, letter.message) for letter in joined.dead_letters} == {
        "c.jpg": ("unlabelled", "no mask is for this image"),
        "d.jpg": (
            "conflicting_labels",
            "/c/d.gif and /c/d.png are both masks of this image; remove one, or name those that are "
            "meant with a pattern, such as --masks 'masks/**/*_labelIds.png'",
        ),
    }


def member(key: str, *aliases: str) -> ImageRef:
    """An image in an archive."""
    return image(key)._replace(aliases=aliases)


@in_rows
def test_a_member_of_an_archive_has_more_names(name: str, key: str) -> None:
    """Its path in the archive, that behind the archive's name, and that below the first folder."""
    zipped = member("p.zip/x/cat/1.jpg", "cat/1.jpg", "x/cat/1.jpg", "p/x/cat/1.jpg", "cat/1.jpg")
    joined = join_bucket([zipped, image("dog/2.jpg")], [row(name)])
    assert [sample.key for sample in joined.samples] == [key] * bool(key)


def test_names_in_archives_count_in_their_order() -> None:
    """A path in an archive comes before one below a first folder; the same in two is ambiguous."""
    first = member("a.zip/x/1.jpg", "x/1.jpg", "x/1.jpg", "a/x/1.jpg", "")
    second = member("b.zip/y/x/1.jpg", "y/x/1.jpg", "y/x/1.jpg", "b/y/x/1.jpg", "x/1.jpg")
    joined = join_bucket([first, second], [row("x/1.jpg")])
    assert [sample.key for sample in joined.samples] == ["a.zip/x/1.jpg"]
    same = first._replace(key="c.zip/x/1.jpg")
    assert reasons(join_bucket([first, same], [row("x/1.jpg")]))["x/1.jpg"] == "ambiguous_key"
