"""Images joined with the rows that name them or their folders."""

from __future__ import annotations

import random
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from beam_pipeline.core.labels import join, matching, schema
from beam_pipeline.core.labels.samples import AGREE, KeepUnlabelled, RowMerger
from beam_pipeline.core.references import ImageRef, LabelRow
from tests.core.labels.fixtures import joined
from tests.profiles import examples
from tests.rows import in_rows

NFC, NFD = (unicodedata.normalize(form, "café") for form in ("NFC", "NFD"))


def image(key: str, **fields: Any) -> ImageRef:
    return ImageRef(key, f"/photos/{key}", 5)._replace(**fields)


def row(name: str, values: Any = ("cat",), **fields: Any) -> LabelRow:
    return LabelRow(name, values, "", "/labels/labels.csv", 2)._replace(**fields)


class EmptyIfUnnamed:
    """Images that no row names have no objects."""

    def row(self, image: ImageRef) -> LabelRow:
        return LabelRow(image.key, ((),), "test", "", 0)

    def unread(self, uri: str, problem: str) -> LabelRow:
        raise AssertionError(uri)


OBJECTS = RowMerger((True, True, False))  # boxes, classes and a text that is the image's
MERGERS = {
    "agree": AGREE,
    "objects": OBJECTS,
    "unique": RowMerger((True, True), unique=(True, False)),
    "listed": RowMerger(by_folder=True),
    "masks": RowMerger(complete="mask"),
    "unnamed": RowMerger(unnamed=EmptyIfUnnamed()),
    "folders above": RowMerger(level=2),
}
KEEP = {
    "folders": None,
    "kept folders": KeepUnlabelled.of((schema.label_column("folder", schema.ColumnKind.CLASS),)),
}


def outcome(merger: str, images: Sequence[Any], rows: Sequence[Any]) -> tuple[Any, ...]:
    """Samples as (URI, split, labels, file, size), dead letters, and the number of repeated rows."""
    refs = [image(i) if isinstance(i, str) else image(i[0], **i[1]) for i in images]
    if merger in KEEP:
        found = join.label_by_folder(list(zip(*refs, strict=True)), KEEP[merger])
    else:
        found = joined(refs, [row(*r[:2], **dict(*r[2:])) for r in rows], MERGERS[merger])
    assert found.orphan_rows == sum(not letter.uri for letter in found.dead_letters)
    assert {sample[:3] for sample in found.all_samples()} <= {ref[:3] for ref in refs}
    samples = sorted(
        (sample.uri, sample.split, sample.labels, sample.origin, sample.claimed_size)
        for sample in found.all_samples()
    )
    return samples, [tuple(letter) for letter in found.dead_letters], found.repeated_rows


@pytest.mark.promise("bad_label")
@in_rows
def test_images_and_rows_come_to_this(
    merger: str, images: Any, rows: Any, samples: Any, letters: Any, repeated: int
) -> None:
    """In any order; keys and sizes of samples are the images'."""
    for order in (1, -1):
        found = outcome(merger, images[::order], rows[::order])
        assert found == (samples, letters, repeated)


@in_rows
def test_a_row_names_its_image_in_one_of_these_ways(name: str, key: str, others: list[str]) -> None:
    """URI, path, path from the label file, with or without folder or extension."""
    for keys in ([key, *others], [*others, key]):
        assert [sample.key for sample in joined(map(image, keys), [row(name)]).samples] == [key]


@in_rows
def test_a_name_of_none_or_several_images_is_told_so(
    name: str, message: str, keys: list[str]
) -> None:
    """No guess is made: the row and each of the images are dead letters, in any order."""
    reason = "ambiguous_key" if message.startswith("could") else "missing_image"
    letters = [("join", name, "", reason, message, "/labels/labels.csv", 7)] + [
        ("join", key, f"/photos/{key}", "unlabelled", "no label row names this image", "", 0)
        for key in keys
    ]
    for order in (keys, keys[::-1]):
        found = joined(map(image, order), [row(name, line=7)])
        assert (found.samples, found.dead_letters) == ([], sorted(letters))
    if message.startswith("the image"):
        assert matching.bucket_of(name, 97) == matching.bucket_of(keys[0], 97)


