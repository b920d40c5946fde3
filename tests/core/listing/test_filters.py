"""Which files are listed: filters, the meaning of folders, and patterns."""

from __future__ import annotations

import glob
import itertools
import re
import time
from collections.abc import Iterable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.listing import filters, globs
from beam_pipeline.core.listing.folders import (
    FolderMeaning,
    first_folder_split,
    folder_meaning,
    named_split,
    named_splits,
    without_class,
)
from beam_pipeline.core.report.side_files import SIDE_FILES


def test_a_filter_counts_over_all_it_was_asked() -> None:
    """The counts add up over folders and files."""
    rules = filters.ListingFilter(
        filters.ImageRoot("gs://b/x", excluded=frozenset({"gs://b/x/labels"}))
    )
    assert [rules.enters(name) for name in ("cat", ".git", "__MACOSX", "a.jpg")] == [
        True,
        False,
        False,
        True,
    ]
    listed = ["a.jpg", "a.JPG", ".a.jpg", "x/.b.png", "a.csv", "labels", "x/labels"]
    assert [rules.lists(key, f"gs://b/x/{key}") for key in listed] == [
        True,
        True,
        False,
        False,
        False,
        False,
        True,
    ]
    assert rules.ignored == {"hidden folders": 2, "hidden files": 2, ".csv": 1}


def test_an_object_is_listed_by_its_whole_name() -> None:
    """Names come without their folders: one that a slash ends stands for a folder, and none is empty."""
    names = filters.ObjectFilter(
        filters.ImageRoot("gs://b/x", excluded=frozenset({"gs://b/x/labels"}))
    )
    keys = ["a.jpg", "cat/", "", "cat/b.png", "labels", "cat/c.csv"]
    assert [key for key in keys if names.lists(key)] == ["a.jpg", "cat/b.png"]
    assert names.prefix == "gs://b/x/"
    assert names.rules.ignored == {".csv": 1}


def test_a_hidden_folder_counts_once() -> None:
    """However many names lie below it, in any order, and whatever is hidden inside of it."""
    names = filters.ObjectFilter(filters.ImageRoot("gs://b"))
    keys = [".git/a.jpg", "cat/.x/a.jpg", ".git/.y/b.jpg", "cat/.x/b.jpg", "dog/.x/a.jpg"]
    assert [names.hidden_folder(key) for key in keys] == [
        ".git/",
        "cat/.x/",
        ".git/",
        "cat/.x/",
        "dog/.x/",
    ]
    assert not any(map(names.lists, keys))
    assert names.rules.ignored == {"hidden folders": 3}


def test_a_root_may_be_listed_in_some_folders_only() -> None:
    """What lies elsewhere is neither listed nor counted."""
    rules = filters.ListingFilter(filters.ImageRoot("/d", within=("train/images/", "b/")))
    keys = ["train/images/a.jpg", "train/images2/a.jpg", "b/x/a.jpg", "a.jpg", "a.csv", "b/a.csv"]
    assert [key for key in keys if rules.lists(key, f"/d/{key}")] == [
        "train/images/a.jpg",
        "b/x/a.jpg",
    ]
    assert rules.ignored == {".csv": 1}


def test_a_root_may_be_listed_but_for_some_files() -> None:
    """In any folder, also where all others are images; those left out are not counted."""
    rules = filters.ListingFilter(filters.ImageRoot("/d", but=("**/*_mask.png",)))
    keys = ["a.png", "a_mask.png", "b/a.png", "b/a_mask.png", "b/a_mask.jpg"]
    assert [key for key in keys if rules.lists(key, f"/d/{key}")] == [
        "a.png",
        "b/a.png",
        "b/a_mask.jpg",
    ]
    assert not rules.lists_all(keys, "/d/")
    assert rules.ignored == {}


