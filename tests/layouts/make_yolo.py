"""Small data sets as YOLO's tools export them."""

from __future__ import annotations

import io

from PIL import Image, ImageDraw

from tests.pictures import write_files

NAMES = ("person", "bicycle", "traffic light")

SIZE = (64, 48)

LABELS = {
    "train/000000000009": ("0 0.5 0.5 0.25 0.5", "2 0.125 0.25 0.125 0.25"),
    "train/000000000025": ("1 0.75 0.75 0.5 0.5",),
    "train/000000000030": (),
    "train/000000000034": None,
    "val/000000000036": ("0 0.25 0.5 0.5 1",),
    "val/000000000042": ("2 0.5 0.25 0.25 0.25", "1 0.5 0.75 0.125 0.125"),
}
"""Path of an image below images/, without extension -> lines of its label file; None is no file."""

DATA_YAML = f"""# COCO6, six images
path: ../datasets/coco6 # dataset root dir
train: images/train # train images (relative to 'path') 4 images
val: images/val # val images (relative to 'path') 2 images
test: # test images (optional)

# Classes
names:
  0: {NAMES[0]}
  1: {NAMES[1]}
  2: {NAMES[2]}

# Download script/URL (optional)
download: https://example.com/coco6.zip
"""


def make(folder: str) -> None:
    """Writes coco6/ with data.yaml, images/ and labels/, each with train/ and val/."""
    files: dict[str, bytes | str] = {"data.yaml": DATA_YAML}
    for name, lines in LABELS.items():
        files[f"images/{name}.jpg"] = picture_of(lines or ())
        if lines is not None:
            files[f"labels/{name}.txt"] = "".join(f"{line}\n" for line in lines)
    write_files(f"{folder}/coco6", files)


def picture_of(lines: tuple[str, ...], size: tuple[int, int] = SIZE) -> bytes:
    """A JPEG with a rectangle for each line of boxes."""
    image = Image.new("RGB", size, (90, 100, 110))
    draw = ImageDraw.Draw(image)
    for line in lines:
        number, x, y, width, height = map(float, line.split()[:5])
        left, top = (x - width / 2) * size[0], (y - height / 2) * size[1]
        right, bottom = (x + width / 2) * size[0] - 1, (y + height / 2) * size[1] - 1
        colour = tuple(int(number + 1) * step % 256 for step in (37, 101, 59))
        draw.rectangle([left, top, right, bottom], colour)
    out = io.BytesIO()
    image.save(out, "JPEG")
    return out.getvalue()
