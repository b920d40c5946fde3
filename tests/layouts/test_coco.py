"""Tests for COCO's instances, end to end and of their parser."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import tensorflow as tf

from beam_pipeline.core import errors
from beam_pipeline.layouts import layout, opening
from tests import harness
from tests.layouts.data_sets import make_coco


@pytest.fixture
def folder(working_folder: Path) -> Path:
    """The working directory, with coco/ and export/ in it."""
    make_coco(str(working_folder))
    return working_folder


# --- whole conversions ---------------------------------------------------------------------------


def test_model_gardens_decoder_reads_the_examples(folder: Path) -> None:
    """With image ids as source ids: what official/vision/dataloaders/tf_example_decoder.py parses."""
    argv = ("--images", "coco/", "--output", "out", "--features", "image/source_id=image_id")
    assert harness.convert(*argv) == 0
    lists = {
        **{f"image/object/bbox/{s}": tf.float32 for s in ("xmin", "xmax", "ymin", "ymax")},
        "image/object/class/label": tf.int64,
        "image/object/area": tf.float32,
        "image/object/is_crowd": tf.int64,
    }
    spec = {
        "image/encoded": tf.io.FixedLenFeature((), tf.string),
        "image/height": tf.io.FixedLenFeature((), tf.int64, -1),
        "image/width": tf.io.FixedLenFeature((), tf.int64, -1),
        "image/source_id": tf.io.FixedLenFeature((), tf.string),
        **{key: tf.io.VarLenFeature(dtype) for key, dtype in lists.items()},
    }
    records = tf.data.TFRecordDataset([f"out/{name}" for name in harness.shard_names("out")])
    parsed = [tf.io.parse_single_example(record, spec) for record in records]
    found = {int(example["image/source_id"].numpy()): example for example in parsed}
    assert sorted(found) == [34, 71, 139, 285, 508, 558840]
    assert tf.sparse.to_dense(found[71]["image/object/is_crowd"]).numpy().tolist() == [1, 0]
    assert tf.sparse.to_dense(found[34]["image/object/class/label"]).numpy().tolist() == [67, 1]


# --- what is taken for COCO ----------------------------------------------------------------------


def test_a_file_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    """As a link to nowhere is one."""
    os.symlink("nowhere", tmp_path / "instances_x.json")
    given = layout.SourceOptions((str(tmp_path),), (str(tmp_path / "instances_x.json"),))
    with pytest.raises(
        errors.UsageError, match=r"instances_x\.json cannot be read: No such file or directory"
    ):
        opening.open_source("coco", given)
