"""Serialized examples -> samples: values by key, and images and masks as pixels.

`plan_pixels` compares the user's options with a data set, for tf.data too. The rest needs no TensorFlow:
`parse_example` gives the values as stored, `PixelDecoder` puts pixels, decoded by Pillow, in their place.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, NamedTuple

from beam_pipeline.core.dataset.manifest import FeatureEntry
from beam_pipeline.core.errors import DamagedRecordError, UsageError
from beam_pipeline.core.images.header import BadImageError, image_extension
from beam_pipeline.core.labels.schema import ENCODED_KEY
from beam_pipeline.core.records.example_view import ExampleView
from beam_pipeline.dataset import Dataset, Shard, is_count
from beam_pipeline.readers.shards import records_of_shard

IMAGE, MASK = "image", "mask"
"""The keys of the pixels."""
MASK_KEYS = ("image/segmentation/class/encoded", "image/panoptic/category_mask")
VOID = 255  # unlabelled pixels
_ENCODED = "/encoded"
DEEP = "uint16"
DEEPER = 257  # 255 becomes 65,535

_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
_SHAPE = ("image/height", "image/width", "image/channels")
_FROM_PYTHON = "python"  # the layout of `convert_samples`

Example = dict[str, Any]
"""Key -> value, as `parse_example` returns it."""
Decoder = Callable[[Example], Any]
"""Turns an example as stored into a sample."""


def parse_example(
    record: bytes, features: Mapping[str, FeatureEntry] | None = None, name: str = "a record"
) -> dict[str, Any]:
    """The values of a serialized `tf.train.Example` by key, without TensorFlow.

    A single value is bytes, an int or a numpy.float32. Several are a list of bytes, or an array of int64 or
    float32 with one dimension. An optional single value that the example lacks is None.

    Args:
      record: the serialized example.
      features: key -> feature, as `Dataset.features` has them; others are not decoded. Without it, the
        values of every feature are a list or an array.
      name: what messages call the record.

    Raises:
      DamagedRecordError: it is not an example, or not one that the manifest describes.
    """
    view = ExampleView(record, name)
    if features is None:
        return {key: _several(values, kind) for key, (kind, values) in view.items()}
    return {key: _value(view, key, feature, name) for key, feature in features.items()}


def _value(view: ExampleView, key: str, feature: FeatureEntry, name: str) -> Any:
    kind = feature.kind
    values = view.values_of(key, kind)
    if feature.shape:
        return _several(values, kind)
    if not values and feature.optional:
        return None
    if len(values) != 1:
        raise DamagedRecordError(
            f"{name}: feature {key} has {len(values)} values of kind {kind}, the manifest lists 1"
        )
    return _single(values[0], kind)


def _single(value: Any, kind: str) -> Any:
    return _several([value], kind)[0] if kind == "float" else value


def _several(values: Any, kind: str) -> Any:
    if kind == "bytes":
        return list(values)
    import numpy as np

    return np.array(values, np.float32 if kind == "float" else np.int64)


class PixelOptions(NamedTuple):
    """The user's options for pixels, unchecked.

    Attributes:
      image_size: (height, width) to resize to, one number for both, "WIDTHxHEIGHT", or None.
      channels: of the image: 1, 3 or 4.
      exact: every pixel of a JPEG is decoded that is then made smaller.
      dtype: "uint8" or "uint16".
    """

    image_size: Any = None
    channels: int = 3
    exact: bool = False
    dtype: str = "uint8"


class Picture(NamedTuple):
    """What becomes pixels: the image of an example, its mask, or a picture beside it.

    Attributes:
      key: the feature that contains its file.
      optional: whether some examples lack it.
      kind: the type of pixels that stay as they are, "uint8" or "uint16"; empty for an image, whose pixels get the
        channels and the type that were asked for.
      missing: each pixel of one that an example lacks.
    """

    key: str
    optional: bool = False
    kind: str = ""
    missing: int = 0


@dataclass(frozen=True)
class PixelPlan:
    """The features of an element of a data set, and what becomes pixels among them.

    Attributes:
      keys: of the features that were asked for.
      pictures: name -> what becomes pixels under that name, the image first.
      bare: keys of height, width and channels if images are bare pixels, else none.
      size: (height, width) to resize to; None for the stored size.
      options: the others.
      formats: of all images, such as "jpeg"; none where they are unknown.
    """

    keys: Sequence[str] = ()
    pictures: Mapping[str, Picture] = field(default_factory=dict)
    bare: tuple[str, ...] = ()
    size: tuple[int, int] | None = None
    options: PixelOptions = field(default_factory=PixelOptions)
    formats: frozenset[str] = frozenset()

    @property
    def deep(self) -> bool:
        """Tells whether pixels have 16 bits."""
        return self.options.dtype == DEEP


def plan_pixels(
    dataset: Dataset, features: Sequence[str] | None, options: PixelOptions, asked_by: str = ""
) -> PixelPlan:
    """Compares options with a data set.

    Args:
      dataset: whose examples.
      features: the keys of an element; "image" and "mask" mean the encoded ones. None for all.
      options: for pixels.
      asked_by: the argument that puts pixels under "image" and "mask"; empty where nothing does.

    Raises:
      UsageError: an option has a value that it cannot have, or does not fit the data set.
    """
    if options.channels not in _MODES:
        raise UsageError(f"channels is {options.channels}, expected one of {tuple(_MODES)}")
    if options.dtype not in ("uint8", DEEP):
        raise UsageError(f"dtype is {options.dtype!r}, expected 'uint8' or {DEEP!r}")
    pictures = _pictures(dataset, beside=bool(asked_by))
    for name, picture in pictures.items():
        if asked_by and name in dataset.features and picture.key != name:
            raise UsageError(
                f"{dataset.path} has a feature {name!r}, which is where {asked_by} puts pixels; without it, "
                "and by feature_spec(), both are read as stored"
            )
    bare = dataset.keys_of(_SHAPE) or ()
    if IMAGE in pictures and dataset.manifest.bare_pixels and not bare:
        raise UsageError(
            f"{dataset.path} contains bare pixels without {', '.join(_SHAPE)}, so they cannot "
            "be decoded; feature_spec() reads them as bytes"
        )
    keys = list(dataset.features)
    if features is not None:
        given = [features] if isinstance(features, str) else features
        keys = [pictures[name].key if asked_by and name in pictures else name for name in given]
    for key in keys:
        if key not in dataset.features:
            raise UsageError(
                f"features: {dataset.path} has no feature {key!r}; it has {', '.join(dataset.features)}"
            )
    return PixelPlan(
        keys=keys,
        pictures={name: picture for name, picture in pictures.items() if picture.key in keys},
        bare=bare if dataset.manifest.bare_pixels else (),
        size=checked_size(options.image_size),
        options=options,
        formats=dataset.image_formats,
    )


def _pictures(dataset: Dataset, *, beside: bool) -> dict[str, Picture]:
    """Name -> what can become pixels; with `beside`, also the pictures of columns."""
    features, pictures = dataset.features, {}
    encoded = dataset.key_of(ENCODED_KEY)
    if encoded:
        pictures[IMAGE] = Picture(encoded, features[encoded].optional)
    mask = next(filter(None, map(dataset.key_of, MASK_KEYS)), "")
    if encoded and mask and features[mask].pixels:
        pictures[MASK] = Picture(mask, features[mask].optional, features[mask].pixels, VOID)
    for key, feature in features.items() if beside else ():
        if feature.picture and key.endswith(_ENCODED) and not feature.shape:
            kind = DEEP if feature.picture == DEEP else ""
            pictures[key.removesuffix(_ENCODED)] = Picture(key, feature.optional, kind)
    return pictures


def check_first_image(dataset: Dataset, shards: Sequence[Shard], encoded: str) -> None:
    """Checks that the images of samples from Python are image files.

    Raises:
      UsageError: the first one is not, such as an array stored as bytes.
    """
    if (
        dataset.manifest.content["options"].get("layout") != _FROM_PYTHON
        or dataset.manifest.bare_pixels
    ):
        return
    records = chain.from_iterable(
        records_of_shard(s, dataset.manifest.record_format) for s in shards
    )
    for record in islice(records, 1):
        image = parse_example(record, {encoded: dataset.features[encoded]})[encoded]
        if image and not image_extension(image):
            raise UsageError(
                f"{encoded} of the first example of {dataset.path} is {len(image)} bytes that are not an "
                "image file, such as the bare pixels of an array; give convert_samples() encoded images "
                "(PNG, JPEG), or read the bytes with feature_spec() and tf.io.decode_raw"
            )


def sampler_of(
    dataset: Dataset,
    shards: Sequence[Shard],
    features: Sequence[str] | None,
    decode: bool | Decoder | None,
    options: PixelOptions,
) -> Callable[[bytes, str], Any]:
    """The function that turns (serialized example, name of its shard) into a sample.

    Raises:
      UsageError: an option does not fit the data set, or is given without decode=True.
    """
    if decode is not True and options != PixelOptions():
        raise UsageError("image_size, channels, exact and dtype are for decode=True")
    plan = plan_pixels(dataset, features, options, "decode=True" if decode is True else "")
    if decode is not True:
        return Sampler({key: dataset.features[key] for key in plan.keys}, decode or None)
    if not dataset.key_of(ENCODED_KEY):
        raise UsageError(
            f"{dataset.path} has no images ({ENCODED_KEY}), so there is nothing to decode; "
            f"it has {', '.join(dataset.features)}"
        )
    if IMAGE in plan.pictures:
        check_first_image(dataset, shards, plan.pictures[IMAGE].key)
    return Sampler({key: dataset.features[key] for key in (*plan.keys, *plan.bare)}, None, plan)


def checked_size(image_size: Any) -> tuple[int, int] | None:
    """The height and width to resize to. Raises UsageError."""
    if image_size is None:
        return None
    sides = image_size
    if isinstance(image_size, str):
        texts = image_size.lower().split("x")[::-1] * (1 if "x" in image_size.lower() else 2)
        sides = [int(text) if text.isdecimal() else 0 for text in texts]
    elif is_count(image_size):
        sides = (image_size, image_size)
    try:
        height, width = sides
    except (TypeError, ValueError):
        height = width = 0
    if not (is_count(height) and is_count(width)):
        raise UsageError(
            f"image_size is {image_size!r}, expected (height, width) in pixels, one number for both, or "
            "'WIDTHxHEIGHT'"
        )
    return int(height), int(width)


def scaled_side(side: int) -> int:
    """The pixels that a JPEG is decoded to at least, to be resized to that many.

    libjpeg's scaling weighs pixels otherwise than resizing does. Measured on photographs, the result
    differs from full decoding by 0.4 to 0.8 % of the range if half as many pixels remain to be
    taken away, and by 1 % or more if none do.
    """
    return -(-3 * side // 2)


@dataclass(frozen=True)
class Sampler:
    """Turns serialized examples into samples.

    With a plan, "image" replaces the encoded image of an example, "mask" the mask, and "right" `right/encoded`.
    The image is uint8 or uint16 [height, width, channels], the mask uint8 or uint16 [height, width, 1], as are
    pictures of 16 bits and one channel; others are as the image.
    A missing optional value is filled in, as samples without one cannot be batched; a missing image is black.

    Attributes:
      features: key -> feature, of those that are read.
      decode: turns their values into a sample; None if they are the sample.
      plan: what becomes pixels, and how; None for nothing.
    """

    features: Mapping[str, FeatureEntry]
    decode: Decoder | None
    plan: PixelPlan | None = None

    def __call__(self, record: bytes, uri: str) -> Any:
        """Turns a serialized example of a shard into a sample.

        Raises:
          DamagedRecordError: it is not one that the manifest describes, or its pixels cannot be decoded.
        """
        example = parse_example(record, self.features, uri)
        if not self.plan:
            return self.decode(example) if self.decode else example
        try:
            return self._decoded(example, self.plan)
        except (BadImageError, OSError, ValueError, SyntaxError) as error:
            name = example.get("image/filename", b"")
            raise DamagedRecordError(f"image {name!r} cannot be decoded: {error}") from error

    def _decoded(self, example: Example, plan: PixelPlan) -> Example:
        encoded = {picture.key for picture in plan.pictures.values()}
        decoded = {key: example[key] for key in plan.keys if key not in encoded}
        for key in decoded:
            if decoded[key] is None:
                feature = self.features[key]
                decoded[key] = _single(feature.missing, feature.kind)
        sides = plan.size or (1, 1)
        for name, picture in plan.pictures.items():
            data, bare = example[picture.key], plan.bare if name == IMAGE else ()
            if not data and picture.optional:
                decoded[name] = _blank(plan, picture, sides)
            elif picture.kind:
                decoded[name] = _ids(plan, data, picture.kind)
            else:
                decoded[name] = _image(plan, data, tuple(example[key] for key in bare))
            if name == IMAGE:
                sides = decoded[name].shape[:2]
        return decoded


def _image(plan: PixelPlan, data: bytes, bare: tuple[int, ...]) -> Any:
    import numpy as np
    from PIL import Image

    from beam_pipeline.core.images import pillow_codec, png

    size, (_, channels, exact, dtype) = plan.size, plan.options
    if bare:
        pixels = np.frombuffer(data, np.uint8).reshape(bare)
        image = Image.fromarray(pixels if bare[2] > 1 else pixels[..., 0])
    else:
        opened = pillow_codec.open_image(data)
        image = opened.image
        if dtype == DEEP:
            planes: Any = png.colour_channels(data, opened.header)
            if planes or image.mode.startswith("I"):
                return _deep(planes or [pillow_codec.grey_16_bits(image)], channels, size)
    if size and not exact and image.format in ("JPEG", "MPO"):
        height, width = map(scaled_side, size)
        if image.height >= 2 * height and image.width >= 2 * width:
            image.draft(image.mode, (width, height))
    mode = _MODES[channels]
    image = pillow_codec.to_8_bits(image)
    if image.mode != mode:
        image = image.convert(mode)
    if size:
        image = image.resize(size[::-1], Image.Resampling.BILINEAR)
    array = np.array(image)
    array = array if array.ndim == 3 else array[..., np.newaxis]
    return array.astype(np.uint16) * np.uint16(DEEPER) if dtype == DEEP else array


def _blank(plan: PixelPlan, picture: Picture, sides: tuple[int, int]) -> Any:
    """Stands for a picture that an example lacks."""
    import numpy as np

    channels, kind = plan.options.channels, plan.options.dtype
    if picture.kind:
        channels, kind = 1, picture.kind
    return np.full((*sides, channels), picture.missing, kind)


def _ids(plan: PixelPlan, data: bytes, kind: str) -> Any:
    """The pixels of a grey PNG, resized to the nearest neighbour."""
    import numpy as np
    from PIL import Image

    with Image.open(io.BytesIO(data), formats=["PNG"]) as image:
        mask = np.asarray(image).astype(kind)[..., np.newaxis]
    if not plan.size:
        return mask
    rows, columns = (
        ((np.arange(wanted) + 0.5) * stored / wanted).astype(np.int64)
        for wanted, stored in zip(plan.size, mask.shape[:2], strict=True)
    )
    return mask[rows[:, np.newaxis], columns]


def _deep(planes: Sequence[Any], channels: int, size: tuple[int, int] | None) -> Any:
    """Grey images of 16 bits, the channels of an image, as uint16 with another number of channels."""
    import numpy as np
    from PIL import Image

    arrays: list[Any] = [np.asarray(plane, np.float32) for plane in planes]
    alpha = arrays.pop() if len(arrays) in (2, 4) else np.full_like(arrays[0], np.iinfo(DEEP).max)
    if channels == 1 and len(arrays) == 3:
        arrays = [sum(w * array for w, array in zip((0.299, 0.587, 0.114), arrays, strict=True))]
    elif channels > 1 and len(arrays) == 1:
        arrays *= 3
    arrays += [alpha] * (channels == 4)
    if size:
        bilinear = Image.Resampling.BILINEAR
        arrays = [
            np.asarray(Image.fromarray(array).resize(size[::-1], bilinear)) for array in arrays
        ]
    return np.stack(arrays, axis=-1).round().astype(np.uint16)
