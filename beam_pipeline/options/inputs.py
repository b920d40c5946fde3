"""Options that name the images and their label files."""

from __future__ import annotations

from dataclasses import dataclass

from beam_pipeline.layouts.registry import AUTO, LAYOUTS
from beam_pipeline.options.group import OptionGroup, option


@dataclass(frozen=True)
class InputOptions(OptionGroup):
    """The images and label files, as typed."""

    title = "inputs"

    images: tuple[str, ...] = option(
        (),
        common=True,
        metavar="PATH",
        repeated=True,
        required=True,
        help="image folders (with everything below them), globs, files, archives such as photos.zip "
        "and pets-{000..099}.tar, or Parquet files that hold images",
    )
    labels: tuple[str, ...] = option(
        (),
        common=True,
        metavar="PATH",
        repeated=True,
        help="label files or globs: CSV, TSV, JSON Lines, Parquet or COCO JSON (default: the layout's "
        "own label files)",
    )
    masks: tuple[str, ...] = option(
        (),
        metavar="PATH",
        repeated=True,
        help="folders or globs of masks: PNGs named like the images, whose pixels are class ids (default: "
        "the layout's own)",
    )
    inventory: tuple[str, ...] = option(
        (),
        metavar="PATH",
        repeated=True,
        help="CSV or Parquet files that list the images, with columns uri and size, or bucket, name "
        "and size; read instead of listing the image folders",
    )
    exclude: str = option(
        "",
        metavar="FILE",
        help="file with keys of images to leave out (paths relative to --images), one per line; - reads "
        "standard input",
    )
    layout: str = option(
        AUTO,
        common=True,
        metavar="LAYOUT",
        choices=(AUTO, *LAYOUTS),
        choices_checked=False,  # `open_source` checks it and suggests a name
        help=f"layout of images and labels: {', '.join(LAYOUTS)} (default: %(default)s, "
        "which detects the layout from the files)",
    )
    yes: bool = option(
        False,
        common=True,
        help="accept unsafe guesses about the labels instead of stopping to ask; the manifest records "
        "the questions",
    )