@pytest.mark.parametrize(("listed", "written"), [(NFC, NFD), (NFD, NFC), (NFD, NFD)])
@in_rows
def test_composed_and_decomposed_letters_are_the_same_name(
    listed: str, written: str, form: str
) -> None:
    """macOS writes é as two characters, and a table made elsewhere as one."""
    key, name = f"{listed}/{listed}.jpg", form.replace("{}", written)
    assert [sample.key for sample in joined([image(key)], [row(name)]).samples] == [key]
    assert matching.bucket_of(name, 1 << 30) == matching.bucket_of(key, 1 << 30)


def object_row(number: int, note: str, line: int, file: str) -> LabelRow:
    box = (0.0, 0.0, float(number), float(number), line)
    return row("a.jpg", ((box,), ("cat",), note), line=line, file=file)


@settings(max_examples=examples(200))
@given(
    rows=st.lists(
        st.builds(
            object_row,
            st.integers(1, 3),
            st.sampled_from(["sunny", "sunny", "sunny", "rain"]),
            st.integers(1, 99),
            st.sampled_from(["/labels/a.csv", "/labels/b.csv"]),
        ),
        min_size=1,
        max_size=6,
        unique_by=lambda row: (row.file, row.line),
    ),
    seed=st.integers(0, 1 << 30),
)
def test_what_rows_add_up_to_does_not_depend_on_their_order(
    rows: list[LabelRow], seed: int
) -> None:
    """Each object is there once, in every list at the same place, or the rows disagree."""
    found = joined([image("a.jpg")], rows, OBJECTS)
    shuffled = random.Random(seed).sample(rows, len(rows))
    assert joined([image("a.jpg")], shuffled, OBJECTS) == found
    assert len(found.samples) == (len({row.values[2] for row in rows}) == 1)
    for sample in found.samples:
        boxes: Any = sample.labels[0]
        assert sample.labels[1] == ("cat",) * (len(rows) - found.repeated_rows)
        assert sorted(box[2] for box in boxes) == sorted({row.values[0][0][2] for row in rows})
        assert len(boxes) == len(sample.labels[1])


# --- buckets ------------------------------------------------------------------------------------

