"""Roots, listed: folders on this machine and in buckets, and archives."""

from __future__ import annotations

import contextlib
import glob
import os
import re
import tarfile
import tempfile
import unicodedata
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from beam_pipeline.core import dead_letters, references
from beam_pipeline.core.archives import member_uri, tar_entries
from beam_pipeline.core.dataset.manifest import dump_json
from beam_pipeline.core.errors import BucketError, ChangedFileError, ListingError
from beam_pipeline.core.listing import filters
from beam_pipeline.storage import base, beam_filesystems, files, key_ranges
from beam_pipeline.storage.listing import (
    ArchiveMembers,
    FanOut,
    NameRange,
    OpenedArchive,
    archive_entries,
    cut,
    list_all,
    list_archive,
    list_bucket,
    list_local_root,
    list_range,
    list_ranges,
    list_root,
    whole_range,
)
from tests.archives import make_tar, make_zip
from tests.pictures import write_files, write_pictures
from tests.storage.fixtures import MemoryFiles
from tests.transforms.buckets import PAGE, SMALL, Serve, image_at, photos, together


def file_at(key: str, path: str, size: int) -> references.ImageRef:
    """What is listed of a file, its version being when it was changed."""
    return references.ImageRef(key, path, size, os.stat(path).st_mtime_ns)


def list_folder(
    folder: object, *patterns: str, excluded: frozenset[str] = frozenset(), batch_size: int = 1000
) -> filters.Listed:
    """All batches of a root as one, images and dead letters sorted."""
    root = filters.ImageRoot(str(folder), patterns, excluded)
    return together(list_local_root(root, batch_size))


def keys(folder: object, *patterns: str) -> list[str]:
    return [image.key for image in list_folder(folder, *patterns).images]


def test_a_folder_gives_its_images_with_their_sizes(tmp_path: Path) -> None:
    """Keys are relative to the root, with `/`; URIs are whole paths; sizes are bytes."""
    images = write_pictures(str(tmp_path), ["a.jpg", "cat/b.png", "cat/deep/c.GIF", "dog/d"])
    listed = list_folder(tmp_path)
    assert listed.images == [
        file_at(key, f"{tmp_path}/{key}", len(content)) for key, content in sorted(images.items())
    ]
    assert listed.dead_letters == []
    assert listed.ignored == Counter()


def test_a_folder_gives_what_may_be_an_image(tmp_path: Path) -> None:
    """Every image extension in any case, and a file without one; the rest is counted by its own."""
    images = [f"a{extension}" for extension in filters.IMAGE_EXTENSIONS] + [
        "B.JPEG",
        "no_extension",
    ]
    others = ["x.txt", "y.TXT", "z.csv", "photo.jpg.part", "Thumbs.db", "dot."]
    write_files(str(tmp_path), dict.fromkeys([*images, *others], b"x"))
    listed = list_folder(tmp_path)
    assert [image.key for image in listed.images] == sorted(images)
    assert listed.ignored == {".txt": 2, ".csv": 1, ".part": 1, ".db": 1, ".": 1}


HIDDEN_NAMES = "cat/.hidden.jpg cat/._a.jpg .DS_Store .git/b.jpg cat/.thumbs/c.jpg __MACOSX/d.jpg cat/__MACOSX/e"
DOTTED = "a.jpg .DS_Store cat/._b.jpg cat/b"


@pytest.mark.parametrize(
    ("names", "patterns", "expected"),
    [
        ("a.raw b.txt cat/c.raw cat/d.jpg", "*.raw", "a.raw"),
        ("a.raw b.txt cat/c.raw cat/d.jpg", "**/*.raw", "a.raw cat/c.raw"),
        ("a.raw cat/c.raw cat/d.jpg", "*.raw cat/* **/*.raw", "a.raw cat/c.raw cat/d.jpg"),
        ("a.raw", "*.png", ""),
        (".a.jpg", ".a.jpg", ".a.jpg"),
        (DOTTED, "*", "a.jpg"),
        (DOTTED, "cat/?*", "cat/b"),
        (DOTTED, "**/*", "a.jpg cat/b"),
        ("x/a x/y/b x/.c x/y/.d", "*/**", "x/a x/y/b"),
    ],
)
def test_patterns(tmp_path: Path, names: str, patterns: str, expected: str) -> None:
    """Any extension counts, no wildcard stands for a dot, and what does not match is not counted."""
    write_files(str(tmp_path), dict.fromkeys(names.split(), b"x"))
    listed = list_folder(tmp_path, *patterns.split())
    assert [image.key for image in listed.images] == expected.split()
    assert listed.ignored == Counter()


