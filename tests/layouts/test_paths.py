"""From typed paths to roots of images and files of labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from beam_pipeline.core.listing.filters import ImageRoot
from beam_pipeline.layouts import tree
from beam_pipeline.layouts.paths import image_roots, label_files
from beam_pipeline.storage.base import FileSystem, FoundFile
from tests.layouts import bucket
from tests.pictures import write_files


@pytest.fixture
def folder(working_folder: Path) -> Path:
    """The working directory, with photographs and tables in it."""
    names = ("photos/cat/1.jpg", "photos/[1].jpg", "2.jpg", "a.csv", "tables/b.csv", "tables/c.txt")
    write_files(str(working_folder), dict.fromkeys(names, "x"))
    return working_folder


@pytest.mark.parametrize(
    ("path", "root", "patterns"),
    [
        ("photos", "photos", ()),
        ("photos/", "photos", ()),
        ("photos/**", "photos", ()),
        ("photos/*.jpg", "photos", ("*.jpg",)),
        ("photos/cat/../*/*.jpg", "photos", ("*/*.jpg",)),
        ("photos/*/**", "photos", ("*/**",)),
        ("photos/[1].jpg", "photos", ("[[]1].jpg",)),
        ("2.jpg", "", ("2.jpg",)),
    ],
)
def test_a_local_path_is_a_root_and_perhaps_a_pattern(
    folder: Path, path: str, root: str, patterns: tuple[str, ...]
) -> None:
    """A folder is listed whole; a file is a pattern that matches it alone, whatever its name."""
    assert image_roots([path]) == (ImageRoot(str(folder / root), patterns),)


@pytest.mark.parametrize(
    ("path", "root", "patterns"),
    [
        ("gs://pets/photos/", "gs://pets/photos", ()),
        ("gs://pets/photos/**", "gs://pets/photos", ()),
        ("gs://pets/photos/*.jpg", "gs://pets/photos", ("*.jpg",)),
        ("gs://pets/*/**", "gs://pets", ("*/**",)),
        ("gs://pets/photos/1.jpg", "gs://pets/photos", ("1.jpg",)),
        ("gs://pets", "gs://pets", ()),
    ],
)
def test_a_path_in_a_bucket_is_told_by_its_name(
    path: str, root: str, patterns: tuple[str, ...]
) -> None:
    """Nothing is asked of the bucket: what ends like an image is one, all else is a folder."""
    assert image_roots([path]) == (ImageRoot(root, patterns),)


def test_patterns_of_one_folder_are_one_root(folder: Path) -> None:
    """They are sorted, each once; a folder that is also named whole needs none."""
    labels = frozenset({"/x.csv"})
    found = image_roots(["photos/*.png", "photos/*.jpg", "photos/*.png"], labels)
    assert found == (ImageRoot(f"{folder}/photos", ("*.jpg", "*.png"), labels),)
    assert image_roots(["photos/*.png", "photos"]) == (ImageRoot(f"{folder}/photos"),)


def test_label_files_are_named_once_and_sorted(folder: Path) -> None:
    """By paths and globs, local ones and those in a bucket."""
    scheme = f"{bucket.Bucket.scheme()}://"
    assert label_files(["tables/*.csv", "a.csv", "./a.csv", "**/b.csv"]) == [
        f"{folder}/a.csv",
        f"{folder}/tables/b.csv",
    ]
    assert label_files([f"{scheme}{folder}/tables/*", "gs://pets/labels.csv"]) == [
        f"{scheme}{folder}/tables/b.csv",
        f"{scheme}{folder}/tables/c.txt",
        "gs://pets/labels.csv",
    ]


# --- names in folders, on this machine and in buckets --------------------------------------------


@pytest.fixture
def mixed(working_folder: Path) -> Path:
    """The working directory: a folder of images and label files, and one that is hidden."""
    names = ("a/2.txt", "a/1.TXT", "a/.3.txt", "a/4.csv", "a/5.JPG", "a/1.png", "a/deep/6.txt")
    write_files(str(working_folder), dict.fromkeys((*names, ".git/7.txt", "b/8.txt"), "x"))
    return working_folder


def test_images_files_and_folders_are_told_apart(mixed: Path) -> None:
    """Each is sorted, and hidden ones are left out."""
    assert tree.names_in("a")[1:] == (("1.png", "5.JPG"), ("1.TXT", "2.txt", "4.csv"), ("a/deep",))
    assert tree.names_in(f"{mixed}/")[1:] == ((), (), (f"{mixed}/a", f"{mixed}/b"))


def test_files_are_found_by_their_extension(mixed: Path) -> None:
    """Upper and lower case are the same."""
    assert tree.names_in("a").of_kind(".txt") == ["a/1.TXT", "a/2.txt"]
    assert tree.stems_of("a", ".txt") == ["1", "2"]
    assert tree.subfolders(str(mixed)) == [f"{mixed}/a", f"{mixed}/b"]


@pytest.mark.parametrize("unreadable", ["gone", "a/2.txt"])
def test_a_folder_that_cannot_be_read_holds_nothing(mixed: Path, unreadable: str) -> None:
    """It may be missing, or be a file."""
    assert tree.names_in(unreadable)[1:] == ((), (), ())
    assert tree.names_in(unreadable).of_kind(".txt") == tree.subfolders(unreadable) == []


def test_of_many_images_some_are_named(mixed: Path) -> None:
    """Layouts look no further."""
    for number in range(2500):
        (mixed / f"b/{number}.jpg").touch()
    assert len(tree.names_in("b").images) == 2000


def test_a_folder_is_read_once_while_it_is_remembered(mixed: Path) -> None:
    """Afterwards it is read again."""
    with tree.remembered():
        before = tree.names_in("b")
        (mixed / "b/9.txt").touch()
        assert tree.names_in("b") is before
    assert tree.names_in("b").of_kind(".txt") == ["b/8.txt", "b/9.txt"]


def test_what_was_read_once_is_remembered() -> None:
    """By its key, while the block runs."""
    found = iter(range(9))
    with tree.remembered():
        assert [tree.once("a", lambda: next(found)), tree.once("a", lambda: next(found))] == [0, 0]
        assert tree.once("b", lambda: next(found)) == 1
    assert tree.once("a", lambda: next(found)) == 2


def test_a_bucket_is_a_folder_as_others(mixed: Path) -> None:
    """The same names; one that cannot be listed holds nothing."""
    root = f"{bucket.Bucket.scheme()}://{mixed}"
    assert tree.names_in(f"{root}/a/")[1:] == (
        ("1.png", "5.JPG"),
        ("1.TXT", "2.txt", "4.csv"),
        (f"{root}/a/deep",),
    )
    assert tree.subfolders(root) == [f"{root}/a", f"{root}/b"]
    assert tree.has_folder(f"{root}/a/deep")
    assert tree.has_file(f"{root}/a/4.csv")
    assert not tree.has_file(f"{root}/a/deep")
    assert not tree.has_folder(f"{root}/a/4.csv")
    assert tree.stems_of(f"{root}/a", ".txt") == ["1", "2"]
    assert tree.beginning(f"{root}/a/4.csv") == b"x"
    assert tree.beginning(f"{root}/a/5.csv") == b""
    assert tree.names_in("nowhere://b/c")[1:] == ((), (), ())


class Flat(FileSystem):
    """A bucket of many names that counts its requests."""

    lists_ranges = True
    requests = 0

    def __init__(self, names: Iterable[str]) -> None:
        self.names = sorted(names)

    def list_range(
        self, uri_prefix: str, start: str = "", end: str = "", *, digests: bool = False
    ) -> Iterator[FoundFile]:
        self.requests += 1
        prefix = uri_prefix.removeprefix("flat://b/")
        for name in self.names:
            if name.startswith(prefix) and name[len(prefix) :] >= start:
                yield FoundFile(name[len(prefix) :], 1, 0)

    def exists(self, uri: str) -> bool:
        self.requests += 1
        return uri.removeprefix("flat://b/") in self.names


def flat(monkeypatch: pytest.MonkeyPatch, *names: str) -> Flat:
    monkeypatch.setattr(Flat, "__abstractmethods__", frozenset())
    system = Flat(names)
    monkeypatch.setattr("beam_pipeline.layouts.tree.file_system", lambda _: system)
    monkeypatch.setattr("beam_pipeline.layouts.tree.files.exists", system.exists)
    return system


def test_a_listing_goes_on_after_a_subfolder_of_many_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of a million images does not hide the folder after it."""
    many = [f"set/images/{n:06}.jpg" for n in range(5000)]
    system = flat(monkeypatch, *many, "set/labels/1.txt", "set/z.csv", "set/.git/x")
    with tree.remembered():
        names = tree.names_in("flat://b/set")
        assert names.folders == ("flat://b/set/images", "flat://b/set/labels")
        assert names.files == ("z.csv",)
        assert system.requests == 2
        assert tree.has_folder("flat://b/set/labels")
        assert not tree.has_folder("flat://b/set/masks")
        assert system.requests == 2


def test_a_folder_that_was_listed_whole_is_not_listed_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nor are those below it."""
    system = flat(monkeypatch, "set/a/1.jpg", "set/a/b/2.txt", "set/c.csv")
    with tree.remembered():
        assert tree.subfolders("flat://b/set") == ["flat://b/set/a"]
        assert tree.names_in("flat://b/set/a")[1:] == (("1.jpg",), (), ("flat://b/set/a/b",))
        assert tree.names_in("flat://b/set/a/b").files == ("2.txt",)
        assert tree.names_in("flat://b/set/none")[1:] == ((), (), ())
        assert tree.has_file("flat://b/set/c.csv")
        assert not tree.has_file("flat://b/set/a/c.csv")
        assert system.requests == 1


def test_requests_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bucket of thousands of classes with thousands of images each is not searched for minutes."""
    names = [f"set/{c:03}/{n:04}.jpg" for c in range(200) for n in range(1001)]
    system = flat(monkeypatch, *names)
    with tree.remembered():
        for folder in tree.subfolders("flat://b/set"):
            tree.has_folder(f"{folder}/images")
            tree.has_file(f"{folder}/metadata.csv")
    assert system.requests == 100
