from __future__ import annotations

import json

from beam_pipeline.core.dead_letters import (
    EXPLANATIONS,
    Reason,
    Stage,
    image_dead_letter,
    row_dead_letter,
)


def test_a_dead_letter_of_an_image_is_this_line() -> None:
    """One line of JSON, letters as they are, without file and line."""
    dead_letter = image_dead_letter(
        Stage.CHECK, "강아지/1.jpg", "gs://b/강아지/1.jpg", Reason.NOT_AN_IMAGE, 'a "b"\nc'
    )
    assert dead_letter.to_json() == (
        '{"stage": "check", "key": "강아지/1.jpg", "uri": "gs://b/강아지/1.jpg", '
        '"reason": "not_an_image", "message": "a \\"b\\"\\nc"}'
    )


def test_a_dead_letter_of_a_row_is_this_line() -> None:
    """It has no URI, but the place of the row."""
    dead_letter = row_dead_letter(
        Stage.JOIN, "a.jpg", Reason.MISSING_IMAGE, "no image", "/labels/l.csv", 7
    )
    assert dead_letter.to_json() == (
        '{"stage": "join", "key": "a.jpg", "uri": "", "reason": "missing_image", '
        '"message": "no image", "file": "/labels/l.csv", "line": 7}'
    )


def test_reasons_and_stages_are_these() -> None:
    """The lists are closed: people count and filter by them."""
    assert [stage.value for stage in Stage] == ["list", "labels", "join", "read", "check"]
    assert [reason.value for reason in Reason] == [
        "name_not_utf8",
        "not_a_file",
        "unusable_member",
        "bad_row",
        "bad_label_value",
        "unknown_class",
        "unlabelled",
        "missing_image",
        "missing_file",
        "ambiguous_key",
        "conflicting_labels",
        "duplicate_key",
        "excluded",
        "duplicate",
        "unreadable",
        "empty_file",
        "changed_since_listing",
        "too_large",
        "not_an_image",
        "unsupported_format",
        "corrupt_image",
        "decompression_bomb",
        "size_mismatch",
        "not_upright",
        "bad_box",
        "empty_box",
        "small_box",
        "bad_mask",
        "filtered_min_side",
        "filtered_max_aspect",
        "filtered_max_pixels",
        "filtered_max_image_bytes",
    ]


def test_every_reason_is_explained() -> None:
    """No reason without a sentence, no sentence without a reason, no two alike."""
    assert set(EXPLANATIONS) == set(Reason)
    assert len(set(EXPLANATIONS.values())) == len(Reason)


def test_no_secret_of_a_url_is_in_a_dead_letter() -> None:
    """A signed URL of a table that no image has: not in the key, the message or the file's name."""
    url = "https://me:pw@host/a b.jpg?X-Goog-Signature=5e3c 1"
    dead_letter = row_dead_letter(
        Stage.JOIN, url, Reason.MISSING_IMAGE, f"{url!r}?", "https://h/l.csv?sig=1", 7
    )
    assert json.loads(
        dead_letter._replace(uri=url, message="at https://h/a?sig=1: no").to_json()
    ) == {
        "stage": "join",
        "key": "https://...@host/a b.jpg?...",
        "uri": "https://...@host/a b.jpg?...",
        "reason": "missing_image",
        "message": "at https://h/a?...: no",
        "file": "https://h/l.csv?...",
        "line": 7,
    }
