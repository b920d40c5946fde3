"""Local folders, listed."""

from __future__ import annotations

import contextlib
import glob
import os
import re
import tempfile
import unicodedata
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from beam_pipeline.core.dataset.manifest import dump_json
from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.errors import ListingError
from beam_pipeline.core.listing.filters import (
    IMAGE_EXTENSIONS,
    ImageRoot,
    Listed,
)
from beam_pipeline.core.references import ImageRef
from beam_pipeline.storage.listing import list_local_root
from tests.pictures import write_files, write_pictures


def image_at(key: str, path: str, size: int) -> ImageRef:
    """What is listed of a file, its version being when it was changed."""
    return ImageRef(key, path, size, os.stat(path).st_mtime_ns)


def list_all(
    folder: object, *patterns: str, excluded: frozenset[str] = frozenset(), batch_size: int = 1000
) -> Listed:
    """All batches of a root as one, images and dead letters sorted."""
    root = ImageRoot(str(folder), patterns, excluded)
    whole = Listed([], [], Counter())
    for part in list_local_root(root, batch_size):
        whole.images += part.images
        whole.dead_letters += part.dead_letters
        whole.ignored.update(part.ignored)
    return Listed(sorted(whole.images), sorted(whole.dead_letters), whole.ignored)


def keys(folder: object, *patterns: str) -> list[str]:
    return [image.key for image in list_all(folder, *patterns).images]


def test_a_folder_gives_its_images_with_their_sizes(tmp_path: Path) -> None:
    """Keys are relative to the root, with `/`; URIs are whole paths; sizes are bytes."""
    images = write_pictures(str(tmp_path), ["a.jpg", "cat/b.png", "cat/deep/c.GIF", "dog/d"])
    listed = list_all(tmp_path)
    assert listed.images == [
        image_at(key, f"{tmp_path}/{key}", len(content)) for key, content in sorted(images.items())
    ]
    assert listed.dead_letters == []
    assert listed.ignored == Counter()


def test_a_folder_gives_what_may_be_an_image(tmp_path: Path) -> None:
    """Every image extension in any case, and a file without one; the rest is counted by its own."""
    images = [f"a{extension}" for extension in IMAGE_EXTENSIONS] + ["B.JPEG", "no_extension"]
    others = ["x.txt", "y.TXT", "z.csv", "photo.jpg.part", "Thumbs.db", "dot."]
    write_files(str(tmp_path), dict.fromkeys([*images, *others], b"x"))
    listed = list_all(tmp_path)
    assert [image.key for image in listed.images] == sorted(images)
    assert listed.ignored == {".txt": 2, ".csv": 1, ".part": 1, ".db": 1, ".": 1}


HIDDEN = "cat/.hidden.jpg cat/._a.jpg .DS_Store .git/b.jpg cat/.thumbs/c.jpg __MACOSX/d.jpg cat/__MACOSX/e"
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
    listed = list_all(tmp_path, *patterns.split())
    assert [image.key for image in listed.images] == expected.split()
    assert listed.ignored == Counter()


def test_hidden_files_and_folders_are_passed_over_and_counted(tmp_path: Path) -> None:
    """So are the shadow files that macOS puts into archives, at any depth."""
    write_files(str(tmp_path), dict.fromkeys(["cat/a.jpg", *HIDDEN.split()], b"x"))
    listed = list_all(tmp_path)
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
    listed = list_all(tmp_path, *patterns, excluded=excluded)
    expected = [] if patterns == ("labels.jpg",) else ["a.jpg"]
    assert [image.key for image in listed.images] == expected
    assert listed.ignored == Counter()


def test_names_with_wildcards_spaces_and_signs_are_names(tmp_path: Path) -> None:
    """Nothing in a real file name is taken for a pattern, a fragment or an escape."""
    names = [
        "[a]/b*.jpg",
        "c?.jpg",
        "d#e.jpg",
        "f g/ h .jpg",
        "i%20j.jpg",
        "k\\l.jpg",
        "m\nn.jpg",
        "~o$p&q;r'.jpg",
    ]
    write_files(str(tmp_path), dict.fromkeys(names, b"x"))
    assert keys(tmp_path) == sorted(names)
    for name in names:
        assert keys(tmp_path, glob.escape(name)) == [name]


