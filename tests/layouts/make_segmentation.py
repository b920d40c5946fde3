"""Photos with a mask for each: a disc (1) and a square (2) on a background (0), edges void (255)."""

from __future__ import annotations

from collections.abc import Mapping

from PIL import Image, ImageDraw

from tests.pictures import encoded, write_files

SIZE = (32, 24)
COLOURS = {
    "background": (0, 0, 0),
    "disc": (128, 64, 128),
    "square": (0, 0, 142),
    "void": (8, 8, 8),
}
_PALETTE = [channel for colour in COLOURS.values() for channel in colour] + [7] * 252 * 3


def grey(rows: list[list[int]], bits: int = 8) -> bytes:
    """A grey PNG with these pixels."""
    size = (len(rows[0]), len(rows))
    if bits == 16:
        data = b"".join(value.to_bytes(2, "little") for row in rows for value in row)
        return encoded(Image.frombytes("I;16", size, data))
    return encoded(Image.frombytes("L", size, bytes(value for row in rows for value in row)))


def palette(rows: list[list[int]]) -> bytes:
    """A PNG with a palette, whose indexes are these pixels."""
    image = Image.frombytes("P", (len(rows[0]), len(rows)), bytes(v for row in rows for v in row))
    image.putpalette(_PALETTE)
    return encoded(image)


def scene(number: int) -> tuple[Image.Image, Image.Image]:
    """(photo, mask) of a scene: each has a disc and a square in places of their own."""
    photo, mask = Image.new("RGB", SIZE, (90, 120, 90)), Image.new("L", SIZE, 0)
    x, y = 2 + number * 5 % 12, 2 + number * 3 % 8
    for image, disc, square in ((photo, (230, 60, 50), (40, 60, 220)), (mask, 1, 2)):
        draw = ImageDraw.Draw(image)
        draw.ellipse((x, y, x + 8, y + 8), fill=disc)
        draw.rectangle((x + 10, y + 4, x + 16, y + 10), fill=square)
    ImageDraw.Draw(mask).rectangle((0, 0, SIZE[0] - 1, 0), fill=255)
    return photo, mask


def in_colours(mask: Image.Image) -> bytes:
    """A mask as an RGB PNG."""
    colours = [COLOURS["void"]] * 256
    colours[:3] = [COLOURS[name] for name in ("background", "disc", "square")]
    image = Image.new("RGB", mask.size)
    image.putdata([colours[value] for value in mask.tobytes()])
    return encoded(image)


def folders() -> Mapping[str, bytes | str]:
    """The files of the sets that docs/datasets/segmentation.md speaks of."""
    found: dict[str, bytes | str] = {}
    year = "VOCdevkit/VOC2012"
    for number in range(12):
        photo, mask = scene(number)
        split = "val" if number % 4 == 3 else "train"
        name = f"scene_{number:03d}"
        found[f"shapes/images/{split}/{name}.jpg"] = encoded(photo, "JPEG")
        found[f"shapes/masks/{split}/{name}.png"] = encoded(mask)
        found[f"camvid/{split}/{name}.png"] = encoded(photo)
        found[f"camvid/{split}_labels/{name}_L.png"] = in_colours(mask)
        indexed = mask.convert("P")
        indexed.putdata(mask.tobytes())
        indexed.putpalette(_PALETTE)
        found[f"{year}/JPEGImages/{name}.jpg"] = encoded(photo, "JPEG")
        found[f"{year}/SegmentationClass/{name}.png"] = encoded(indexed)
        found[f"{year}/SegmentationObject/{name}.png"] = encoded(indexed)
    for split, rest in (("train", {0, 1, 2}), ("val", {3})):
        names = [f"scene_{n:03d}\n" for n in range(12) if n % 4 in rest]
        found[f"{year}/ImageSets/Segmentation/{split}.txt"] = "".join(names)
    rows = (f"{name},{','.join(map(str, colour))}\n" for name, colour in COLOURS.items())
    found["camvid/class_dict.csv"] = "name,r,g,b\n" + "".join(rows)
    found["classes.txt"] = "background\ndisc\nsquare\n"
    return found


def make_segmentation(folder: str) -> None:
    """Writes shapes/, camvid/, VOCdevkit/ and classes.txt."""
    write_files(folder, folders())
