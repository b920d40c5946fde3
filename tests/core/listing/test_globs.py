"""Patterns of paths: braces as shells expand them, and globs: what they match, and where they begin."""

from __future__ import annotations

import glob
import re
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.listing import globs
from beam_pipeline.core.listing.globs import (
    FolderGlob,
    expand_braces,
    glob_regex,
    split_pattern,
)


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
    assert list(expand_braces(path)) == names


@pytest.mark.parametrize("path", ["{0..999999999999}", "{0..999}{0..999}", "{a,b}" * 30])
def test_too_many_names_are_an_error(path: str) -> None:
    """Before they fill the memory."""
    with pytest.raises(UsageError, match="matches more than 100000 names"):
        expand_braces(path)


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
    regex = glob_regex(pattern)
    assert [key for key in (*matching, *unmatched) if regex.fullmatch(key)] == matching


@given(st.text(max_size=12))
@example("a[b]*c?[!d]")
@example("[[]")
def test_an_escaped_name_matches_itself_alone(name: str) -> None:
    """What `glob.escape` makes of a file name is a pattern of that one file."""
    regex = glob_regex(glob.escape(name))
    assert regex.fullmatch(name)
    assert not regex.fullmatch(name + "x")


@given(st.text("a-z![]^*?/\\&|~", max_size=8))
@example("[!]")
@example("[!]a].jpg")
@example("[z-a].jpg")
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_any_text_is_a_pattern(pattern: str) -> None:
    """Whatever a person types between brackets, it is a glob and not an error."""
    assert glob_regex(pattern).fullmatch("\0") is None or set(pattern) & set("*?[")


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
    assert split_pattern(path) == expected


def test_a_set_is_no_dot_at_the_beginning_of_a_name() -> None:
    """Even one that names the dot, as in a shell; its length plays no part."""
    for pattern in ("[.]a.jpg", "[.x]a.jpg", "[!x]a.jpg"):
        assert glob_regex(pattern).fullmatch(".a.jpg") is None
        assert glob_regex(f"cat/{pattern}").fullmatch("cat/.a.jpg") is None
    assert glob_regex("a[.]jpg").fullmatch("a.jpg")


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
        assert bool(glob_regex(pattern).fullmatch(key)) is bool(plain.fullmatch(key)), key


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
    assert glob_regex(pattern).fullmatch(key) is None
    assert time.process_time() - started < 5


@given(st.lists(PIECES, max_size=7).map("".join), st.text("ab./", max_size=10))
@example("b[x/]c/d", "b/c/d")
@example("[!a]/b", "c/b")
def test_a_folder_that_holds_a_match_is_looked_at(pattern: str, key: str) -> None:
    """As is every folder above it."""
    if glob_regex(pattern).fullmatch(key):
        folders = FolderGlob(pattern)
        above = [key[:i] for i, character in enumerate(key) if character == "/"]
        assert all(map(folders.can_hold, above))