def test_decomposed_korean_stays_as_the_file_system_has_it(tmp_path: Path) -> None:
    """A name in NFD, as macOS writes them, is not turned into NFC: the file would not be found."""
    name = unicodedata.normalize("NFD", "강아지/사진.jpg")
    assert name != unicodedata.normalize("NFC", name)
    write_files(str(tmp_path), {name: b"x"})
    assert list_all(tmp_path).images == [image_at(name, f"{tmp_path}/{name}", 1)]


def test_keys_are_the_same_however_the_root_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative root and one with a slash at its end give the same keys."""
    write_files(str(tmp_path), {"photos/cat/a.jpg": b"x"})
    monkeypatch.chdir(tmp_path)
    assert list_all(".").images == [image_at("photos/cat/a.jpg", "./photos/cat/a.jpg", 1)]
    assert list_all("photos").images == [image_at("cat/a.jpg", "photos/cat/a.jpg", 1)]
    assert keys(f"{tmp_path}/photos/") == ["cat/a.jpg"]


def test_a_name_that_is_not_utf8_is_a_dead_letter(tmp_path: Path) -> None:
    """Its bytes are shown escaped, so the dead letter itself can be written; others are listed."""
    write_files(str(tmp_path), {"a.jpg": b"x", "caf\udce9/b.jpg": b"x", "c\udcff.jpg": b"x"})
    listed = list_all(tmp_path)
    assert [image.key for image in listed.images] == ["a.jpg"]
    assert listed.dead_letters == [
        DeadLetter(
            "list",
            key,
            f"{tmp_path}/{key}",
            "name_not_utf8",
            "the name is not valid UTF-8; rename the file",
        )
        for key in (r"c\udcff.jpg", r"caf\udce9/b.jpg")
    ]
    assert all(dead_letter.to_json().encode() for dead_letter in listed.dead_letters)


def test_an_extension_that_is_not_utf8_can_be_written_down(tmp_path: Path) -> None:
    """What is counted as passed over ends in the manifest, so it must be text."""
    write_files(str(tmp_path), {"a.\udcff": b"x"})
    listed = list_all(tmp_path)
    assert listed.ignored.total() + len(listed.dead_letters) == 1
    dump_json({"ignored_files": dict(listed.ignored)})


def test_a_pipe_is_not_a_file(tmp_path: Path) -> None:
    """It becomes a dead letter and is never opened, which would wait for ever; not if it is passed over."""
    os.mkfifo(tmp_path / "a.jpg")
    os.mkfifo(tmp_path / "a.fifo")
    listed = list_all(tmp_path)
    assert (listed.images, listed.ignored) == ([], {".fifo": 1})
    assert listed.dead_letters == [
        DeadLetter(
            "list",
            "a.jpg",
            f"{tmp_path}/a.jpg",
            "not_a_file",
            "a socket, pipe or device, not a file",
        )
    ]


def test_links_are_followed(tmp_path: Path) -> None:
    """A link to a file has the file's size, one to a folder the folder's images."""
    write_files(str(tmp_path), {"real/a.jpg": b"12345", "elsewhere/deep/b.jpg": b"123"})
    os.symlink(tmp_path / "real" / "a.jpg", tmp_path / "real" / "c.jpg")
    os.symlink(tmp_path / "elsewhere", tmp_path / "real" / "more")
    assert list_all(tmp_path / "real").images == [
        image_at("a.jpg", f"{tmp_path}/real/a.jpg", 5),
        image_at("c.jpg", f"{tmp_path}/real/c.jpg", 5),
        image_at("more/deep/b.jpg", f"{tmp_path}/real/more/deep/b.jpg", 3),
    ]


def test_a_dangling_link_is_listed(tmp_path: Path) -> None:
    """Reading it will say why there is no image; nobody is told nothing."""
    os.symlink(tmp_path / "gone.jpg", tmp_path / "a.jpg")
    assert list_all(tmp_path).images == [ImageRef("a.jpg", f"{tmp_path}/a.jpg", 0)]


@pytest.mark.parametrize("folders", [9, 30])
def test_many_folders_that_link_to_each_other_are_refused(tmp_path: Path, folders: int) -> None:
    """Instead of being listed by each of a million ways or more; the error names links."""
    for number in range(folders):
        write_files(str(tmp_path), {f"f{number}/a.jpg": b"x"})
        for other in range(folders):
            if other != number:
                os.symlink(f"../f{other}", tmp_path / f"f{number}" / f"to{other}")
    with pytest.raises(
        ListingError,
        match=r"links .* lead to the same folders more than 2000 times, .*/f\d/.*/to\d+; remove",
    ):
        list_all(tmp_path)


def test_a_folder_that_no_pattern_can_match_is_not_looked_at(tmp_path: Path) -> None:
    """So that one image beside large folders is found at once."""
    write_files(
        str(tmp_path),
        dict.fromkeys(["a.jpg", "b/c.jpg", "b/d/e.jpg", "x/c.jpg", "x/.git/y.jpg"], b"x"),
    )
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
            listed = list_all(tmp_path, *patterns)
            assert [image.key for image in listed.images] == found
            assert sorted(looked_at) == [f"{tmp_path}{folder}" for folder in folders]
            assert listed.ignored == {}


def test_links_that_lead_only_to_each_other_are_listed_as_dangling(tmp_path: Path) -> None:
    """A link to itself, or two to each other, is a file that cannot be read."""
    for name, target in (("a.jpg", "a.jpg"), ("b.jpg", "c.jpg"), ("c.jpg", "b.jpg")):
        os.symlink(tmp_path / target, tmp_path / name)
    assert list_all(tmp_path).images == [
        ImageRef(name, f"{tmp_path}/{name}", 0) for name in ("a.jpg", "b.jpg", "c.jpg")
    ]


def test_a_root_that_is_gone_is_a_listing_error(tmp_path: Path) -> None:
    """The error names the folder and is one that is written for a person."""
    with pytest.raises(ListingError, match=re.escape(f"{tmp_path}/gone cannot be listed")):
        list_all(tmp_path / "gone")


def test_a_root_that_is_a_file_is_a_listing_error(tmp_path: Path) -> None:
    """The error names the path, the reason and what to do."""
    write_files(str(tmp_path), {"a.jpg": b"x"})
    expected = (
        f"{tmp_path}/a.jpg cannot be listed (Not a directory), so its images would be missed; "
        "make it readable or move it out of the images' folder"
    )
    with pytest.raises(ListingError, match=f"^{re.escape(expected)}$"):
        list_all(tmp_path / "a.jpg")


@pytest.fixture
def public_folder() -> Iterator[str]:
    """A folder that every user may enter; those of `tmp_path` are the runner's own."""
    with tempfile.TemporaryDirectory() as folder:
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
def test_a_folder_that_may_not_be_read_is_a_listing_error(public_folder: str) -> None:
    """Its images are not left out in silence: the error names it."""
    write_files(public_folder, {"cat/a.jpg": b"x", "secret/b.jpg": b"x"})
    with (
        access(f"{public_folder}/secret", 0o000),
        pytest.raises(ListingError, match=r"/secret cannot be listed \(Permission denied\)"),
    ):
        list_all(public_folder)


