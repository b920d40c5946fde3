"""What a report shows of an example, and how: in full rows, a class in one colour everywhere; thumbnails."""

from __future__ import annotations

import base64
import io
from typing import Any
from xml.etree import ElementTree

import pytest
from PIL import Image

from beam_pipeline.core.labels.schema import (
    BOX_SIDES,
    Column,
    ColumnKind,
    further_column,
    label_column,
    object_columns,
    segmentation_column,
)
from beam_pipeline.core.records.example_view import Example
from beam_pipeline.core.report.samples import (
    MOST_BOXES,
    ShownBox,
    ShownSample,
    sample_grids,
    shown_sample,
)
from beam_pipeline.core.report.thumbnails import (
    LARGE_SIDE,
    SIDE,
    Thumbnail,
    mask_colour,
    thumbnail,
)
from tests.core.dataset.fixtures import manifest_with
from tests.pictures import picture


def record(**features: Any) -> bytes:
    """A serialized example; `__` stands for `/` in keys."""
    example = Example()
    for key, value in features.items():
        feature = example.features.feature[key.replace("__", "/")]
        values = value if isinstance(value, list) else [value]
        if isinstance(values[0], bytes):
            feature.bytes_list.value.extend(values)
        elif isinstance(values[0], float):
            feature.float_list.value.extend(values)
        else:
            feature.int64_list.value.extend(values)
    data: bytes = example.SerializeToString()
    return data


PICTURE = picture(file_format="PNG")
IMAGE = {"image__encoded": PICTURE, "image__source_id": b"a/1.jpg"}


def test_labels_are_shown_by_their_names() -> None:
    """Classes as texts, numbers with the digits that they have, long lists shortened."""
    columns = (
        label_column("species", ColumnKind.BYTES),
        further_column("score", ColumnKind.FLOAT),
        further_column("empty", ColumnKind.FLOAT),
        further_column("years", ColumnKind.INT64),
    )
    data = record(
        **IMAGE,
        image__class__label=3,
        image__class__text=b"cat",
        label__score=0.1,
        label__years=[1, 2, 3, 4, 5, 6],
    )
    assert shown_sample(data, columns, {}) == ShownSample(
        "a/1.jpg",
        thumbnail(PICTURE),
        labels=(("class", "cat"), ("score", "0.1"), ("years", "1, 2, 3, 4, and 2 more")),
    )


def test_boxes_and_masks() -> None:
    """Each box with its class, the first of very many; regions to ignore are no boxes; a mask as it is."""
    many, mask = MOST_BOXES + 5, png(Image.new("L", Image.open(io.BytesIO(PICTURE)).size, 3))
    sides = {f"image__object__bbox__{side}": [0.5] * many for side in ("xmin", "ymin", "xmax")}
    data = record(
        **IMAGE,
        **sides,
        image__object__bbox__ymax=[0.75] * many,
        **{f"image__object__ignore__bbox__{side}": [0.1] for side in BOX_SIDES},
        image__object__class__text=[b"car"] * many,
        image__segmentation__class__encoded=mask,
    )
    ignored = Column("ignore", ColumnKind.BOX, "image/object/ignore/bbox", repeated=True)
    columns = (*object_columns(pixels=True), ignored, segmentation_column("class", required=True))
    found = shown_sample(data, columns, {})
    assert found is not None
    assert (
        found.picture == thumbnail(PICTURE, mask, LARGE_SIDE) != thumbnail(PICTURE, b"", LARGE_SIDE)
    )
    assert found.objects == many
    assert found.boxes == (ShownBox(0.5, 0.5, 0.5, 0.75, "car"),) * MOST_BOXES
    assert found.labels == ()


def test_a_kept_sample_without_a_label_is_shown_as_such() -> None:
    """Its mark is no label."""
    columns = (Column("labelled", ColumnKind.INT64, "image/labelled", required=True),)
    unlabelled, labelled = (
        shown_sample(record(**IMAGE, image__labelled=value), columns, {}) for value in (0, 1)
    )
    assert unlabelled is not None
    assert labelled is not None
    assert unlabelled.labels == (("class", "unlabelled"),)
    assert labelled.labels == ()


@pytest.mark.parametrize("data", [b"", record(a=5)])
def test_an_example_of_anything_is_shown(data: bytes) -> None:
    """Those of Python have any features."""
    columns = (*object_columns(pixels=True), label_column("class", ColumnKind.BYTES))
    assert shown_sample(data, columns, {}) == ShownSample("")


def test_what_is_no_example_is_not_shown() -> None:
    """Instead of an error."""
    assert shown_sample(b"\xff\xff", (), {}) is None