def test_hidden_files_and_folders_are_passed_over_and_counted(tmp_path: Path) -> None:
    """So are the shadow files that macOS puts into archives, at any depth."""
    write_files(str(tmp_path), dict.fromkeys(["cat/a.jpg", *HIDDEN_NAMES.split()], b"x"))
    listed = list_folder(tmp_path)
    assert [image.key for image in listed.images] == ["cat/a.jpg"]
    assert listed.ignored == {"hidden files": 3, "hidden folders": 4}


@pytest.mark.parametrize(
    ("names", "links", "expected"),
    [
        ("a/x a/b/y", {"a/link": "a", "a/b/up": "."}, "a/b/y a/x"),
        ("a/x b/y", {"a/to_b": "b", "b/to_a": "a"}, "a/to_b/y a/x b/to_a/x b/y"),
        (
            "pool/cat/a more/dog/b",
            {"pool/dog": "more/dog", "fold1": "pool", "fold2": "pool"},
            "fold1/cat/a fold1/dog/b fold2/cat/a fold2/dog/b more/dog/b pool/cat/a pool/dog/b",
        ),
    ],
    ids=["links upwards", "links to each other", "folds of a pool, which is a link as well"],
)
def test_links_between_folders(
    tmp_path: Path, names: str, links: dict[str, str], expected: str
) -> None:
    """None is followed in circles; a folder with several links has its images under several keys."""
    write_files(str(tmp_path), dict.fromkeys(names.split(), b"x"))
    for link, target in links.items():
        os.symlink(tmp_path / target, tmp_path / link)
    assert keys(tmp_path) == expected.split()


@pytest.mark.parametrize("patterns", [(), ("*",), ("labels.jpg",)])
def test_label_files_are_no_images(tmp_path: Path, patterns: tuple[str, ...]) -> None:
    """A label file is not listed, even if it has no extension or a pattern names it."""
    write_files(str(tmp_path), {"a.jpg": b"x", "labels": b"x", "labels.jpg": b"x"})
    excluded = frozenset(f"{tmp_path}/{name}" for name in ("labels", "labels.jpg"))
    listed = list_folder(tmp_path, *patterns, excluded=excluded)
    expected = [] if patterns == ("labels.jpg",) else ["a.jpg"]
    assert [image.key for image in listed.images] == expected
    assert listed.ignored == Counter()


def test_names_with_wildcards_spaces_and_signs_are_names(tmp_path: Path) -> None:
    """Nothing in a real file name is taken for a pattern, a fragment or an escape; NFD, as macOS has it, stays NFD."""
    names = ["[a]/b*.jpg", "c?.jpg", "d#e.jpg", "f g/ h .jpg", "i%20j.jpg", "k\\l.jpg", "m\nn.jpg"]
    names += ["~o$p&q;r'.jpg", unicodedata.normalize("NFD", "강아지/사진.jpg")]
    assert names[-1] != unicodedata.normalize("NFC", names[-1])
    write_files(str(tmp_path), dict.fromkeys(names, b"x"))
    assert keys(tmp_path) == sorted(names)
    for name in names:
        assert keys(tmp_path, glob.escape(name)) == [name]