@pytest.mark.promise("unlisted_folder")
def test_a_file_whose_size_may_not_be_read_is_a_listing_error(public_folder: str) -> None:
    """With a size of 0 it would look as if it had changed since it was listed."""
    write_files(public_folder, {"names/a.jpg": b"x"})
    with (
        access(f"{public_folder}/names", 0o744),
        pytest.raises(
            ListingError,
            match=r"^the size of /.*/names/a\.jpg cannot be read \(Permission denied\); make the file ",
        ),
    ):
        list_all(public_folder)


@pytest.mark.promise("unlisted_folder")
def test_a_link_to_where_nobody_may_look_is_a_listing_error(public_folder: str) -> None:
    """It may be a folder of images."""
    write_files(public_folder, {"photos/a.jpg": b"x", "secret/cat/b.jpg": b"x"})
    os.symlink("../secret/cat", f"{public_folder}/photos/cat")
    with (
        access(f"{public_folder}/secret", 0o000),
        pytest.raises(ListingError, match=r"/photos/cat cannot be listed \(Permission denied\)"),
    ):
        list_all(f"{public_folder}/photos")


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


def test_an_empty_folder_gives_one_empty_batch(tmp_path: Path) -> None:
    """What was found in it, nothing, is still said."""
    assert list(list_local_root(ImageRoot(str(tmp_path)), 10)) == [Listed([], [], Counter())]
