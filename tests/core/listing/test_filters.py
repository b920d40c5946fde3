"""Which files are listed: filters, and patterns."""

from __future__ import annotations

import glob
import itertools
import re
import time
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from beam_pipeline.core.listing import filters, folders, globs
from beam_pipeline.core.report.side_files import SIDE_FILES
from tests.rows import in_rows


@in_rows
def test_a_filter_lists_some_files_and_counts_others(
    root: dict[str, Any], keys: str, listed: str, ignored: dict[str, int], passed_over: Any
) -> None:
    """Of whole names, as buckets have them; label files are noted by their kinds."""
    names = filters.ObjectFilter(filters.ImageRoot(**root))
    assert [key for key in keys.split(" ") if names.lists(key)] == listed.split()
    assert names.rules.ignored == ignored
    assert names.rules.label_files.first == passed_over


def test_a_listing_of_images_alone_is_taken_whole() -> None:
    """Where no rule is for some of them; a member's label files are noted by their keys."""
    for rules, whole in (({}, True), ({"but": ("*_mask.png",)}, False), ({"within": "b/"}, False)):
        root = filters.ImageRoot("/d", **rules)
        assert filters.ListingFilter(root).lists_all(["b/a.png"], "/d/") is whole
    names = filters.ObjectFilter(filters.ImageRoot("/p", archive=filters.Archive("zip", "p.zip")))
    assert not names.lists("cat/a.csv")
    assert names.rules.label_files.first == {".csv": [("p.zip/cat/a.csv", "/p/cat/a.csv", True)]}


def test_folders_are_entered_and_hidden_ones_count_once() -> None:
    """However many names lie below one, in any order, and whatever is hidden inside of it."""
    names = filters.ObjectFilter(filters.ImageRoot("gs://b"))
    assert [*filter(names.rules.enters, ("cat", ".git", "__MACOSX", "a.jpg"))] == ["cat", "a.jpg"]
    keys = [".git/a.jpg", "cat/.x/a.jpg", ".git/.y/b.jpg", "cat/.x/b.jpg", "dog/.x/a.jpg"]
    hidden = [".git/", "cat/.x/", ".git/", "cat/.x/", "dog/.x/"]
    assert [*map(names.hidden_folder, keys)] == hidden
    assert not any(map(names.lists, keys))
    assert names.rules.ignored == {"hidden folders": 5}


def seen(keys: Iterable[str]) -> filters.LabelFiles:
    """What a listing of these files counts."""
    label_files = filters.LabelFiles()
    for key in keys:
        label_files.see(filters.LabelFile(key, f"gs://b/{key}"))
    return label_files


def test_files_beside_shards_are_known() -> None:
    """None of them is taken for the user's labels where the data set lies among the images."""
    names = [f"{name}.json" for name in ("manifest", "dataset_info", "features", "croissant")]
    names += ["changes.json", "duplicates.json", "dead_letters.jsonl", "labels.txt", "README.md"]
    names += ["label_map.pbtxt", "schema.pbtxt", "report.html", "image.class.label.labels.txt"]
    for entry in SIDE_FILES:
        assert any(re.fullmatch(entry.pattern, name) for name in names), entry
    assert not seen([*names, "d-train.tfrecord-00000-of-00002"]).by_extension().counts
    alone = seen(["labels.txt"]).by_extension()  # without shards, it may well be a label file
    assert alone.counts == {".txt": 1}


def test_counts_add_up_in_any_order() -> None:
    """Ranges of a bucket are listed by many workers."""
    parts = (["b.csv", "d.csv"], ["a.csv", "z.xml"], ["c.csv"])
    for order in itertools.permutations(parts):
        whole = filters.LabelFiles()
        for part in order:
            whole.add(seen(part))
        assert whole == seen(itertools.chain(*parts))


@in_rows
def test_some_folders_are_no_class_where_unlabelled_images_are_kept(
    key: str, split: str, class_name: str
) -> None:
    """A split's own folder, and one that says so."""
    meaning = folders.without_class(folders.folder_meaning(key))
    assert (meaning.split, meaning.class_name) == (split, class_name)


@in_rows
def test_a_member_has_names_besides_its_key(archive: Any, path: str, aliases: Any) -> None:
    """The first says class and split; rows may use any."""
    naming = filters.Archive(*archive)
    assert (naming.aliases(path), naming.key(path)) == (aliases, f"{naming.name}/{path}")


# --- globs


@in_rows
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


PIECES = {  # of globs, as expressions that try every length; at the start of a name, no dot matches
    **{text: re.escape(text) for text in "abc/."},
    "*": "[^/]*",
    "?": "[^/]",
    "[a]": "(?!/)[a]",
    "[!a]": "[^/a]",
    "**": r"(?:[^/]|/(?!\.))*",
    "**/": r"(?:(?!\.)[^/]+/)*",
}
PATTERNS = st.lists(st.sampled_from([*PIECES]), max_size=9)
KEYS = st.lists(st.text("aab./", max_size=12).filter(lambda key: "//" not in key), max_size=20)


@given(PATTERNS, KEYS)
@example(["**/", "a", "*", "b", "**", "c"], ["xaab/c/b", "a/ab.c"])
@example(["**/", "*", "a", "*", "/", "**/", "b", "*"], ["b/aa/b/ba", "a/.a/b", "a/b/c/b"])
def test_a_settled_star_finds_what_trying_every_length_would(
    pieces: list[str], keys: list[str]
) -> None:
    """Without atomic groups, the same keys match."""
    plain, pattern = "", "".join(pieces)
    for piece in re.finditer(r"(?<![^/])\*\*/|\*\*|\[.*?\]|.", pattern):
        at_start = pattern[: piece.start()][-1:] in ("", "/")
        guarded = at_start and piece[0] != "**/" and piece[0][0] in "*?["
        plain += r"(?!\.)" * guarded + PIECES[piece[0]]
    for key in keys:
        assert bool(globs.glob_regex(pattern).fullmatch(key)) is bool(
            re.fullmatch(plain, key, re.DOTALL)
        ), (pattern, key)


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


@given(PATTERNS.map("".join), st.text("ab./", max_size=10))
@example("b[x/]c/d", "b/c/d")
@example("[!a]/b", "c/b")
def test_a_folder_that_holds_a_match_is_looked_at(pattern: str, key: str) -> None:
    """As is every folder above it."""
    if globs.glob_regex(pattern).fullmatch(key):
        glob_of_folders = globs.FolderGlob(pattern)
        above = [key[:i] for i, character in enumerate(key) if character == "/"]
        assert all(map(glob_of_folders.can_hold, above))