def test_keys_are_the_same_however_the_root_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative root and one with a slash at its end give the same keys."""
    write_files(str(tmp_path), {"photos/cat/a.jpg": b"x"})
    monkeypatch.chdir(tmp_path)
    assert list_folder(".").images == [file_at("photos/cat/a.jpg", "./photos/cat/a.jpg", 1)]
    assert list_folder("photos").images == [file_at("cat/a.jpg", "photos/cat/a.jpg", 1)]
    assert keys(f"{tmp_path}/photos/") == ["cat/a.jpg"]


def test_a_name_that_is_not_utf8_is_a_dead_letter(tmp_path: Path) -> None:
    """Its bytes are shown escaped, so the dead letter itself can be written; others are listed."""
    write_files(str(tmp_path), {"a.jpg": b"x", "caf\udce9/b.jpg": b"x", "c\udcff.jpg": b"x"})
    listed = list_folder(tmp_path)
    assert [image.key for image in listed.images] == ["a.jpg"]
    message = "the name is not valid UTF-8; rename the file"
    assert listed.dead_letters == [
        dead_letters.DeadLetter("list", key, f"{tmp_path}/{key}", "name_not_utf8", message)
        for key in (r"c\udcff.jpg", r"caf\udce9/b.jpg")
    ]
    assert all(dead_letter.to_json().encode() for dead_letter in listed.dead_letters)


def test_an_extension_that_is_not_utf8_can_be_written_down(tmp_path: Path) -> None:
    """What is counted as passed over ends in the manifest, so it must be text."""
    write_files(str(tmp_path), {"a.\udcff": b"x"})
    listed = list_folder(tmp_path)
    assert listed.ignored.total() + len(listed.dead_letters) == 1
    dump_json({"ignored_files": dict(listed.ignored)})


def test_a_pipe_is_not_a_file(tmp_path: Path) -> None:
    """It becomes a dead letter and is never opened, which would wait for ever; not if it is passed over."""
    os.mkfifo(tmp_path / "a.jpg")
    os.mkfifo(tmp_path / "a.fifo")
    listed = list_folder(tmp_path)
    assert (listed.images, listed.ignored) == ([], {".fifo": 1})
    fault = "a socket, pipe or device, not a file"
    letter = dead_letters.DeadLetter("list", "a.jpg", f"{tmp_path}/a.jpg", "not_a_file", fault)
    assert listed.dead_letters == [letter]


def test_links_are_followed(tmp_path: Path) -> None:
    """A link to a file has the file's size, one to a folder the folder's images."""
    write_files(str(tmp_path), {"real/a.jpg": b"12345", "elsewhere/deep/b.jpg": b"123"})
    os.symlink(tmp_path / "real" / "a.jpg", tmp_path / "real" / "c.jpg")
    os.symlink(tmp_path / "elsewhere", tmp_path / "real" / "more")
    assert list_folder(tmp_path / "real").images == [
        file_at("a.jpg", f"{tmp_path}/real/a.jpg", 5),
        file_at("c.jpg", f"{tmp_path}/real/c.jpg", 5),
        file_at("more/deep/b.jpg", f"{tmp_path}/real/more/deep/b.jpg", 3),
    ]


def test_a_dangling_link_is_listed(tmp_path: Path) -> None:
    """Reading it will say why there is no image; nobody is told nothing."""
    os.symlink(tmp_path / "gone.jpg", tmp_path / "a.jpg")
    assert list_folder(tmp_path).images == [references.ImageRef("a.jpg", f"{tmp_path}/a.jpg", 0)]


def test_a_folder_that_no_pattern_can_match_is_not_looked_at(tmp_path: Path) -> None:
    """So that one image beside large folders is found at once."""
    names = ["a.jpg", "b/c.jpg", "b/d/e.jpg", "x/c.jpg", "x/.git/y.jpg"]
    write_files(str(tmp_path), dict.fromkeys(names, b"x"))
    looked_at = []
    scan = os.scandir
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "scandir", lambda path: looked_at.append(str(path)) or scan(path))
        for patterns, found, folders in (
            (["a.jpg"], ["a.jpg"], [""]),
            (["*.jpg"], ["a.jpg"], [""]),
            (["b/*.jpg"], ["b/c.jpg"], ["", "/b"]),
            (["?/*/e.jpg"], ["b/d/e.jpg"], ["", "/b", "/b/d", "/x"]),
            (["b/**/e.jpg", "x/c.jpg"], ["b/d/e.jpg", "x/c.jpg"], ["", "/b", "/b/d", "/x"]),
        ):
            looked_at.clear()
            listed = list_folder(tmp_path, *patterns)
            assert [image.key for image in listed.images] == found
            assert sorted(looked_at) == [f"{tmp_path}{folder}" for folder in folders]
            assert listed.ignored == {}


def test_links_that_lead_only_to_each_other_are_listed_as_dangling(tmp_path: Path) -> None:
    """A link to itself, or two to each other, is a file that cannot be read."""
    for name, target in (("a.jpg", "a.jpg"), ("b.jpg", "c.jpg"), ("c.jpg", "b.jpg")):
        os.symlink(tmp_path / target, tmp_path / name)
    assert list_folder(tmp_path).images == [
        references.ImageRef(name, f"{tmp_path}/{name}", 0) for name in ("a.jpg", "b.jpg", "c.jpg")
    ]


@pytest.mark.parametrize(
    ("name", "reason"), [("gone", "No such file or directory"), ("a.jpg", "Not a directory")]
)
def test_a_root_that_is_no_folder_is_a_listing_error(
    tmp_path: Path, name: str, reason: str
) -> None:
    """The error names the path, the reason and what to do."""
    write_files(str(tmp_path), {"a.jpg": b"x"})
    expected = f"{tmp_path}/{name} cannot be listed ({reason}), so its images would be missed; "
    expected += "make it readable or move it out of the images' folder"
    with pytest.raises(ListingError, match=f"^{re.escape(expected)}$"):
        list_folder(tmp_path / name)


@pytest.fixture
def public_folder() -> Iterator[str]:
    """A folder that every user may enter; those of `tmp_path` and TMPDIR are the runner's own."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        yield folder


