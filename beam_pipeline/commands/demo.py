"""`beam-tfrecord demo`: draws a small labelled data set and converts it."""

from __future__ import annotations

import argparse
import csv
import os
import random

from PIL import Image, ImageDraw

from beam_pipeline.commands import PROGRAM, Call, Command
from beam_pipeline.commands.convert import run_convert
from beam_pipeline.commands.inspect import show_some
from beam_pipeline.core.errors import UsageError
from beam_pipeline.options import ConvertOptions
from beam_pipeline.terminal import say

SHAPES = ("circle", "square", "triangle")
COLOURS = {"red": (214, 69, 65), "green": (38, 166, 91), "blue": (65, 131, 215)}
SAMPLES = 300
_SIDE = 96  # pixels
_SHOWN = 2  # examples


def make_demo(folder: str, samples: int = SAMPLES) -> ConvertOptions:
    """Draws coloured shapes and writes `labels.csv`; the same Pillow draws the same bytes everywhere.

    Returns: the options that convert them.

    Raises:
      UsageError: the folder contains other files.
    """
    names = ("images", "labels.csv", "tfrecords")
    images, labels, output = (os.path.join(folder, name) for name in names)
    there = set(os.listdir(folder)) if os.path.isdir(folder) else set()
    if os.path.isfile(folder) or there.difference(names):
        raise UsageError(f"{folder} contains other files; name an empty or a new folder")
    os.makedirs(images, exist_ok=True)
    rng = random.Random(0)  # noqa: S311 -- drawings, not secrets
    with open(labels, "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(("filename", "class", "colour", "size"))
        for number in range(samples):
            shape = rng.choice(SHAPES)
            colour = rng.choice(list(COLOURS))
            size = rng.randint(20, 44)
            name = f"shape_{number:04d}.png"
            _draw(shape, COLOURS[colour], size, rng).save(os.path.join(images, name))
            rows.writerow((name, shape, colour, size))
    paths = {"images": images, "labels": labels, "output": output}
    return ConvertOptions.of_python(
        {**paths, "name": "shapes", "splits": "train=0.9,validation=0.1", "overwrite": True}
    )


def _draw(shape: str, colour: tuple[int, int, int], size: int, rng: random.Random) -> Image.Image:
    """Draws one shape at a random place on a grey background; `size` is its radius in pixels."""
    ground = rng.randint(215, 250)
    image = Image.new("RGB", (_SIDE, _SIDE), (ground, ground, ground))
    draw = ImageDraw.Draw(image)
    x, y = (rng.randint(size, _SIDE - size) for _ in range(2))
    box = (x - size, y - size, x + size, y + size)
    if shape == "circle":
        draw.ellipse(box, fill=colour)
    elif shape == "square":
        draw.rectangle(box, fill=colour)
    else:
        draw.polygon([(x, y - size), (x + size, y + size), (x - size, y + size)], fill=colour)
    return image


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder",
        metavar="DIR",
        nargs="?",
        default="beam-tfrecord-demo",
        help="folder for images and TFRecords (default: %(default)s)",
    )


def _run(call: Call) -> bool:
    """Draws the images, prints the command that converts them, and runs it."""
    options = make_demo(call.arguments.folder)
    (images,), (labels,) = options.inputs.images, options.inputs.labels
    output = options.output.output
    say(
        f"Drew {images}/ and {labels}. Now converting them with:",
        "",
        f"  {options.command()}",
        "",
    )
    run_convert(options, call)
    say(
        "",
        "A hash of its name decides each image's split, so that it stays there when others are added. The",
        "shares of --splits are met on average, not exactly; --stratify divides each class exactly.",
        "",
        f"{_SHOWN} of the examples:",
        "",
    )
    show_some(output, _SHOWN)
    say(
        "See more of them, or convert images of your own:",
        "",
        f"  {PROGRAM} inspect {output}",
        f"  {PROGRAM} convert --images photos/ --output tfrecords/",
    )
    return True


DEMO = Command(
    "Draws images of coloured shapes, writes a CSV file with their classes and sizes, "
    "converts them, and shows some examples. Options of Apache Beam are passed on.",
    _run,
    _add_arguments,
    takes_beam_options=True,
)
