"""Options that name images and labels, and how labels are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from beam_pipeline.core.dataset.splits import IMAGE
from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.images.geometry import CropBoxes
from beam_pipeline.core.labels.classes import CLASS_IDS, LABEL_ORDERS
from beam_pipeline.core.labels.row_samples import NO_IMAGE, SAMPLES
from beam_pipeline.core.labels.schema import OBJECT_FEATURES, YOLO_TASKS
from beam_pipeline.core.labels.unlabelled import UNLABELLED_CHOICES
from beam_pipeline.layouts.registry import AUTO, LAYOUTS
from beam_pipeline.options.group import OptionGroup, option
from beam_pipeline.options.values import (
    parse_columns,
    parse_encoding,
    parse_file_columns,
    parse_label_from,
    parse_list_column,
    parse_names,
)


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
        "and pets-{000..099}.tar, or Parquet files with images in them",
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


@dataclass(frozen=True)
class RolesOptions(OptionGroup):
    """Options of the commands alone."""

    title = InputOptions.title

    show_roles: bool = option(
        False,
        help="print what each folder level, column and kind of file is used for, and stop; needs no --output",
    )


@dataclass(frozen=True)
class LabelOptions(OptionGroup):
    """Options that override what the layout infers about the labels."""

    title = "labels"
    description = "Override what is detected in label files and folders."

    key_column: str = option(
        "", metavar="NAME", help="column that names the image, or none (default: detected by name)"
    )
    label_column: str = option(
        "",
        common=True,
        metavar="NAME",
        help="column with the label, or none to keep all columns as features (default: detected by name)",
    )
    columns: Mapping[str, str] = option(
        {},
        metavar="name:int,score:float",
        parse=parse_columns,
        help="types of label columns: int, float, str, point for columns such as nose_x and nose_y, json to "
        "keep JSON as text, file and copy as --file_columns, or skip to leave a column out (default: inferred from "
        "the values)",
    )
    file_columns: Mapping[str, str] = option(
        {},
        metavar="right,thumb:copy",
        parse=parse_file_columns,
        help="columns whose cells name files, read beside the image; pictures of its size are resized with it, "
        "except for those with :copy; the same as --columns right:file,thumb:copy",
    )
    list_column: Mapping[str, str] = option(
        {},
        metavar="tags=;",
        parse=parse_list_column,
        repeated=True,
        help="column with several values per image: tags=; (separated in a cell), tags=[] (lists in "
        "brackets) or tags (one value in each of several rows); may be repeated",
    )
    one_hot: tuple[str, ...] = option(
        (),
        metavar="a,b,c",
        parse=parse_names,
        help="one-hot columns, one per class, by name or as prefix_*; the column with 1 is the "
        "image's class",
    )
    labels_encoding: str = option(
        "",
        metavar="NAME",
        parse=parse_encoding,
        help="encoding of tables and caption files, such as cp1251 (default: UTF-8 or UTF-16; "
        "Windows-1252 if a table is neither)",
    )
    label_from: str = option(
        "",
        metavar="REGEX",
        parse=parse_label_from,
        help="take labels from file names: a regular expression whose group (?P<label>...) is the label; "
        "other named groups become features",
    )
    label_base: int | None = option(
        None,
        metavar="N",
        parse=int,
        choices=(0, 1),
        help="id of the first class, 0 or 1 (default: 0; 1 for objects in images)",
    )
    label_order: str = option(
        LABEL_ORDERS[0],
        choices=LABEL_ORDERS,
        help="sort order of class names: code_point sorts as text; numeric as numbers, 2 before 10; "
        "auto is numeric if all names are integers (default: %(default)s)",
    )
    unlabelled: str = option(
        UNLABELLED_CHOICES[0],
        choices=UNLABELLED_CHOICES,
        help="images without a label: drop leaves them out, keep writes them without label features, "
        "empty writes them without objects (default: auto, which is empty for YOLO, and else drop)",
    )
    class_ids: str = option(
        CLASS_IDS[0],
        choices=CLASS_IDS,
        help="number: ids 0, 1, 2, ... in the order of the classes; keep: integer class names, or COCO's "
        "category ids, are the ids (default: %(default)s)",
    )
    classes: str = option(
        "",
        metavar="FILE",
        help="fixed classes and ids: a file with one name per line, or the labels.txt, manifest.json "
        "or folder of an earlier data set; images of other classes are left out",
    )
    classes_only: bool = option(False, help="with --classes: fail if there is any other class")
    mask_colors: str = option(
        "",
        metavar="FILE",
        help="table of the colours in masks, with columns name,r,g,b as in class_dict.csv; ids count from "
        "0, or come from a column id",
    )
    object_features: tuple[str, ...] = option(
        (),
        choices=OBJECT_FEATURES,
        repeated=True,
        help="object features to write besides boxes and classes: masks (COCO, YOLO), keypoints (COCO)",
    )
    yolo_task: str | None = option(
        None,
        choices=YOLO_TASKS,
        help=f"content of YOLO label files: {', '.join(YOLO_TASKS)} (default: detected from the lines)",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.classes_only and not self.classes:
            raise UsageError("--classes_only needs --classes, which lists the classes")
        for column, kind in self.file_columns.items():
            if (typed := self.columns.get(column, kind)) != kind:
                raise UsageError(
                    f"column {column!r} is {typed} in --columns and {kind} in --file_columns; leave out one"
                )
        if not self.classes:
            return
        for name in ("label_order", "class_ids"):
            if getattr(self, name) != type(self).__dataclass_fields__[name].default:
                raise UsageError(f"--{name} has no effect with --classes, which sets the ids")


@dataclass(frozen=True)
class SampleOptions(OptionGroup):
    """Options that tell what a sample is."""

    title = "samples"
    description = "By default, a sample is an image with all of its labels."

    sample: str = option(
        SAMPLES[0],
        choices=SAMPLES,
        help="row: each row of a table is a sample, with its image and keys such as a.jpg#0 (default: image)",
    )
    row_id: str = option(
        "", metavar="COLUMN", help="column whose values replace the numbers in keys of rows"
    )
    no_image: str = option(
        NO_IMAGE[0],
        choices=NO_IMAGE,
        help="rows that name no image: drop leaves them out, keep writes them without image features (default: "
        "drop)",
    )
    crop_boxes: bool = option(
        False, help="each object is a sample: the image is what its box contains, the class its own"
    )
    crop_margin: float = option(
        0.0,
        metavar="FRACTION",
        parse=float,
        between=(0, 10),
        help="with --crop_boxes: part of the box's width and height that is added on each side (default: 0)",
    )
    crop_min_side: int = option(
        1,
        metavar="N",
        parse=int,
        between=(1, 1 << 16),
        help="with --crop_boxes: leave out boxes with a shorter side, in pixels (default: %(default)s)",
    )
    group_by: str = option(
        "",
        choices=(IMAGE,),
        help="image: rows or objects of an image are neighbours in one shard, so that the image is read once "
        "(default: shuffle them all)",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if {"sample", "crop_boxes"} <= self.given.keys():
            raise UsageError(
                "--crop_boxes makes a sample of each object, --sample row of each row; leave out one"
            )
        for name, needed in (
            ("row_id", ("sample row", "no_image keep")),
            ("crop_margin", ("crop_boxes",)),
            ("crop_min_side", ("crop_boxes",)),
            ("group_by", ("sample row", "crop_boxes")),
        ):
            if name in self.given and not any(n.split()[0] in self.given for n in needed):
                raise UsageError(f"--{name} needs --{' or --'.join(needed)}")

    @property
    def crop(self) -> CropBoxes | None:
        """How objects are cut out; None where images stay whole."""
        return CropBoxes(self.crop_margin, self.crop_min_side) if self.crop_boxes else None

    @property
    def given(self) -> Mapping[str, Any]:
        """The options that are not at their defaults."""
        defaults = {field.name: field.default for field in fields(self)}
        return {name: value for name, value in vars(self).items() if value != defaults[name]}
