"""Listing a bucket in ranges of names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from beam_pipeline.core.errors import BucketError, ListingError
from beam_pipeline.core.listing.filters import ImageRoot, LabelFile, LabelFiles, Listed
from beam_pipeline.core.references import ImageRef
from beam_pipeline.storage import files
from beam_pipeline.storage.base import FoundFile
from beam_pipeline.storage.key_ranges import KeyRange
from beam_pipeline.storage.listing import (
    FanOut,
    NameRange,
    cut,
    list_all,
    list_bucket,
    list_local_root,
    list_range,
    list_ranges,
    list_root,
    lists_ranges,
    whole_range,
)
from tests.pictures import write_files
from tests.storage.fixtures import MemoryFiles
from tests.transforms.buckets import PAGE, SMALL, Serve, image_at, photos, together

# --- any storage that lists ranges ---------------------------------------------------------------


@pytest.fixture
def storage(monkeypatch: pytest.MonkeyPatch) -> MemoryFiles:
    """A bucket `mem://pets` with photographs, hidden ones, and files of other kinds."""
    names = [*(f"{animal}/{n:03d}.jpg" for animal in ("cat", "dog", "owl") for n in range(40))]
    names += ["a.txt", "cat/.hidden.jpg", "dog/.git/1.jpg", "dog/.git/2.jpg", "dog/", "zebra.TXT"]
    storage = MemoryFiles({f"mem://pets/{name}": b"x" * (len(name)) for name in names})
    monkeypatch.setattr(files, "_remote", lambda scheme: storage)
    return storage


ROOT = ImageRoot("mem://pets")
IMAGES = [
    ImageRef(key, f"mem://pets/{key}", len(key))
    for key in (f"{animal}/{n:03d}.jpg" for animal in ("cat", "dog", "owl") for n in range(40))
]
IGNORED = Counter({".txt": 2, "hidden files": 1, "hidden folders": 1})


@pytest.mark.parametrize("batch_size", [1, 7, 1000])
@pytest.mark.parametrize(
    "fan_out",
    [
        FanOut(),
        FanOut(first=2, names=2, ranges=1, threads=1),
        FanOut(first=2, names=3, ranges=8, threads=3),
        FanOut(first=50, names=10, ranges=4, threads=2),
    ],
)
def test_every_name_is_listed_once(storage: MemoryFiles, fan_out: FanOut, batch_size: int) -> None:
    """However the names are cut into ranges and batches, and so is what is passed over."""
    listed = list(list_bucket(ROOT, batch_size, fan_out))
    texts = [LabelFile(name, f"mem://pets/{name}") for name in ("a.txt", "zebra.TXT")]
    passed_over = LabelFiles(Counter({".txt": 2}), {".txt": texts})
    assert together(listed) == Listed(IMAGES, [], IGNORED, passed_over)
    assert max(len(batch.images) for batch in listed) <= batch_size


def test_a_long_range_ends_with_the_rest_of_it(storage: MemoryFiles) -> None:
    """The rest begins with the first name that was not listed."""
    *batches, rest = list_range(NameRange(ROOT), 2, most=5)
    listed = together(batches)
    assert (listed.images, listed.ignored) == (IMAGES[:2], {".txt": 1, "hidden files": 1})
    assert rest == NameRange(ROOT, KeyRange("cat/002.jpg", ""))
    assert isinstance(rest, NameRange)
    assert together(list_range(rest, 1000, most=1000)).images == IMAGES[2:]


def test_ranges_are_cut_at_names(storage: MemoryFiles) -> None:
    """Together they hold what the whole held, each name in one of them."""
    ranges = list(cut(NameRange(ROOT), FanOut(ranges=6)))
    assert len(ranges) > 1
    parts = [together(list_range(part, 1000, most=1000)).images for part in ranges]
    assert [image for images in parts for image in images] == IMAGES


def test_ranges_are_listed_side_by_side_and_their_rests_come_back(storage: MemoryFiles) -> None:
    """`list_ranges` lists each up to the limit, `list_all` to the end."""
    ranges = [NameRange(ROOT, KeyRange(a, f"{a}~")) for a in ("cat", "dog", "owl")]
    found = list(list_ranges(ranges, 1000, FanOut(names=11, threads=2)))
    rests = {part for part in found if isinstance(part, NameRange)}
    assert rests == {
        NameRange(ROOT, KeyRange("cat/009.jpg", "cat~")),
        NameRange(ROOT, KeyRange("dog/007.jpg", "dog~")),
        NameRange(ROOT, KeyRange("owl/010.jpg", "owl~")),
    }
    assert together(part for part in found if isinstance(part, Listed)).images == [
        *IMAGES[:9],
        *IMAGES[40:47],
        *IMAGES[80:90],
    ]
    assert together(list_all(ranges, 1000, FanOut(names=11, threads=2))).images == IMAGES


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (BucketError("bucket mem://pets does not exist"), "bucket mem://pets does not exist"),
        (OSError(5, "the network is down"), "the network is down"),
        (OSError("timed out"), "timed out"),
    ],
)
def test_what_cannot_be_listed_is_an_error(
    storage: MemoryFiles, monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    """It names the root and the reason, in a listing as in the probes for ranges."""

    def fails(*_: str, **__: bool) -> Iterator[FoundFile]:
        raise error

    for method, listing in (
        ("list_range", list_range(NameRange(ROOT), 1000, most=1000)),
        ("first_name", cut(NameRange(ROOT), FanOut())),
    ):
        monkeypatch.setattr(storage, method, fails)
        with pytest.raises(ListingError, match=f"^mem://pets cannot be listed: {said}$"):
            list(listing)


def test_only_some_storage_lists_ranges(storage: MemoryFiles, tmp_path: Path) -> None:
    """A local folder is listed folder by folder."""
    assert lists_ranges(ROOT)
    assert not lists_ranges(ImageRoot(str(tmp_path)))


# --- Google Cloud Storage ------------------------------------------------------------------------


@pytest.mark.buckets
def test_few_objects_are_listed_page_after_page(serve: Serve) -> None:
    """A bucket of a page or two is asked for its pages and nothing else; key, URI, size and
    generation are the objects'; other folders, also with the same beginning, are not asked for."""
    names = [*photos(2 * PAGE - 2), "photos/"]
    server = serve([*names, "photos2/b.jpg", "photo/c.jpg", "d.jpg"])
    listed = together(list_bucket(ImageRoot("gs://pets/photos"), 1000, SMALL))
    assert listed.images == [image_at(name, "photos") for name in names[:-1]]
    assert listed.ignored == Counter()
    assert [(request.prefix, request.found) for request in server.requests] == [
        ("photos/", PAGE),
        ("photos/", PAGE - 1),
    ]


