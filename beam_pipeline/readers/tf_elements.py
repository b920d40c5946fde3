"""Parsed features -> elements: (image, label), or every feature under its key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

import tensorflow as tf

from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.labels.schema import ENCODED_KEY
from beam_pipeline.dataset import Dataset, is_count
from beam_pipeline.readers.samples import IMAGE, MASK, MASK_KEYS, PixelPlan
from beam_pipeline.readers.tf_images import MaskReader
from beam_pipeline.readers.tf_records import BOX_SIDES, Parsed, Reader, spec_of

_CLASS = "image/class/label"
_NUMBER = "image/label"
_BOX_CLASS = "image/object/class/label"
_PADDING_CLASS = -1
_NO_CLASS = -1
_LABELLED = "image/labelled"


def dict_reader(
    plan: PixelPlan, dataset: Dataset, image: Reader | None, mask: MaskReader | None
) -> Reader:
    """The features that were asked for under their keys, with the pixels instead of encoded ones."""
    stored = [key for key in plan.keys if key not in (plan.encoded, plan.mask)]
    spec = spec_of(dataset, *stored)

    def read(parsed: Parsed) -> dict[str, Any]:
        element = {key: parsed[key] for key in stored}
        pixels = image.read(parsed) if image else None
        if image:
            element[IMAGE] = pixels
        if mask:
            element[MASK] = mask.read(parsed, pixels)
        return element

    spec |= image.spec if image else {}
    spec |= mask.spec if mask else {}
    return Reader(spec, read, any(dataset.features[key].ragged for key in stored))


def pair_reader(dataset: Dataset, image: Reader | None, mask: MaskReader | None) -> Reader:
    """(image, label); the label is a mask, or what `_label_reader` finds.

    Raises:
      UsageError: the data set has no images, or no labels of that kind.
    """
    if image and mask:
        read_mask = mask.read
        read = image.read

        def pair(parsed: Parsed) -> Any:
            pixels = read(parsed)
            return pixels, read_mask(parsed, pixels)

        return Reader({**image.spec, **mask.spec}, pair)
    label = _label_reader(dataset)
    if image is None or label is None:
        missing = (
            f"images ({ENCODED_KEY})"
            if image is None
            else (
                f"masks ({MASK_KEYS[0]}), classes ({_CLASS}), numbers ({_NUMBER}) or boxes ({BOX_SIDES[0]}, ... and {_BOX_CLASS})"
            )
        )
        raise UsageError(
            f"{dataset.path} has no {missing}, so it has no pairs of image and label; "
            f"as_dict=True gives what it has: {', '.join(dataset.features)}"
        )
    read_image, read_label = image.read, label.read
    return Reader(
        {**image.spec, **label.spec},
        lambda parsed: (read_image(parsed), read_label(parsed)),
        label.ragged,
        label.named_twice,
    )


def _label_reader(dataset: Dataset) -> Reader | None:
    """Returns a reader of the label: boxes, classes or numbers; None if there are none."""
    boxes = dataset.keys_of((*BOX_SIDES, _BOX_CLASS))
    if boxes:
        return _box_reader(dataset, boxes)
    features = dataset.features
    key = dataset.key_of(_CLASS)
    if key and features[key].kind == "int64":
        return _classes_reader(dataset, key) if features[key].shape else _class(dataset, key)
    key = dataset.key_of(_NUMBER)
    if key and features[key].kind == "float" and not features[key].ragged:
        return _value(dataset, key)
    return None


def _value(dataset: Dataset, key: str) -> Reader:
    return Reader(spec_of(dataset, key), itemgetter(key))


def _class(dataset: Dataset, key: str) -> Reader:
    """Returns the id of the class; -1 if the example has none."""
    spec = spec_of(dataset, key)
    if dataset.features[key].optional:
        spec[key] = spec[key]._replace(default_value=_NO_CLASS)
    return Reader(spec, itemgetter(key))


def _box_reader(dataset: Dataset, keys: Sequence[str]) -> Reader:
    labelled = dataset.key_of(_LABELLED)

    def read(parsed: Parsed) -> dict[str, Any]:
        *sides, classes = (parsed[key] for key in keys)
        label = {"boxes": tf.stack(sides, axis=-1), "classes": classes}
        return {**label, "labelled": parsed[labelled]} if labelled else label

    return Reader(
        spec_of(dataset, *keys, *filter(None, [labelled])), read, ragged=True, named_twice=True
    )


def _classes_reader(dataset: Dataset, key: str) -> Reader:
    """Returns a reader of a vector with one number per class: 1 if in the example's list, else 0.

    If the example was not labelled, and so has no list, all numbers are -1.
    """
    labelled = dataset.key_of(_LABELLED)
    ids = list(dataset.classes)
    if not ids:
        raise UsageError(
            f"{dataset.path} has lists of classes ({key}), but its manifest names no classes, "
            "so their number is not known; as_dict=True gives the lists"
        )

    def read(parsed: Parsed) -> Any:
        found = tf.equal(parsed[key][:, tf.newaxis], tf.constant(ids, tf.int64))
        vector = tf.cast(tf.reduce_any(found, axis=0), tf.float32)
        if labelled is None:
            return vector
        return tf.where(parsed[labelled] == 1, vector, tf.fill([len(ids)], float(_NO_CLASS)))

    return Reader(spec_of(dataset, key, *filter(None, [labelled])), read)


def check_max_boxes(max_boxes: int, dataset: Dataset, as_dict: bool) -> None:
    """Checks that there are boxes to pad. Raises UsageError."""
    if not is_count(max_boxes):
        raise UsageError(f"max_boxes is {max_boxes!r}, expected None or a whole number from 1 on")
    if as_dict:
        raise UsageError("max_boxes is for pairs of image and boxes; as_dict gives lists as stored")
    if not dataset.keys_of((*BOX_SIDES, _BOX_CLASS)):
        raise UsageError(f"max_boxes is given, but {dataset.path} has no boxes")


def with_max_boxes(max_boxes: int, *element: Any) -> tuple[Any, dict[str, Any]]:
    """Pads or cuts the boxes and classes of an element to a fixed number."""
    try:
        image, label = element
        boxes, classes = label["boxes"], label["classes"]
    except (TypeError, ValueError, KeyError) as error:
        raise UsageError(
            'with max_boxes, augment must return (image, {"boxes": ..., "classes": ...}), '
            f"not {element!r}"
        ) from error
    padded = {
        "boxes": _padded(boxes, max_boxes, 0),
        "classes": _padded(classes, max_boxes, _PADDING_CLASS),
    }
    return image, {**label, **padded}


def _padded(values: Any, length: int, filler: int) -> Any:
    cut = values[:length]
    paddings = [[0, length - tf.shape(cut)[0]]] + [[0, 0]] * (values.shape.rank - 1)
    padded = tf.pad(cut, paddings, constant_values=tf.cast(filler, values.dtype))
    return tf.ensure_shape(padded, [length, *values.shape[1:]])


def with_labels(*element: Any) -> Any:
    """Adds the classes of objects as "labels", as layers and models of Keras name them."""
    if len(element) == 2 and isinstance(element[1], Mapping) and "classes" in element[1]:
        image, label = element
        return image, {"labels": label["classes"], **label}
    return element if len(element) > 1 else element[0]
