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

from beam_pipeline.core.archives import member_uri, tar_entries
from beam_pipeline.core.dataset.manifest import dump_json
from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.errors import BucketError, ChangedFileError, ListingError
from beam_pipeline.core.listing.filters import (
    IMAGE_EXTENSIONS,
    Archive,
    ImageRoot,
    LabelFile,
    LabelFiles,
    Listed,
)
from beam_pipeline.core.references import ImageRef
from beam_pipeline.storage import beam_filesystems, files
from beam_pipeline.storage.base import FoundFile
from beam_pipeline.storage.key_ranges import KeyRange
from beam_pipeline.storage.listing import (
    ArchiveMembers,
    FanOut,
    NameRange,
    cut,
    list_all,
    list_archive,
    list_bucket,
    list_local_root,
    list_range,
    list_ranges,
    list_root,
    opened_archive,
    whole_range,
)
from tests.archives import make_tar, make_zip
from tests.listing_server import PAGE, SMALL, Serve, image_at, photos, together
from tests.pictures import write_files
from tests.rows import in_rows
from tests.storage.fixtures import MemoryFiles


def file_at(folder: object, key: str) -> ImageRef:
    """What is listed of a file, its version being when it was changed; of a dangling link, that it is there."""
    path = f"{folder}/{key}"
    if not os.path.exists(path):
        return ImageRef(key, path, 0)
    return ImageRef(key, path, os.stat(path).st_size, os.stat(path).st_mtime_ns)


def list_folder(folder: object, *patterns: str, excluded: frozenset[str] = frozenset()) -> Listed:
    """All batches of a root as one, images and dead letters sorted."""
    return together(list_local_root(ImageRoot(str(folder), patterns, excluded), 1000))


def keys(folder: object, *patterns: str) -> list[str]:
    return [image.key for image in list_folder(folder, *patterns).images]


NO_FILE = "a socket, pipe or device, not a file"


@in_rows
def test_a_folder_is_listed(
    tmp_path: Path, names: str, patterns: str, images: str, ignored: dict[str, int], pipes: str
) -> None:
    """Keys are relative to the root, with `/`; URIs are whole paths; sizes are bytes."""
    excluded = frozenset(f"{tmp_path}/{name[1:]}" for name in names.split() if name[0] == "^")
    for name in names.replace("^", "").split():
        path, _, target = name.partition(">")
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        if target:
            os.symlink(tmp_path / target, tmp_path / path)
        elif name[-1] == "!":
            os.mkfifo(tmp_path / name[:-1])
        else:
            (tmp_path / name).write_text(name)
    listed = list_folder(tmp_path, *patterns.split(), excluded=excluded)
    assert listed.images == [file_at(tmp_path, key) for key in images.split()]
    assert listed.ignored == ignored
    assert listed.dead_letters == [
        DeadLetter("list", key, f"{tmp_path}/{key}", "not_a_file", NO_FILE) for key in pipes.split()
    ]


def test_every_extension_of_images_is_listed(tmp_path: Path) -> None:
    """Whatever is in the files."""
    names = sorted(f"a{extension}" for extension in IMAGE_EXTENSIONS)
    write_files(str(tmp_path), dict.fromkeys(names, b"x"))
    assert keys(tmp_path) == names


@in_rows
def test_a_folder_that_no_pattern_can_match_is_not_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, patterns: str, images: str, folders: str
) -> None:
    """So that one image beside large folders is found at once."""
    names = ["a.jpg", "b/c.jpg", "b/d/e.jpg", "x/c.jpg", "x/.git/y.jpg"]
    write_files(str(tmp_path), dict.fromkeys(names, b"x"))
    looked_at, scan = [], os.scandir
    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", lambda path: looked_at.append(str(path)) or scan(path))
        listed = list_folder(tmp_path, *patterns.split())
    assert [image.key for image in listed.images] == images.split()
    assert sorted(looked_at) == folders.replace(".", str(tmp_path)).split()
    assert listed.ignored == {}


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
    assert list_folder(".").images == [file_at(".", "photos/cat/a.jpg")]
    assert list_folder("photos").images == [file_at("photos", "cat/a.jpg")]
    assert keys(f"{tmp_path}/photos/") == ["cat/a.jpg"]