@pytest.mark.buckets
def test_many_objects_are_listed_in_ranges_side_by_side(serve: Serve) -> None:
    """Each is listed once. The longest chain of pages that wait for each other falls with the
    number of ranges, at the price of a probe or two a range."""
    names = photos(20_000)
    expected = [image_at(name, "photos") for name in names]
    server = serve(names)
    root = ImageRoot("gs://pets/photos")
    assert together(list_range(NameRange(root), 1000, len(names) + 1)).images == expected
    assert (server.chains(), server.probes) == ([100], 0)
    longest = {}
    for ranges in (16, 64):
        server.requests.clear()
        assert together(list_bucket(root, 1000, SMALL._replace(ranges=ranges))).images == expected
        longest[ranges] = max(server.chains())
        assert sum(server.chains()) <= 100 + 2 * ranges
        assert server.probes <= 3 * ranges
    assert longest == {16: 10, 64: 3}


@pytest.mark.buckets
def test_a_range_that_turns_out_long_is_cut_again(serve: Serve) -> None:
    """Whatever was thought of it, no range is listed further than the limit says."""
    small = [f"photos/{letter}/{number}.jpg" for letter in "abcdefg" for number in range(100)]
    huge = [f"photos/huge/{number:06d}.jpg" for number in range(30_000)]
    server = serve([*small, *huge])
    listed = together(list_bucket(ImageRoot("gs://pets/photos"), 1000, SMALL))
    assert listed.images == sorted(image_at(name, "photos") for name in (*small, *huge))
    assert max(server.chains()) <= 16 + 1


HIDDEN = [
    *(f"cat/.thumbnails/{number:04d}.jpg" for number in range(900)),
    *(f"cat/.thumbnails/deep/.er/{number}.jpg" for number in range(10)),
    *(f"__MACOSX/{number:04d}.jpg" for number in range(900)),
    *(f".git/{first}/{number}.jpg" for first in "0123456789abcdef" for number in range(40)),
]
OTHERS = ["cat/.a.jpg", "cat/b.txt", "c.TXT", "dog/e", *(f"cat/{n}.jpg" for n in range(300))]


@pytest.mark.buckets
@pytest.mark.parametrize("ranges", [1, 16, 64])
def test_what_is_passed_over_is_what_is_in_a_local_folder(
    serve: Serve, tmp_path: Path, ranges: int
) -> None:
    """The same images, the same counts: a hidden folder counts once, also if several ranges begin
    in it."""
    write_files(str(tmp_path), dict.fromkeys((*HIDDEN, *OTHERS), b"x"))
    server = serve(f"photos/{name}" for name in (*HIDDEN, *OTHERS))
    local = together(list_local_root(ImageRoot(str(tmp_path)), 1000))
    fan_out = FanOut(first=2, names=100, ranges=ranges)
    listed = together(list_bucket(ImageRoot("gs://pets/photos"), 1000, fan_out))
    assert [image.key for image in listed.images] == [image.key for image in local.images]
    assert listed.ignored == local.ignored
    assert local.ignored == {"hidden folders": 3, "hidden files": 1, ".txt": 2}
    assert [file.key for file in listed.label_files.first[".txt"]] == ["c.TXT", "cat/b.txt"]
    assert listed.label_files.counts == local.label_files.counts == {".txt": 2}
    inside = [request for request in server.requests if "/.git/" in request.start]
    assert inside or ranges == 1


@pytest.mark.buckets
def test_a_pattern_lists_no_more_names_than_begin_as_it_does(serve: Serve) -> None:
    """One image of a bucket, or those of a folder in it, take one request."""
    server = serve([f"photos/{folder}/{n:04d}.jpg" for folder in "abc" for n in range(3 * PAGE)])
    root = ImageRoot("gs://pets/photos", ("b/0007.jpg",))
    assert together(list_root(root)).images == [image_at("photos/b/0007.jpg", "photos")]
    root = ImageRoot("gs://pets/photos", ("b/000[1-3].jpg", "b/00?4.jpg"))
    assert [image.key for image in together(list_root(root)).images] == [
        f"b/{n:04d}.jpg" for n in sorted({1, 2, 3, *range(4, 100, 10)})
    ]
    assert [request.found for request in server.requests] == [1, 100]


@pytest.mark.parametrize(
    ("pattern", "limits"),
    [
        ("*.jpg", ("", "")),
        ("a", ("a", "b")),
        ("a\ud7ff*", ("a\ud7ff", "a\ue000")),
        ("a\U0010ffff*", ("a\U0010ffff", "")),
    ],
)
def test_the_range_of_a_pattern(pattern: str, limits: tuple[str, str]) -> None:
    """From its fixed beginning to the first name behind all that begin so."""
    assert whole_range(ImageRoot("gs://b", (pattern,))).limits == limits
