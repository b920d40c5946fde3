"""Rows that name folders, and label all images below."""

from __future__ import annotations

import unicodedata
from collections import defaultdict

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from beam_pipeline.core.labels.join import Joined, join_bucket
from beam_pipeline.core.labels.meeting import NameDivision
from beam_pipeline.core.labels.samples import RowMerger
from beam_pipeline.core.references import ImageRef, LabelRow
from tests.profiles import examples

STEPS = st.sampled_from(["a", "b", "A.1", "a\\b", "é", "e\u0301"])
PATHS = st.lists(STEPS, max_size=4).map("/".join)
NAMES = st.builds(
    "{}{}{}".format,
    st.sampled_from(["", "./", "/photos/", "x/y/z/"]),
    PATHS,
    st.just("/") | st.just(""),
)


def image(path: str, *, archived: bool) -> ImageRef:
    """The image in a folder, whose URI ends in its key, or in an archive, whose URI does not."""
    key = f"{path}/{int(archived)}.jpg".lstrip("/")
    return ImageRef(key, "tar://x.tar!0-5" if archived else f"/photos/{key}", 5)


def plain(path: str) -> str:
    """A path as it is compared."""
    path = unicodedata.normalize("NFC", path).replace("\\", "/")
    return "/" + path.strip("/").removeprefix("./")


@pytest.mark.promise("books")
@settings(max_examples=examples(300))
@given(
    images=st.lists(st.builds(image, PATHS, archived=st.booleans()), unique_by=lambda ref: ref.key),
    names=st.lists(NAMES, max_size=6),
    level=st.integers(1, 3),
    buckets=st.sampled_from([1, 2, 1024]),
)
@example([image("a/b", archived=True)], ["a/b", "b", "x/y/z/a/b"], 2, 1)
@example([image("a\\b/b", archived=False)], ["a/b/b", "/"], 2, 1024)
@example([image("b/a\\b", archived=False), image("", archived=False)], ["/", "a/b"], 2, 1024)
def test_rows_label_the_images_below_the_one_folder_that_they_name(
    images: list[ImageRef], names: list[str], level: int, buckets: int
) -> None:
    """In however many buckets; each other row is an orphan, and each other image is unlabelled."""
    rows = [LabelRow(name, ("cat",), "", "/l.csv", line) for line, name in enumerate(names)]
    in_buckets: dict[int, tuple[list[ImageRef], list[LabelRow]]] = defaultdict(lambda: ([], []))
    for ref in images:
        (number,) = NameDivision(buckets, level).numbers([[ref.key]])
        in_buckets[number][0].append(ref)
    for row in rows:
        (number,) = NameDivision(buckets, 0).numbers([[row.name]])
        in_buckets[number][1].append(row)
    parts = [
        join_bucket([*zip(*refs, strict=True)], [*zip(*rows, strict=True)], RowMerger(level=level))
        for refs, rows in in_buckets.values()
    ]
    folders = defaultdict(list)
    for ref in images:
        path = ref.uri if ref.uri.endswith(ref.key) else ref.key
        if (below := ref.key.count("/") - level) >= 0:
            folders[plain(path.rsplit("/", below + 1)[0])].append(ref.key)
    meant = {
        row: [path for path in folders if path.endswith(plain(row.name)) and plain(row.name) != "/"]
        for row in rows
    }
    labelled = {key for paths in meant.values() if len(paths) == 1 for key in folders[paths[0]]}
    orphans = {
        row.line: "ambiguous_key" if paths else "missing_image"
        for row, paths in meant.items()
        if len(paths) != 1
    }
    whole = Joined()
    for part in parts:
        whole.samples += part.samples
        whole.dead_letters += part.dead_letters
        whole.orphan_rows += part.orphan_rows
        whole.repeated_rows += part.repeated_rows
    assert sorted(sample.key for sample in whole.samples) == sorted(labelled)
    letters = whole.dead_letters
    assert {each.line: each.reason for each in letters if not each.uri} == orphans
    assert sorted((each.key, each.reason) for each in letters if each.uri) == sorted(
        (ref.key, "unlabelled") for ref in images if ref.key not in labelled
    )
    assert whole.orphan_rows == len(orphans)
    uses = {paths[0] for paths in meant.values() if len(paths) == 1}
    assert whole.repeated_rows == len(rows) - len(orphans) - len(uses)