def test_a_name_that_is_not_utf8_is_a_dead_letter(tmp_path: Path) -> None:
    """Its bytes are shown escaped, so that what is told of it can be written; others are listed."""
    names = ("a.jpg", "caf\udce9/b.jpg", "c\udcff.jpg", "a.\udcff")
    write_files(str(tmp_path), dict.fromkeys(names, b"x"))
    listed = list_folder(tmp_path)
    assert [image.key for image in listed.images] == ["a.jpg"]
    message = "the name is not valid UTF-8; rename the file"
    letters = [
        DeadLetter("list", key, f"{tmp_path}/{key}", "name_not_utf8", message)
        for key in (r"c\udcff.jpg", r"caf\udce9/b.jpg")
    ]
    assert [letter for letter in listed.dead_letters if letter.key != r"a.\udcff"] == letters
    assert listed.ignored.total() + len(listed.dead_letters) == 3
    assert dump_json({"ignored_files": dict(listed.ignored)})
    assert all(dead_letter.to_json().encode() for dead_letter in listed.dead_letters)


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
@in_rows
def test_what_may_not_be_read_is_a_listing_error(folder: str, mode: int, message: str) -> None:
    """Its images are not left out in silence: the error names it."""
    with tempfile.TemporaryDirectory(dir="/tmp") as public:  # `tmp_path` is the runner's own
        os.chmod(public, 0o755)
        write_files(public, {"photos/c.jpg": b"x", f"{folder}/b.jpg": b"x"})
        if folder == "elsewhere/cat":
            os.symlink("../elsewhere/cat", f"{public}/photos/cat")
            folder = "elsewhere"
        with access(f"{public}/{folder}", mode), pytest.raises(ListingError, match=message):
            list_folder(f"{public}/photos")


@pytest.mark.parametrize(("batch_size", "sizes"), [(1, [1] * 7 + [0]), (3, [3, 3, 1]), (7, [7, 0])])
def test_images_come_in_batches(tmp_path: Path, batch_size: int, sizes: list[int]) -> None:
    """Every batch but the last is full, and the rest of what was found comes with the last."""
    write_files(str(tmp_path), {f"{i}.jpg": b"x" for i in range(7)} | {"a.txt": b"x"})
    os.mkfifo(tmp_path / "pipe.jpg")
    parts = list(list_local_root(ImageRoot(str(tmp_path)), batch_size))
    assert [len(part.images) for part in parts] == sizes
    assert [len(part.dead_letters) for part in parts] == [0] * (len(parts) - 1) + [1]
    assert [part.ignored.total() for part in parts] == [0] * (len(parts) - 1) + [1]
    assert len({image.key for part in parts for image in part.images}) == 7


# --- any storage that lists ranges ---------------------------------------------------------------


KEYS = [f"{animal}/{n:03d}.jpg" for animal in ("cat", "dog", "owl") for n in range(40)]
ROOT = ImageRoot("mem://pets")
IMAGES = [ImageRef(key, f"mem://pets/{key}", len(key)) for key in KEYS]
IGNORED = Counter({".txt": 2, "hidden files": 1, "hidden folders": 1})


@pytest.fixture
def storage(monkeypatch: pytest.MonkeyPatch) -> MemoryFiles:
    """A bucket `mem://pets` with photographs, hidden ones, and files of other kinds."""
    others = ["a.txt", "cat/.hidden.jpg", "dog/.git/1.jpg", "dog/.git/2.jpg", "dog/", "zebra.TXT"]
    storage = MemoryFiles({f"mem://pets/{name}": b"x" * len(name) for name in [*KEYS, *others]})
    monkeypatch.setattr(files, "_remote", lambda scheme: storage)
    return storage


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
    listed = together(part for part in found if isinstance(part, Listed)).images
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

    def fails(*_: str, **__: bool) -> Iterator[FoundFile]:
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
    listed = together(list_bucket(ImageRoot("gs://pets/photos"), 1000, SMALL))
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


def test_the_range_of_a_pattern() -> None:
    """From its fixed beginning to the first name behind all that begin so."""
    ranges = {"*.jpg": ("", ""), "a": ("a", "b"), "a\U0010ffff*": ("a\U0010ffff", "")}
    ranges["a\ud7ff*"] = "a\ud7ff", "a\ue000"
    for pattern, limits in ranges.items():
        assert whole_range(ImageRoot("gs://b", (pattern,))).limits == limits


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


def root(path: Path, **fields: str) -> ImageRoot:
    """An archive to list."""
    kind = path.suffix[1:]
    return ImageRoot(str(path), archive=Archive(kind, path.name, **fields))


def make_archive(path: Path, contents: dict[str, bytes]) -> None:
    (make_tar if path.suffix == ".tar" else make_zip)(path, contents)