def test_label_files_that_are_passed_over_are_seen() -> None:
    """Neither those of --labels nor hidden ones; those in an archive by the keys of its members."""
    excluded = frozenset({"gs://b/x/known.csv"})
    names = filters.ObjectFilter(filters.ImageRoot("gs://b/x", excluded=excluded))
    for key in ("known.csv", "a.csv", ".b.csv", ".git/c.csv", "cat/1.jpg", "cat/1.txt", "cat/1.db"):
        names.lists(key)
    assert names.rules.label_files.first == {
        ".csv": [filters.LabelFile("a.csv", "gs://b/x/a.csv")],
        ".txt": [filters.LabelFile("cat/1.txt", "gs://b/x/cat/1.txt")],
    }
    names = filters.ObjectFilter(
        filters.ImageRoot("/d/p.zip", archive=filters.Archive("zip", "p.zip"))
    )
    names.lists("cat/a.csv")
    assert names.rules.label_files.first == {
        ".csv": [filters.LabelFile("p.zip/cat/a.csv", "/d/p.zip/cat/a.csv", archive=True)]
    }


def test_with_patterns_label_files_count_in_folders_on_their_way() -> None:
    """Not in other folders, nor if they match themselves; ignored files are not counted, as ever."""
    names = filters.ObjectFilter(filters.ImageRoot("gs://b", ("cat*/*.jpg", "odd.csv")))
    keys = [
        "a.csv",
        "odd.csv",
        "cats/1.jpg",
        "cats/1.png",
        "cats/b.csv",
        "dog/c.csv",
        "cats/x/d.csv",
    ]
    assert [key for key in keys if names.lists(key)] == ["odd.csv", "cats/1.jpg"]
    label_files = names.rules.label_files
    assert [file.key for file in label_files.first[".csv"]] == ["a.csv", "cats/b.csv"]
    assert (label_files.counts, names.rules.ignored) == ({".csv": 2}, {})


def test_a_readme_without_an_extension_is_no_image() -> None:
    """It is counted by its name; other files without an extension may be images."""
    rules = filters.ListingFilter(filters.ImageRoot("/photos"))
    keys = ("README", "a/License", "a/0a1b2c", "a/readme.jpg")
    assert [key for key in keys if rules.lists(key, f"/photos/{key}")] == [
        "a/0a1b2c",
        "a/readme.jpg",
    ]
    assert rules.ignored == {"README": 1, "LICENSE": 1}


def label_file(key: str) -> filters.LabelFile:
    """A file in a bucket."""
    return filters.LabelFile(key, f"gs://b/{key}")


def seen(*keys: str) -> filters.LabelFiles:
    """What a listing of these files counts."""
    label_files = filters.LabelFiles()
    for key in keys:
        label_files.see(label_file(key))
    return label_files


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("a/labels.CSV", ".csv"),
        ("1.txt", ".txt"),
        ("a.coco.json", ".json"),
        ("rows.jsonl", ".jsonl"),
        ("t.parquet", ".parquet"),
        ("a.xml", ".xml"),
        ("out/manifest.json", "manifest.json"),
        ("out/labels.txt", "labels.txt"),
        ("out/image_class_label.labels.txt", "labels.txt"),
        ("my_labels.txt", ".txt"),
        ("out/dead_letters.jsonl", "dead_letters.jsonl"),
        ("d-train.tfrecord-00000-of-00002", ".tfrecord"),
        ("csv", ""),
        ("a.csv/b", ""),
        (".csv", ""),
        ("a/.hidden.csv", ""),
        ("photo.db", ""),
        ("a.jpg", ""),
    ],
)
def test_kinds(key: str, kind: str) -> None:
    """By extension, in any case; a written data set's files by their names."""
    assert filters.kind_of(key) == kind


