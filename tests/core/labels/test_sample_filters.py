"""Files of classes and of keys, and the samples that they leave out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.labels.classes import (
    Exclusion,
    KnownClasses,
    SampleFilters,
    parse_class_list,
    parse_class_manifest,
)
from beam_pipeline.core.references import SampleRef


def sample(*labels: Any) -> SampleRef:
    return SampleRef("a.jpg", "/p/a.jpg", 9, "train", labels, origin="/p/l.csv")


@pytest.mark.parametrize(
    ("data", "names"),
    [
        (b"cat\ndog\n", ["cat", "dog"]),
        (b"\xef\xbb\xbfcat\r\n dog \r\n\r\n", ["cat", "dog"]),
        ("größe\ntraffic light".encode(), ["größe", "traffic light"]),
    ],
)
def test_the_number_of_a_line_is_an_id(data: bytes, names: list[str]) -> None:
    """Counted from the base; a byte order mark, spaces around and lines at the end do not count."""
    for base in (0, 1):
        expected = tuple((name, i) for i, name in enumerate(names, base))
        assert parse_class_list(data, "c.txt", base) == expected


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b" \n", "--classes c.txt is empty; expected one class per line"),
        (
            b"cat\n\ndog",
            "--classes c.txt, line 2 is empty; expected one class per line, as the line",
        ),
        (
            b"cat\ndog\ncat",
            "--classes c.txt: lines 1 and 3 both name 'cat'; expected each class once",
        ),
        (b"\xff\xfe", "--classes c.txt is not UTF-8 ("),
    ],
)
def test_a_list_that_leaves_ids_open_is_refused(data: bytes, message: str) -> None:
    """The message says the line."""
    with pytest.raises(UsageError) as caught:
        parse_class_list(data, "c.txt", 0)
    assert str(caught.value).startswith(message)


def test_a_manifest_says_the_ids_itself() -> None:
    """Gaps stay; what else it holds does not matter."""
    classes = [{"id": 7, "name": "dog"}, {"id": 2, "name": "cat", "examples": 3}]
    data = json.dumps({"format": "beam-tfrecord", "classes": classes}).encode()
    assert parse_class_manifest(data, "m.json") == (("cat", 2), ("dog", 7))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"{", "--classes m.json is not a manifest of beam-tfrecord (JSONDecodeError("),
        (b"[1]", "--classes m.json is not a manifest of beam-tfrecord (TypeError("),
        (
            b'{"format": "x"}',
            '--classes m.json is not a manifest of beam-tfrecord (ValueError("its',
        ),
        (
            b'{"format": "beam-tfrecord", "classes": []}',
            "--classes m.json: the data set lacks classes",
        ),
    ],
)
def test_another_json_file_is_no_manifest(data: bytes, message: str) -> None:
    """The message says what is expected."""
    with pytest.raises(UsageError) as caught:
        parse_class_manifest(data, "m.json")
    assert str(caught.value).startswith(message)


KNOWN = KnownClasses(("cat", "dog"), 0, "c.txt")


@pytest.mark.parametrize("label", ["cat", ("cat", "dog", "cat"), ()])
def test_samples_of_known_classes_are_kept(label: Any) -> None:
    """One class, a list of them, one an object, or none."""
    assert KNOWN.dead_letter(sample(label)) is None


@pytest.mark.parametrize(
    ("label", "message"), [("cow", "'cow'"), (("dog", "cow", "ant", "cow"), "'cow', 'ant'")]
)
def test_a_sample_with_another_class_is_a_dead_letter(label: Any, message: str) -> None:
    """As a whole, if one of several is not known; the dead letter names each once."""
    assert KNOWN.dead_letter(sample(label)) == DeadLetter(
        "labels",
        "a.jpg",
        "/p/a.jpg",
        "unknown_class",
        f"{message}: no class of c.txt, which has cat, dog",
        "/p/l.csv",
    )


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
    remaining, dead_letters = SampleFilters((exclusion,)).apply([ref("a.jpg"), ref("b.jpg")])
    assert remaining == [ref("a.jpg")]
    message = "left out, as --exclude asks for"
    assert dead_letters == [
        DeadLetter("join", "b.jpg", "/photos/b.jpg", "excluded", message, "/gone.txt", 7)
    ]
    assert exclusion.not_met(letter.key for letter in dead_letters) == ["never.jpg"]


def test_the_first_filter_says_why() -> None:
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