def members(path: Path, **fields: str) -> Listed:
    """All batches as one, images and dead letters sorted."""
    return together(list_archive(root(path, **fields), 2))


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_the_images_of_an_archive(kind: str, tmp_path: Path) -> None:
    """By the rules of folders; each can be read, and has the archive's version."""
    path = tmp_path / f"pets.{kind}"
    make_archive(path, FILES)
    listed = members(path)
    found = {image.key: files.read_image(image.uri, image.size) for image in listed.images}
    names = ["cat/1.jpg", "cat/hash", "dog/4.PNG"]
    assert found == {f"pets.{kind}/{name}": FILES[name] for name in names}
    assert {image.version for image in listed.images} == {os.stat(path).st_mtime_ns}
    assert [image.path for image in listed.images] == names
    assert listed.ignored == {".cls": 1, "hidden folders": 2, "hidden files": 1}
    (letter,) = listed.dead_letters
    assert letter[:4] == ("list", f"pets.{kind}/../5.jpg", str(path), "unusable_member")
    assert letter.message == "its name leads out of the archive"


def test_a_name_that_is_no_utf8_is_left_out(tmp_path: Path) -> None:
    """No feature can hold it."""
    make_tar(tmp_path / "a.tar", {"caf\udce9.jpg": b"1"}, tarfile.GNU_FORMAT)
    listed = members(tmp_path / "a.tar")
    assert listed.images == []
    letters = [(letter.key, letter.reason) for letter in listed.dead_letters]
    assert letters == [("a.tar/caf\\udce9.jpg", "name_not_utf8")]


@pytest.mark.parametrize("name", ["a.tar", "a.zip"])
def test_errors_name_the_archive(name: str, tmp_path: Path) -> None:
    """One that is gone, a pipe, one that is none, and one with an image outside of the folder that gives no class."""
    path = tmp_path / name
    for make, said in (
        (lambda: None, "cannot be read: No such file"),
        (lambda: os.mkfifo(path), "cannot be read: a pipe"),
        (
            lambda: path.write_bytes(b"something else, of some length" * 99),
            f"it is not a {name[2:]}",
        ),
        (
            lambda: make_archive(path, {"x/cat/1.jpg": b"", "y/cat/1.jpg": b""}),
            r"y/cat/1\.jpg is outside of x/",
        ),
    ):
        path.unlink(missing_ok=True)
        make()
        with pytest.raises(ListingError, match=f"{name}.*{said}"):
            members(path, top="x/")


def test_a_file_in_an_archive_can_be_read_while_it_is_listed(tmp_path: Path) -> None:
    """As labels beside images are."""
    make_tar(tmp_path / "a.tar", FILES)
    with opened_archive(root(tmp_path / "a.tar")) as archive:
        entries = [entry for entry in archive.entries() if entry.member]
        found = {entry.name: archive.content(entry.member, entry.size) for entry in entries}
    assert found == {name: content for name, content in FILES.items() if ".." not in name}


@pytest.mark.parametrize("system", ["local", "Beam's"])
def test_a_member_is_read_by_its_range(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str
) -> None:
    """Found by the scheme of its URI, in any storage; an archive that changed, or that is gone, is an error."""
    path = tmp_path / "a.tar"
    make_tar(path, {"1.jpg": b"one", "2.jpg": b"two" * 300})
    if system != "local":
        monkeypatch.setattr(files, "_LOCAL", beam_filesystems.BeamFileSystem())
    with open(path, "rb") as file:
        members = [entry.member for entry in tar_entries(file) if entry.member]
    uris = [member_uri(str(path), member) for member in members]
    assert [files.read_image(uri, size) for uri, size in zip(uris, (3, 900), strict=True)] == [
        *(b"one", b"two" * 300)
    ]
    assert files.file_system(uris[0]).read(uris[0], 3, 1) == b"ne"
    make_tar(path, {"0.jpg": b"one", "2.jpg": b"two" * 300})
    for uri, size in ((uris[0], 3), (uris[1], 901)):
        with pytest.raises(ChangedFileError, match="the archive has changed"):
            files.read_image(uri, size)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        files.read_image(uris[0], 3)


def test_nothing_else_can_be_done() -> None:
    """Each try is an OSError."""
    members, uri = ArchiveMembers(), "tar:///a.tar#1"
    assert members.size_of(uri) == -1
    assert list(members.list_files(uri)) == []
    members.delete([])
    for change in (members.open_input, lambda uri: members.open_output(uri, "x"), members.delete):
        with pytest.raises(OSError, match="only read"):
            change([uri] if change == members.delete else uri)