def test_files_beside_shards_are_known() -> None:
    """None of them is taken for the user's labels where the data set lies among the images."""
    names = [
        "manifest.json",
        "dataset_info.json",
        "features.json",
        "croissant.json",
        "changes.json",
        "duplicates.json",
        "dead_letters.jsonl",
        "labels.txt",
        "label_map.pbtxt",
        "schema.pbtxt",
        "report.html",
        "image_class_label.labels.txt",
        "README.md",
    ]
    assert not [
        entry
        for entry in SIDE_FILES
        if not any(re.fullmatch(entry.pattern, name) for name in names)
    ]
    label_files = seen(*names, "d-train.tfrecord-00000-of-00002")
    assert not label_files.by_extension().counts
    alone = seen("labels.txt").by_extension()  # without shards, it may well be a label file
    assert alone.counts == {".txt": 1}


@pytest.mark.parametrize("order", itertools.permutations(range(3)))
def test_counts_add_up_in_any_order(order: Iterable[int]) -> None:
    """Ranges of a bucket are listed by many workers."""
    parts = (["b.csv", "d.csv"], ["a.csv", "z.xml"], ["c.csv"])
    whole = filters.LabelFiles()
    for index in order:
        whole.add(seen(*parts[index]))
    assert whole == seen(*(key for part in parts for key in part))


# --- Splits and classes from the names of folders, and of members of archives


@pytest.mark.parametrize(
    ("key", "split", "class_name"),
    [
        ("cat/1.jpg", "", "cat"),
        ("cat/tabby/1.jpg", "", "cat/tabby"),
        ("1.jpg", "", ""),
        ("train/cat/1.jpg", "train", "cat"),
        ("Training/cat/1.jpg", "train", "cat"),
        ("VAL/cat/tabby/1.jpg", "validation", "cat/tabby"),
        ("dev/cat/1.jpg", "validation", "cat"),
        ("eval/cat/1.jpg", "test", "cat"),
        ("train/1.jpg", "", "train"),
        ("train/test/1.jpg", "train", "test"),
        ("cat/train/1.jpg", "", "cat/train"),
        ("trains/cat/1.jpg", "", "trains/cat"),
        ("강아지/1.jpg", "", "강아지"),
    ],
)
def test_a_folder_means_a_class_and_perhaps_a_split(key: str, split: str, class_name: str) -> None:
    """A split's name counts as one only in front of a class folder."""
    assert folder_meaning(key) == FolderMeaning(split, class_name)


@pytest.mark.parametrize(
    ("key", "split"),
    [
        ("train/1.jpg", "train"),
        ("Valid/a/1.jpg", "validation"),
        ("testing/1.jpg", "test"),
        ("cat/train/1.jpg", ""),
        ("train", ""),
        ("train.jpg", ""),
        ("trains/1.jpg", ""),
    ],
)
def test_with_a_label_table_the_first_folder_alone_may_be_a_split(key: str, split: str) -> None:
    """No class folder needs to follow it, but it must be a folder."""
    assert first_folder_split(key) == split


@pytest.mark.parametrize(
    ("key", "split", "class_name"),
    [
        ("Train/1.jpg", "train", ""),
        ("unlabelled/1.jpg", "", ""),
        ("val/Unlabeled/1.jpg", "validation", ""),
        ("val/cat/1.jpg", "validation", "cat"),
        ("val/test/1.jpg", "validation", "test"),
        ("cat/unlabelled/1.jpg", "", "cat/unlabelled"),
        ("1.jpg", "", ""),
    ],
)
def test_some_folders_are_no_class_where_unlabelled_images_are_kept(
    key: str, split: str, class_name: str
) -> None:
    """A split's own folder, and one that says so."""
    assert without_class(folder_meaning(key)) == FolderMeaning(split, class_name)