@contextlib.contextmanager
def access(folder: str, mode: int) -> Iterator[None]:
    """While the block runs, the folder has another mode, and nobody may do what it forbids."""
    os.chmod(folder, mode)
    user = os.geteuid()
    try:
        if user == 0:  # who may read everything
            os.seteuid(65534)
        yield
    finally:
        os.seteuid(user)
        os.chmod(folder, 0o755)


@pytest.mark.promise("unlisted_folder")
@pytest.mark.parametrize(
    ("folder", "mode", "message"),
    [
        ("secret", 0o000, r"/secret cannot be listed \(Permission denied\)"),
        ("names", 0o744, r"^the size of /.*/names/a\.jpg cannot be read \(Permission denied\); m"),
        ("elsewhere", 0o000, r"/photos/cat cannot be listed \(Permission denied\)"),
    ],
    ids=["a folder", "a file whose size looks as if it had changed", "a link, perhaps to images"],
)
def test_what_may_not_be_read_is_a_listing_error(
    public_folder: str, folder: str, mode: int, message: str
) -> None:
    """Its images are not left out in silence: the error names it."""
    below = "elsewhere/cat/b.jpg" if folder == "elsewhere" else f"photos/{folder}/a.jpg"
    write_files(public_folder, {"photos/c.jpg": b"x", below: b"x"})
    if folder == "elsewhere":
        os.symlink("../elsewhere/cat", f"{public_folder}/photos/cat")
    hidden = os.path.join(public_folder, below.partition(folder)[0], folder)
    with access(hidden, mode), pytest.raises(ListingError, match=message):
        list_folder(f"{public_folder}/photos")


