"""Facts for the cards."""

from __future__ import annotations

import pytest

from beam_pipeline.core.card.contents import (
    FeatureRow,
    feature_rows,
    shard_pattern,
    summary,
)
from beam_pipeline.core.dataset.manifest import ShardEntry, SplitEntry
from tests.core.card.cases import manifest_of


@pytest.mark.parametrize(
    ("first", "pattern"),
    [
        ("pets-train.tfrecord-00000-of-00016", "pets-train.tfrecord-*-of-00016"),
        ("pets-train.tfrecord-00000-of-00016.gz", "pets-train.tfrecord-*-of-00016.gz"),
        ("a-00001-of-00002-x.tfrecord-000000-of-100000", "a-00001-of-00002-x.tfrecord-*-of-100000"),
        ("[a]?.tfrecord-00000-of-00001", "[[]a][?].tfrecord-*-of-00001"),
        ("pets-train-00000.tar", "pets-train-[0-9]*.tar"),
        ("shard.bin", "shard.bin"),
    ],
)
def test_a_wildcard_finds_the_shards_of_a_split(first: str, pattern: str) -> None:
    """It finds neither indexes nor shards of another number, and takes other wildcards as text."""
    assert shard_pattern(SplitEntry(1, 9, (ShardEntry(first, 1, 9),))) == pattern


def test_features_have_their_meaning() -> None:
    """Those of the image, of boxes and classes, and of columns; a rename keeps the meaning."""
    rows = {row.key: row for row in feature_rows(manifest_of("boxes"))}
    assert rows["image/object/bbox/ymax"] == FeatureRow(
        "image/object/bbox/ymax",
        "float",
        "a list",
        "bottom of each object's box, a fraction of the image's height",
    )
    rows = {row.key: row for row in feature_rows(manifest_of("unlabelled"))}
    assert rows["image/id"].content == "key of the sample; for image files, their path"
    assert rows["image/class/label"].values == "1 value, or none"


def test_a_data_set_in_one_sentence() -> None:
    """Numbers and plurals fit."""
    assert summary(manifest_of("boxes")) == "3 images of 4 classes, in 1 split and 1 shard"
    assert summary(manifest_of("regression")) == "4 images, in 2 splits and 2 shards"