@pytest.mark.parametrize(
    ("name", "splits"),
    [
        ("train", ["train"]),
        ("x-val-0001", ["validation"]),
        ("train2017", ["train"]),
        ("labels_VAL2017", ["validation"]),
        ("my-test-set", ["test"]),
        ("pretrained", []),
        ("latest", []),
        ("2024", []),
        ("", []),
        ("train_test", ["test", "train"]),
        ("training_train", ["train"]),
    ],
)
def test_words_of_a_name_say_splits(name: str, splits: list[str]) -> None:
    """Words, not parts of them; numbers may follow. Two splits are not one."""
    assert sorted(named_splits(name)) == splits
    assert named_split(name) == (splits[0] if len(splits) == 1 else "")


@pytest.mark.parametrize(
    ("archive", "path", "aliases"),
    [
        (
            filters.Archive("zip", "a/photos.zip"),
            "cat/1.jpg",
            ("cat/1.jpg", "cat/1.jpg", "photos/cat/1.jpg", ""),
        ),
        (filters.Archive("zip", "photos.zip"), "1.jpg", ("1.jpg", "1.jpg", "photos/1.jpg", "")),
        (
            filters.Archive("tar", "p.tar", top="x/y/"),
            "x/y/cat/1.jpg",
            ("cat/1.jpg", "x/y/cat/1.jpg", "p/x/y/cat/1.jpg", "y/cat/1.jpg"),
        ),
        (
            filters.Archive("tar", "val.tar", split="validation"),
            "cat/1.jpg",
            ("validation/cat/1.jpg", "cat/1.jpg", "val/cat/1.jpg", ""),
        ),
        (
            filters.Archive("tar", "val.tar", split="validation"),
            "val/cat/1.jpg",
            ("val/cat/1.jpg", "val/cat/1.jpg", "val/val/cat/1.jpg", "cat/1.jpg"),
        ),
    ],
)
def test_a_member_has_names_besides_its_key(
    archive: filters.Archive, path: str, aliases: tuple[str, ...]
) -> None:
    """The first says class and split; rows may use any."""
    assert archive.aliases(path) == aliases
    assert archive.key(path) == f"{archive.name}/{path}"


@pytest.mark.parametrize(
    ("names", "top"),
    [
        ([], ""),
        (["1.jpg"], ""),
        (["cat/1.jpg"], ""),
        (["cat/1.jpg", "dog/1.jpg"], ""),
        (["p/cat/1.jpg", "p/dog/1.jpg"], "p/"),
        (["p/cat/1.jpg", "p/1.jpg"], ""),
        (["p/q/cat/1.jpg", "p/q/dog/1.jpg"], "p/q/"),
        (["p/cat/1.jpg", "px/dog/1.jpg"], ""),
        (["train/cat/1.jpg", "train/dog/1.jpg"], ""),
        (["p/Train/cat/1.jpg", "p/Train/dog/1.jpg"], "p/"),
    ],
)
def test_a_folder_around_all_others_says_no_class(names: list[str], top: str) -> None:
    """Unless it says a split, or images lie in it."""
    assert filters.top_folder(names) == top


# --- Patterns of paths: braces as shells expand them, and globs: what they match, and where they begin


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("a.tar", ["a.tar"]),
        ("{train,val}.zip", ["train.zip", "val.zip"]),
        ("s-{8..10}.tar", ["s-8.tar", "s-9.tar", "s-10.tar"]),
        ("s-{008..010}.tar", ["s-008.tar", "s-009.tar", "s-010.tar"]),
        ("s-{2..0}.tar", ["s-2.tar", "s-1.tar", "s-0.tar"]),
        ("{a,b}-{0..1}", ["a-0", "a-1", "b-0", "b-1"]),
        ("{0..1}{,x}", ["0", "0x", "1", "1x"]),
        ("a{b}c{}d", ["a{b}c{}d"]),
        ("a{0...2}", ["a{0...2}"]),
        ("gs://b/{00..01}.tar", ["gs://b/00.tar", "gs://b/01.tar"]),
    ],
)
def test_choices_and_ranges(path: str, names: list[str]) -> None:
    """The first pattern changes slowest; braces of other kinds stay."""
    assert list(globs.expand_braces(path)) == names


