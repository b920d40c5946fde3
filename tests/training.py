"""Trains a small network for one epoch on any data set, as a person would with `load`."""

from __future__ import annotations

import math
from typing import Any

import beam_pipeline

SIZE = (32, 32)


def train(folder: str) -> float:
    """Returns the loss after an epoch over the largest split, by what the examples are labelled with."""
    import tensorflow as tf

    dataset = beam_pipeline.Dataset.open(folder)
    features, split = dataset.features, max(dataset.splits, key=lambda name: dataset.splits[name])
    options: dict[str, Any] = {"image_size": SIZE, "batch_size": 4}
    loss, units, per_pixel = "mse", 1, False
    if "image/segmentation/class/encoded" in features or "image/panoptic/category_mask" in features:
        per_pixel = True
        batches = beam_pipeline.load(folder, split, **options)
        batches = batches.map(lambda x, masks: (x, tf.cast(masks, tf.float32) / 255))
    elif "image/object/bbox/xmin" in features:
        batches = beam_pipeline.load(folder, split, max_boxes=8, **options)
        batches = batches.map(lambda x, objects: (x, tf.reduce_sum(objects["boxes"], axis=(1, 2))))
    elif "image/class/label" in features or "image/label" in features:
        batches = beam_pipeline.load(folder, split, **options)
        if "image/class/label" in features:
            several = features["image/class/label"].shape == (None,)
            units = max(dataset.classes, default=0) + 1  # ids may have gaps
            loss = "mse" if several else tf.keras.losses.SparseCategoricalCrossentropy(True)
    else:  # captions and other columns
        examples = beam_pipeline.load(folder, split, image_size=SIZE, as_dict=True)
        batches = examples.map(lambda x: (x["image"], tf.cast(tf.size(x["image"]), tf.float32)))
        batches = batches.batch(4)
    layers = tf.keras.layers
    head = (
        [layers.Conv2D(1, 1)] if per_pixel else [layers.GlobalMaxPooling2D(), layers.Dense(units)]
    )
    model = tf.keras.Sequential(
        [layers.Rescaling(1 / 255), layers.Conv2D(8, 3, padding="same", activation="relu"), *head]
    )
    model.compile("adam", loss)
    (value,) = model.fit(batches, epochs=1, verbose=0, shuffle=False).history["loss"]
    assert math.isfinite(value), folder
    return float(value)
