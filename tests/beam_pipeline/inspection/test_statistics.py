"""Figures of examples: what is counted, and how much of it is kept."""

from __future__ import annotations

import math

import pytest

from beam_pipeline.core.records.example_view import FeatureList
from beam_pipeline.inspection import statistics
from beam_pipeline.inspection.statistics import FeatureFigures, Figures, Naming


def figures_of(*lists: FeatureList) -> FeatureFigures:
    figures = FeatureFigures()
    for found in lists:
        figures.add(found)
    return figures


def test_numbers_have_a_range_and_a_mean() -> None:
    """Over all values of all examples; the number of values is that of an example."""
    found = figures_of(
        FeatureList("int64", [3, -1]), FeatureList("int64", []), FeatureList("int64", [10])
    )
    assert (found.low, found.high, found.mean, found.present) == (-1, 10, 4.0, 3)
    assert (found.shortest, found.longest) == (0, 2)


def test_what_is_not_finite_is_counted_apart() -> None:
    """One NaN would make every figure NaN."""
    found = figures_of(FeatureList("float", [0.5, math.nan, math.inf, 1.5]))
    assert (found.low, found.high, found.mean, found.not_finite) == (0.5, 1.5, 1.0, 2)
    nothing = figures_of(FeatureList("float", [math.nan]))
    assert (nothing.values, nothing.not_finite) == (0, 1)
    assert math.isnan(nothing.mean)


def test_texts_are_kept_up_to_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other bytes have a length alone."""
    monkeypatch.setattr(statistics, "MOST_TEXTS", 2)
    few = figures_of(*(FeatureList("bytes", [text]) for text in (b"b", b"a", b"b")))
    assert (few.texts, few.text) == ({b"a", b"b"}, "b")
    many = figures_of(*(FeatureList("bytes", [b"%d" % i]) for i in range(100)))
    assert many.texts == {b"0", b"1", b"2"}
    for odd in (b"\xff\xd8", b"x" * 201, b"a\0b"):
        found = figures_of(FeatureList("bytes", [b"a"]), FeatureList("bytes", [odd]))
        assert (found.texts, found.text) == (None, "")
        assert (found.low, found.high) == (1, len(odd))


def test_a_feature_of_two_kinds_has_both() -> None:
    """In files of other programs; a feature without a list is of none."""
    found = figures_of(
        FeatureList("int64", [1]), FeatureList("bytes", [b"one"]), FeatureList("", [])
    )
    assert found.kinds == {"int64": 1, "bytes": 1, "": 1}


def test_features_and_classes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are left out are counted."""
    monkeypatch.setattr(statistics, "MOST_FEATURES", 2)
    monkeypatch.setattr(statistics, "MOST_CLASSES", 1)
    figures = Figures()
    for number in range(3):
        features = {f"{number}{i}": FeatureList("int64", [1]) for i in range(2)}
        figures.add("train", 10, features, [str(number)])
    assert set(figures.features) == {"00", "01"}
    assert figures.classes == {"0": {"train": 1}}
    assert figures.left_out == {"features": 4, "classes": 2}
    assert (figures.examples, figures.bytes) == ({"train": 3}, {"train": 30})


def test_classes_are_named_by_texts_ids_or_a_list_of_names() -> None:
    """As ours, TFDS's and other programs' examples have them."""
    naming = Naming(names={1: "cat"})
    texts = {"image/class/text": FeatureList("bytes", [b"dog"])}
    objects = {"image/object/class/text": FeatureList("bytes", [b"a", b"b", b"a"])}
    ids = {"label": FeatureList("int64", [1, 2, 1])}
    assert naming.classes_of(texts) == ["dog"]
    assert naming.classes_of(objects) == ["a", "b"]
    assert naming.classes_of(ids) == ["cat", "2"]
    assert naming.classes_of({"label": FeatureList("float", [0.5])}) == []
    assert naming.classes_of({"label": FeatureList("bytes", [b"\xff"])}) == []
    assert [naming.has_class(ids, name) for name in ("cat", "1", "2", "dog")] == [
        True,
        True,
        True,
        False,
    ]


def test_keys_are_found_under_usual_names() -> None:
    """Ours first."""
    features = {
        "id": FeatureList("int64", [7]),
        "image/source_id": FeatureList("bytes", [b"a.jpg"]),
        "filename": FeatureList("bytes", [b"x", b"y"]),
    }
    assert Naming().keys_of(features) == ["a.jpg", "7"]