@pytest.mark.parametrize("path", ["{0..999999999999}", "{0..999}{0..999}", "{a,b}" * 30])
def test_too_many_names_are_an_error(path: str) -> None:
    """Before they fill the memory."""
    with pytest.raises(UsageError, match="matches more than 100000 names"):
        globs.expand_braces(path)


@pytest.mark.parametrize(
    ("pattern", "matching", "unmatched"),
    [
        ("*.jpg", ["a.jpg", "a b.jpg"], ["a.jpeg", "b/a.jpg", "a.jpg.txt", "ajpg"]),
        ("?.jpg", ["a.jpg", "한.jpg"], ["ab.jpg", ".jpg", "/.jpg"]),
        ("*/*.jpg", ["cat/a.jpg"], ["a.jpg", "cat/deep/a.jpg"]),
        ("**/*.jpg", ["a.jpg", "cat/a.jpg", "cat/deep/a.jpg"], ["cat/a.png", "cat.jpg/a"]),
        ("cat/**/*.jpg", ["cat/a.jpg", "cat/b/c/a.jpg"], ["a.jpg", "cats/a.jpg"]),
        ("cat/**", ["cat/a.jpg", "cat/b/c.txt"], ["a.jpg", "cat"]),
        ("**", ["a", "a/b", "a/b/c.jpg"], []),
        ("cat/**.jpg", ["cat/a.jpg", "cat/b/c.jpg"], ["cat/a.png", "dog/a.jpg"]),
        ("[abc].jpg", ["a.jpg", "c.jpg"], ["d.jpg", "ab.jpg", "[abc].jpg"]),
        ("[a-c]1.jpg", ["b1.jpg"], ["d1.jpg", "-1.jpg"]),
        ("[!a].jpg", ["b.jpg", "!.jpg"], ["a.jpg"]),
        ("[^a].jpg", ["b.jpg", "^.jpg"], ["a.jpg"]),
        ("cat[!a]dog", ["catbdog"], ["cat/dog"]),
        ("cat**/a.jpg", ["cats/a.jpg"], ["cata.jpg"]),
        ("[]a].jpg", ["].jpg", "a.jpg"], ["b.jpg"]),
        ("[\\d].jpg", ["\\.jpg", "d.jpg"], ["1.jpg"]),
        ("a[.jpg", ["a[.jpg"], ["a.jpg"]),
        ("a+(b){2}|$^.jpg", ["a+(b){2}|$^.jpg"], ["aabb.jpg"]),
        ("a\nb*", ["a\nb\n.jpg"], ["a b.jpg"]),
    ],
)
def test_a_glob_matches_as_a_shell_with_globstar_would(
    pattern: str, matching: list[str], unmatched: list[str]
) -> None:
    """`*` and `?` stay in a folder, `**` goes through any number, brackets are sets."""
    regex = globs.glob_regex(pattern)
    assert [key for key in (*matching, *unmatched) if regex.fullmatch(key)] == matching


@given(st.text(max_size=12))
@example("a[b]*c?[!d]")
@example("[[]")
def test_an_escaped_name_matches_itself_alone(name: str) -> None:
    """What `glob.escape` makes of a file name is a pattern of that one file."""
    regex = globs.glob_regex(glob.escape(name))
    assert regex.fullmatch(name)
    assert not regex.fullmatch(name + "x")