CLASSES = [{"id": i, "name": name} for i, name in enumerate(("car", "<bus>", "cat"), 1)]
SQUARE = Thumbnail("data:,", 100, 50)


def drawn(samples: dict[str, list[ShownSample]], mask_of: str = "") -> ElementTree.Element:
    """The grids of samples as XML, which HTML of this kind is."""
    mask = {f"image/segmentation/{mask_of}/encoded": {"kind": "bytes", "optional": False}}
    manifest = manifest_with(classes=CLASSES, features=mask if mask_of else {})
    return ElementTree.fromstring(f"<x>{''.join(sample_grids(samples, manifest))}</x>")


def legend_of(grids: ElementTree.Element) -> dict[str, str | None]:
    """Class -> its colour in the legend."""
    items = grids.findall("ul[@class='legend']/li")
    return {"".join(item.itertext()): item.find("svg/rect").get("fill") for item in items}  # type: ignore[union-attr]


def test_a_class_has_one_colour_in_all_pictures_and_in_the_legend() -> None:
    """In the order of ids; classes that no picture shows take none. Boxes end at the edge of the image."""
    bus, cat = ShownBox(0.5, 0.5, 2.0, 1.0, "<bus>"), ShownBox(0.0, 0.0, 0.5, 0.5, "cat")
    samples = [ShownSample("a", SQUARE, (), (cat, bus), 2), ShownSample("b", SQUARE, (), (bus,))]
    grids = drawn({"train": samples, "test": [ShownSample("c", SQUARE, (), (cat,))]})
    colours = {"<bus>": "#ff3b30", "cat": "#34c759"}
    assert legend_of(grids) == colours
    boxes = grids.findall(".//rect[@class='x']")
    assert [box.findtext("title") for box in boxes] == ["cat", "<bus>", "<bus>", "cat"]
    assert [box.get("stroke") for box in boxes] == [
        colours[box.findtext("title", "")] for box in boxes
    ]
    assert [box.get("width") for box in boxes] == ["500.0"] * 4
    assert [img.get("width") for img in grids.findall(".//img")] == ["384"] * 3


def test_the_legend_of_masks_has_the_colours_that_they_are_drawn_in() -> None:
    """Ids of objects are no classes."""
    masked = {"train": [ShownSample("a", SQUARE)]}
    assert legend_of(drawn(masked, "class")) == {
        "car": "rgb(128, 0, 0)",
        "<bus>": "rgb(0, 128, 0)",
        "cat": "rgb(128, 128, 0)",
    }
    assert legend_of(drawn(masked, "object")) == {}


def opened(found: Thumbnail | None) -> Image.Image:
    """The picture of a thumbnail, as a browser decodes it."""
    assert found is not None
    data = base64.b64decode(found.uri.partition(",")[2])
    image = Image.open(io.BytesIO(data)).convert("RGB")
    assert image.size == (found.width, found.height)
    return image


def png(image: Image.Image) -> bytes:
    """An image as a PNG."""
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA"])
def test_every_mode_has_one(mode: str) -> None:
    """Palettes, too; transparent pixels are grey."""
    image = Image.new("LA", (300, 300), (0, 0) if mode.endswith("A") else (0, 255)).convert(mode)
    small = opened(thumbnail(png(image)))
    assert small.size == (SIDE, SIDE)
    expected = [128 if mode.endswith("A") else 0] * 3
    assert small.getpixel((9, 9)) == pytest.approx(expected, abs=1)


def test_sixteen_bits_are_shown_by_the_higher_eight() -> None:
    """Black and white as they are."""
    assert opened(thumbnail(png(Image.new("I;16", (9, 9), 200 << 8)))).getpixel((4, 4)) == (
        *(200, 200, 200),
    )


@pytest.mark.parametrize("mode", ["L", "I;16"])
def test_a_mask_is_drawn_over_its_image(mode: str) -> None:
    """But for its background, each id in a colour of its own."""
    mask = Image.new(mode, (40, 20))
    mask.paste(3, (0, 0, 20, 20))
    grey = (100, 100, 100)
    image = png(Image.new("RGB", (40, 20), grey))
    assert thumbnail(image, png(mask)[:-30]) == thumbnail(image) != thumbnail(image, png(mask))
    found = opened(thumbnail(image, png(mask)))
    assert found.getpixel((30, 10)) == grey
    expected = [round(100 + 0.55 * (channel - 100)) for channel in mask_colour(3)]
    assert found.getpixel((10, 10)) == pytest.approx(expected, abs=1)


def test_a_huge_image_is_not_decoded() -> None:
    """Nor is one whose header only claims that it is."""
    huge = bytearray(picture(file_format="PNG"))
    huge[16:24] = (20_000).to_bytes(4, "big") * 2
    assert thumbnail(bytes(huge)) is None