@pytest.mark.parametrize(("batch_size", "sizes"), [(1, [1] * 7 + [0]), (3, [3, 3, 1]), (7, [7, 0])])
def test_images_come_in_batches(tmp_path: Path, batch_size: int, sizes: list[int]) -> None:
    """Every batch but the last is full, and the rest of what was found comes with the last."""
    write_files(str(tmp_path), {f"{i}.jpg": b"x" for i in range(7)} | {"a.txt": b"x"})
    os.mkfifo(tmp_path / "pipe.jpg")
    parts = list(list_local_root(filters.ImageRoot(str(tmp_path)), batch_size))
    assert [len(part.images) for part in parts] == sizes
    assert [len(part.dead_letters) for part in parts] == [0] * (len(parts) - 1) + [1]
    assert [part.ignored.total() for part in parts] == [0] * (len(parts) - 1) + [1]
    assert len({image.key for part in parts for image in part.images}) == 7


def test_an_empty_folder_gives_one_empty_batch(tmp_path: Path) -> None:
    """What was found in it, nothing, is still said."""
    assert list(list_local_root(filters.ImageRoot(str(tmp_path)), 10)) == [
        filters.Listed([], [], Counter())
    ]


# --- any storage that lists ranges ---------------------------------------------------------------


@pytest.fixture
def storage(monkeypatch: pytest.MonkeyPatch) -> MemoryFiles:
    """A bucket `mem://pets` with photographs, hidden ones, and files of other kinds."""
    names = [*(f"{animal}/{n:03d}.jpg" for animal in ("cat", "dog", "owl") for n in range(40))]
    names += ["a.txt", "cat/.hidden.jpg", "dog/.git/1.jpg", "dog/.git/2.jpg", "dog/", "zebra.TXT"]
    storage = MemoryFiles({f"mem://pets/{name}": b"x" * (len(name)) for name in names})
    monkeypatch.setattr(files, "_remote", lambda scheme: storage)
    return storage