FOLDERS = st.sampled_from(["", "x/", "x/y/", "café/", f"{NFD}/", "train/", "a/"])
STEMS = st.sampled_from(["a", "b", "a.b", ".a", NFC, NFD, "a b", "한", "A"])
EXTENSIONS = st.sampled_from(["", ".jpg", ".png", ".b.jpg", ".JPG"])
KEYS = st.builds("{}{}{}".format, FOLDERS, STEMS, EXTENSIONS)
ROOTS = st.sampled_from(["/photos", "/labels", "gs://b/photos"])
IMAGES = st.lists(
    st.builds(lambda key, root: image(key, uri=f"{root}/{key}"), KEYS, ROOTS),
    max_size=8,
    unique_by=lambda image: image.uri,
)
FORMS = st.sampled_from(
    ["{}", "./{}", "/photos/{}", "file:///photos/{}", "gs://b/photos/{}", "../photos/{}", "y/../{}"]
)
NAMES = st.builds(
    lambda form, key, slash: form.format(key).replace("/", slash),
    FORMS,
    KEYS,
    st.sampled_from(["\\", "/"]),
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
BUCKETS = st.sampled_from([1, 2, 3, 7, 1024, 1 << 31])


@pytest.mark.promise("books")
@settings(max_examples=examples(400))
@given(images=IMAGES, rows=ROWS, buckets=BUCKETS, seed=st.integers(0, 1 << 30))
@example([image("a.jpg")], [row("./a.jpg/", file="/photos/l.csv")], 1024, 0)
@example([image("a.jpg")], [row("./a.jpg/.", file="/photos/l.csv")], 1024, 0)
@example([image("a.jpg")], [row("x/../a.jpg/", file="/photos/l.csv")], 1024, 0)
def test_the_books_of_a_join_balance_in_any_buckets_and_order(
    images: list[ImageRef], rows: list[LabelRow], buckets: int, seed: int
) -> None:
    """Every image and every row without one ends once; no row and image that could meet are kept apart."""
    found = joined(images, rows)
    shuffler = random.Random(seed)
    other_images, other_rows = (shuffler.sample(items, len(items)) for items in (images, rows))
    assert joined(other_images, other_rows, buckets=buckets) == found
    ends = [sample.uri for sample in found.samples]
    ends += [letter.uri for letter in found.dead_letters if letter.uri]
    assert Counter(ends) == Counter(ref.uri for ref in images)
    orphans = [letter.reason for letter in found.dead_letters if not letter.uri]
    assert len(orphans) == found.orphan_rows
    assert {*orphans} <= {"missing_image", "ambiguous_key"}


@settings(max_examples=examples(300))
@given(images=IMAGES, rows=ROWS)
def test_every_row_is_accounted_for(images: list[ImageRef], rows: list[LabelRow]) -> None:
    """A row is an orphan, or says something of one image, or says again what another row says."""
    orphans = 0
    values_of: dict[str, set[tuple[object, ...]]] = defaultdict(set)  # URI -> what rows say of it
    for label in rows:
        single = joined(images, [label])
        letters = [one for one in single.dead_letters if one.reason == "bad_label_value"]
        for meant in (*single.samples, *letters):
            values_of[meant.uri].add((label.values, label.split, label.problem))
        assert len(single.samples) + len(letters) + single.orphan_rows == 1
        orphans += single.orphan_rows
    found = joined(images, rows)
    assert found.orphan_rows == orphans
    assert found.repeated_rows == len(rows) - orphans - sum(map(len, values_of.values()))
    agreed = [uri for uri, values in values_of.items() if len(values) == 1]
    sound = sorted(uri for uri in agreed for *_, problem in values_of[uri] if not problem)
    assert sorted(sample.uri for sample in found.samples) == sound


# --- rows that name folders, and label all images below -----------------------------------------

STEPS = st.sampled_from(["a", "b", "A.1", "a\\b", "é", "e\u0301"])
PATHS = st.lists(STEPS, max_size=4).map("/".join)
FOLDER_NAMES = st.builds(
    "{}{}{}".format,
    st.sampled_from(["", "./", "/photos/", "x/y/z/"]),
    PATHS,
    st.sampled_from(["/", ""]),
)


def image_in(path: str, *, archived: bool) -> ImageRef:
    """The image in a folder, whose URI ends in its key, or in an archive, whose URI does not."""
    ref = image(f"{path}/{int(archived)}.jpg".lstrip("/"))
    return ref._replace(uri="tar://x.tar!0-5") if archived else ref


def plain(path: str) -> str:
    """A path as it is compared."""
    path = unicodedata.normalize("NFC", path).replace("\\", "/")
    return "/" + path.strip("/").removeprefix("./")


@pytest.mark.promise("books")
@settings(max_examples=examples(300))
@given(
    images=st.lists(
        st.builds(image_in, PATHS, archived=st.booleans()), unique_by=lambda ref: ref.key
    ),
    names=st.lists(FOLDER_NAMES, max_size=6),
    level=st.integers(1, 3),
    buckets=st.sampled_from([1, 2, 1024]),
)
@example([image_in("a/b", archived=True)], ["a/b", "b", "x/y/z/a/b"], 2, 1)
@example([image_in("a\\b/b", archived=False)], ["a/b/b", "/"], 2, 1024)
@example([image_in("b/a\\b", archived=False), image_in("", archived=False)], ["/", "a/b"], 2, 1024)
def test_rows_label_the_images_below_the_one_folder_that_they_name(
    images: list[ImageRef], names: list[str], level: int, buckets: int
) -> None:
    """In however many buckets; each other row is an orphan, and each other image is unlabelled."""
    rows = [row(name, line=line) for line, name in enumerate(names)]
    found = joined(images, rows, RowMerger(level=level), buckets)
    folders = defaultdict(list)
    for ref in images:
        path = ref.uri if ref.uri.endswith(ref.key) else ref.key
        if (below := ref.key.count("/") - level) >= 0:
            folders[plain(path.rsplit("/", below + 1)[0])].append(ref.key)
    ends = [
        (plain(name), [path for path in folders if path.endswith(plain(name))]) for name in names
    ]
    meant = [paths if name != "/" else [] for name, paths in ends]
    used = {paths[0] for paths in meant if len(paths) == 1}
    labelled = {key for path in used for key in folders[path]}
    assert {sample.key for sample in found.samples} == labelled
    assert len(found.samples) == len(labelled)
    orphans = {
        line: "ambiguous_key" if paths else "missing_image"
        for line, paths in enumerate(meant)
        if len(paths) != 1
    }
    letters = found.dead_letters
    assert {letter.line: letter.reason for letter in letters if not letter.uri} == orphans
    assert sorted((letter.key, letter.reason) for letter in letters if letter.uri) == sorted(
        (ref.key, "unlabelled") for ref in images if ref.key not in labelled
    )
    assert found.orphan_rows == len(orphans)
    assert found.repeated_rows == len(rows) - len(orphans) - len(used)