@given(st.text("a-z![]^*?/\\&|~", max_size=8))
@example("[!]")
@example("[!]a].jpg")
@example("[z-a].jpg")
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_any_text_is_a_pattern(pattern: str) -> None:
    """Whatever a person types between brackets, it is a glob and not an error."""
    assert globs.glob_regex(pattern).fullmatch("\0") is None or set(pattern) & set("*?[")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("photos/*.jpg", ("photos", "*.jpg")),
        ("photos/**/a.jpg", ("photos", "**/a.jpg")),
        ("/data/[ab]/x/*.jpg", ("/data", "[ab]/x/*.jpg")),
        ("*.jpg", (".", "*.jpg")),
        ("/*.jpg", ("/", "*.jpg")),
        ("gs://bucket/photos/*/a?.jpg", ("gs://bucket/photos", "*/a?.jpg")),
        ("gs://bucket/*", ("gs://bucket", "*")),
        ("photos/a.jpg", ("photos", "a.jpg")),
        ("a.jpg", (".", "a.jpg")),
    ],
)
def test_a_pattern_begins_at_its_first_wildcard(path: str, expected: tuple[str, str]) -> None:
    """The folder before is what is listed; the rest is matched below it."""
    assert globs.split_pattern(path) == expected


def test_a_set_is_no_dot_at_the_beginning_of_a_name() -> None:
    """Even one that names the dot, as in a shell; its length plays no part."""
    for pattern in ("[.]a.jpg", "[.x]a.jpg", "[!x]a.jpg"):
        assert globs.glob_regex(pattern).fullmatch(".a.jpg") is None
        assert globs.glob_regex(f"cat/{pattern}").fullmatch("cat/.a.jpg") is None
    assert globs.glob_regex("a[.]jpg").fullmatch("a.jpg")


PIECES = st.sampled_from(["a", "b", "/", ".", "*", "**", "**/", "?", "[a]", "[!a]"])


@given(
    st.lists(PIECES, max_size=9).map("".join),
    st.lists(st.text("aab./", max_size=12).filter(lambda key: "//" not in key), max_size=20),
)
@example("**/a*b**c", ["xa1b/c/b"])
@example("**/*a*/**/b*", ["x/ya/z/b1", "a/.a/b", "a/b/c/b"])
def test_a_settled_star_finds_what_trying_every_length_would(pattern: str, keys: list[str]) -> None:
    """Piece by piece translated, without atomic groups, the same keys match."""
    out, i = [], 0
    while i < len(pattern):
        at_start = i == 0 or pattern[i - 1] == "/"
        piece, length = globs._glob_piece(pattern, i, at_start)
        if at_start and pattern[i] in "*?[" and not pattern.startswith("**/", i):
            piece = r"(?!\.)" + piece
        out.append(piece)
        i += length
    plain = re.compile("".join(out), re.DOTALL)
    for key in keys:
        assert bool(globs.glob_regex(pattern).fullmatch(key)) is bool(plain.fullmatch(key)), key


@pytest.mark.parametrize(
    ("pattern", "key"),
    [
        ("*a" * 40 + "b", "a" * 250),
        ("*[a-z]?" * 40 + "0", "a" * 250),
        ("**/" * 30 + "b", "a/" * 100 + "a"),
        ("**/*a*/" * 15 + "b", "aaa/" * 100 + "a"),
        ("x" + "**a" * 30 + "b", "x" + "a" * 1000),
        ("**" * 50 + "b", "a/" * 500),
        ("**/a*b**" * 20 + "c", "ab/" * 300),
    ],
)
def test_no_pattern_takes_exponential_time(pattern: str, key: str) -> None:
    """However many stars it has, and however nearly a long name matches."""
    started = time.process_time()
    assert globs.glob_regex(pattern).fullmatch(key) is None
    assert time.process_time() - started < 5


@given(st.lists(PIECES, max_size=7).map("".join), st.text("ab./", max_size=10))
@example("b[x/]c/d", "b/c/d")
@example("[!a]/b", "c/b")
def test_a_folder_that_holds_a_match_is_looked_at(pattern: str, key: str) -> None:
    """As is every folder above it."""
    if globs.glob_regex(pattern).fullmatch(key):
        folders = globs.FolderGlob(pattern)
        above = [key[:i] for i, character in enumerate(key) if character == "/"]
        assert all(map(folders.can_hold, above))
