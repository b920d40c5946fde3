"""Keys of samples to leave out: the file, and what becomes of the samples."""

from __future__ import annotations

import pytest

from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.labels.class_files import KnownClasses
from beam_pipeline.core.labels.exclusion import Exclusion, SampleFilters
from beam_pipeline.core.references import SampleRef


def ref(key: str, label: str = "cat") -> SampleRef:
    return SampleRef(key, f"/photos/{key}", 9, "train", (label,))


def test_a_file_lists_a_key_a_line() -> None:
    """With any line ends, a byte order mark, empty lines; spaces belong to a key; the first line counts."""
    data = "\ufeffa/1.jpg\r\n\n b.jpg\na/1.jpg\nlast".encode()
    assert Exclusion.parse(data, "f").lines == {"a/1.jpg": 1, " b.jpg": 3, "last": 5}
    assert Exclusion.parse(b"", "f").lines == {}


def test_a_file_that_is_no_text_is_refused() -> None:
    """The error names the option and the file."""
    with pytest.raises(UsageError, match=r"^--exclude x\.bin is not UTF-8"):
        Exclusion.parse(b"\xff\xfe\x00", "x.bin")


def test_listed_samples_become_dead_letters() -> None:
    """Each with the file and the line that names it."""
    exclusion = Exclusion("/gone.txt", {"b.jpg": 7, "never.jpg": 8})
    remaining, dead_letters = exclusion.apply([ref("a.jpg"), ref("b.jpg")])
    assert remaining == [ref("a.jpg")]
    message = "left out, as --exclude asks for"
    assert dead_letters == [
        DeadLetter("join", "b.jpg", "/photos/b.jpg", "excluded", message, "/gone.txt", 7)
    ]
    assert exclusion.not_met(letter.key for letter in dead_letters) == ["never.jpg"]


def test_sorters_follow_each_other() -> None:
    """What the first leaves out, the second does not see."""
    exclusion = Exclusion("/gone.txt", {"b.jpg": 7})
    known = KnownClasses(("cat",), 0, "/classes.txt")
    samples = [ref("a.jpg"), ref("b.jpg", "dog"), ref("c.jpg", "dog")]
    remaining, dead_letters = SampleFilters((exclusion, known)).apply(samples)
    assert remaining == [ref("a.jpg")]
    assert [(letter.key, letter.reason) for letter in dead_letters] == [
        ("b.jpg", "excluded"),
        ("c.jpg", "unknown_class"),
    ]