ROOT = filters.ImageRoot("mem://pets")
IMAGES = [
    references.ImageRef(key, f"mem://pets/{key}", len(key))
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
    texts = [filters.LabelFile(name, f"mem://pets/{name}") for name in ("a.txt", "zebra.TXT")]
    passed_over = filters.LabelFiles(Counter({".txt": 2}), {".txt": texts})
    assert together(listed) == filters.Listed(IMAGES, [], IGNORED, passed_over)
    assert max(len(batch.images) for batch in listed) <= batch_size


def test_a_long_range_ends_with_the_rest_of_it(storage: MemoryFiles) -> None:
    """The rest begins with the first name that was not listed."""
    *batches, rest = list_range(NameRange(ROOT), 2, most=5)
    listed = together(batches)
    assert (listed.images, listed.ignored) == (IMAGES[:2], {".txt": 1, "hidden files": 1})
    assert rest == NameRange(ROOT, key_ranges.KeyRange("cat/002.jpg", ""))
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
    ranges = [NameRange(ROOT, key_ranges.KeyRange(a, f"{a}~")) for a in ("cat", "dog", "owl")]
    found = list(list_ranges(ranges, 1000, FanOut(names=11, threads=2)))
    rests = {part for part in found if isinstance(part, NameRange)}
    assert rests == {
        NameRange(ROOT, key_ranges.KeyRange("cat/009.jpg", "cat~")),
        NameRange(ROOT, key_ranges.KeyRange("dog/007.jpg", "dog~")),
        NameRange(ROOT, key_ranges.KeyRange("owl/010.jpg", "owl~")),
    }
    listed = together(part for part in found if isinstance(part, filters.Listed)).images
    assert listed == [*IMAGES[:9], *IMAGES[40:47], *IMAGES[80:90]]
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

    def fails(*_: str, **__: bool) -> Iterator[base.FoundFile]:
        raise error

    for method, listing in (
        ("list_range", list_range(NameRange(ROOT), 1000, most=1000)),
        ("first_name", cut(NameRange(ROOT), FanOut())),
    ):
        monkeypatch.setattr(storage, method, fails)
        with pytest.raises(ListingError, match=f"^mem://pets cannot be listed: {said}$"):
            list(listing)


# --- Google Cloud Storage ------------------------------------------------------------------------


@pytest.mark.buckets
def test_few_objects_are_listed_page_after_page(serve: Serve) -> None:
    """A bucket of a page or two is asked for its pages and nothing else; key, URI, size and
    generation are the objects'; other folders, also with the same beginning, are not asked for."""
    names = [*photos(2 * PAGE - 2), "photos/"]
    server = serve([*names, "photos2/b.jpg", "photo/c.jpg", "d.jpg"])
    listed = together(list_bucket(filters.ImageRoot("gs://pets/photos"), 1000, SMALL))
    assert listed.images == [image_at(name, "photos") for name in names[:-1]]
    assert listed.ignored == Counter()
    pages = [(request.prefix, request.found) for request in server.requests]
    assert pages == [("photos/", PAGE), ("photos/", PAGE - 1)]


@pytest.mark.buckets
def test_many_objects_are_listed_in_ranges_side_by_side(serve: Serve) -> None:
    """Each is listed once. The longest chain of pages that wait for each other falls with the
    number of ranges, at the price of a probe or two a range."""
    names = photos(20_000)
    expected = [image_at(name, "photos") for name in names]
    server = serve(names)
    root = filters.ImageRoot("gs://pets/photos")
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
    listed = together(list_bucket(filters.ImageRoot("gs://pets/photos"), 1000, SMALL))
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
    local = together(list_local_root(filters.ImageRoot(str(tmp_path)), 1000))
    fan_out = FanOut(first=2, names=100, ranges=ranges)
    listed = together(list_bucket(filters.ImageRoot("gs://pets/photos"), 1000, fan_out))
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
    root = filters.ImageRoot("gs://pets/photos", ("b/0007.jpg",))
    assert together(list_root(root)).images == [image_at("photos/b/0007.jpg", "photos")]
    root = filters.ImageRoot("gs://pets/photos", ("b/000[1-3].jpg", "b/00?4.jpg"))
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
    assert whole_range(filters.ImageRoot("gs://b", (pattern,))).limits == limits


FILES = {
    "cat/1.jpg": b"one",
    "cat/hash": b"no extension",
    "cat/1.cls": b"3",
    ".hidden/2.jpg": b"",
    "__MACOSX/cat/._1.jpg": b"",
    "dog/.3.jpg": b"",
    "dog/4.PNG": b"four",
    "../5.jpg": b"5",
}


def root(path: Path, **fields: str) -> filters.ImageRoot:
    """An archive to list."""
    kind = path.suffix[1:]
    return filters.ImageRoot(str(path), archive=filters.Archive(kind, path.name, **fields))


def members(path: Path, batch_size: int = 2, **fields: str) -> filters.Listed:
    """All batches as one, images and dead letters sorted."""
    return together(list_archive(root(path, **fields), batch_size))


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_the_images_of_an_archive(kind: str, tmp_path: Path) -> None:
    """By the rules of folders; each can be read, and has the archive's version."""
    path = tmp_path / f"pets.{kind}"
    (make_tar if kind == "tar" else make_zip)(path, FILES)
    listed = members(path)
    assert {image.key: files.read_image(image.uri, image.size) for image in listed.images} == {
        "pets.tar/cat/1.jpg".replace("tar", kind): b"one",
        f"pets.{kind}/cat/hash": b"no extension",
        f"pets.{kind}/dog/4.PNG": b"four",
    }
    assert {image.version for image in listed.images} == {os.stat(path).st_mtime_ns}
    assert [image.path for image in listed.images] == ["cat/1.jpg", "cat/hash", "dog/4.PNG"]
    assert listed.ignored == {".cls": 1, "hidden folders": 2, "hidden files": 1}
    (letter,) = listed.dead_letters
    assert letter[:2] == ("list", f"pets.{kind}/../5.jpg")
    assert letter[3:5] == ("unusable_member", "its name leads out of the archive")
    assert letter.uri == str(path)


def test_a_name_that_is_no_utf8_is_left_out(tmp_path: Path) -> None:
    """No feature can hold it."""
    make_tar(tmp_path / "a.tar", {"caf\udce9.jpg": b"1"}, tarfile.GNU_FORMAT)
    listed = members(tmp_path / "a.tar")
    assert listed.images == []
    assert [(found.key, found.reason) for found in listed.dead_letters] == [
        ("a.tar/caf\\udce9.jpg", "name_not_utf8")
    ]


def test_an_image_outside_of_the_top_folder_is_an_error(tmp_path: Path) -> None:
    """It would get another class than was meant."""
    make_tar(tmp_path / "a.tar", {"x/cat/1.jpg": b"", "y/cat/1.jpg": b""})
    with pytest.raises(ListingError, match=r"y/cat/1\.jpg is outside of x/"):
        members(tmp_path / "a.tar", top="x/")


@pytest.mark.parametrize("name", ["a.tar", "a.zip"])
def test_errors_name_the_archive(name: str, tmp_path: Path) -> None:
    """One that is gone, a pipe, and one that is none."""
    path = tmp_path / name
    with pytest.raises(ListingError, match=rf"{name} cannot be read: No such file"):
        list(archive_entries(root(path)))
    os.mkfifo(path)
    with pytest.raises(ListingError, match=rf"{name} cannot be read: a pipe"):
        list(archive_entries(root(path)))
    path.unlink()
    path.write_bytes(b"something else, of some length" * 99)
    with pytest.raises(ListingError, match=rf"{name}: it is not a {name[2:]}"):
        list(archive_entries(root(path)))


def test_a_file_in_an_archive_can_be_read_while_it_is_listed(tmp_path: Path) -> None:
    """As labels beside images are."""
    make_tar(tmp_path / "a.tar", FILES)
    with OpenedArchive(root(tmp_path / "a.tar")) as archive:
        found = {
            entry.name: archive.content(entry.member, entry.size)
            for entry in archive.entries()
            if entry.member
        }
    assert found == {name: content for name, content in FILES.items() if ".." not in name}


@pytest.fixture
def uris(tmp_path: Path) -> list[str]:
    """The members of a tar."""
    make_tar(tmp_path / "a.tar", {"1.jpg": b"one", "2.jpg": b"two" * 300})
    with open(tmp_path / "a.tar", "rb") as file:
        entries = tar_entries(file)
        return [member_uri(f"{tmp_path}/a.tar", entry.member) for entry in entries if entry.member]


def test_a_member_is_read_by_its_range(uris: list[str]) -> None:
    """Found by the scheme of its URI."""
    contents = [files.read_image(uri, size) for uri, size in zip(uris, (3, 900), strict=True)]
    assert contents == [b"one", b"two" * 300]
    assert files.file_system(uris[0]).read(uris[0], 3, 1) == b"ne"


def test_any_storage_may_hold_the_archive(uris: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Beam's file systems read a range of it, not the whole."""
    monkeypatch.setattr(files, "_LOCAL", beam_filesystems.BeamFileSystem())
    assert files.read_image(uris[1], 900) == b"two" * 300


def test_an_archive_that_changed_is_noticed(uris: list[str], tmp_path: Path) -> None:
    """The header before the content is not the one that was listed."""
    make_tar(tmp_path / "a.tar", {"0.jpg": b"one", "2.jpg": b"two" * 300})
    with pytest.raises(ChangedFileError, match="the archive has changed"):
        files.read_image(uris[0], 3)
    with pytest.raises(ChangedFileError, match="the archive has changed"):
        files.read_image(uris[1], 901)


def test_one_that_is_gone_is_an_error(uris: list[str], tmp_path: Path) -> None:
    """As for a file."""
    (tmp_path / "a.tar").unlink()
    with pytest.raises(FileNotFoundError):
        files.read_image(uris[0], 3)


def test_nothing_else_can_be_done(uris: list[str]) -> None:
    """Each try is an OSError."""
    members = ArchiveMembers()
    assert members.size_of(uris[0]) == -1
    assert list(members.list_files(uris[0])) == []
    for change in (members.open_input, lambda uri: members.open_output(uri, "x")):
        with pytest.raises(OSError, match="only read"):
            change(uris[0])
    with pytest.raises(OSError, match="only read"):
        members.delete(uris)
    members.delete([])
