"""Options that name images and labels, and how labels are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from beam_pipeline.core.dataset.splits import IMAGE
from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.images.geometry import CropBoxes
from beam_pipeline.core.labels import samples, schema
from beam_pipeline.core.labels.classes import CLASS_IDS, LABEL_ORDERS
from beam_pipeline.layouts.registry import AUTO, LAYOUTS
from beam_pipeline.options.group import (
    NUMBER,
    PATHS,
    Kind,
    OptionGroup,
    option,
    parse_columns,
    parse_encoding,
    parse_file_columns,
    parse_label_from,
    parse_list_column,
    parse_names,
)

_NOT_WITH_CLASSES = {"classes": "has no effect with --classes, which sets the ids"}


@dataclass(frozen=True)
class InputOptions(OptionGroup):
    """The images and label files, as typed."""

    title = "inputs"

    images: tuple[str, ...] = option(
        "image folders (with everything below them), globs, files, archives such as photos.zip "
        "and pets-{000..099}.tar, or Parquet files with images in them",
        kind=PATHS,
        required=True,
    )
    labels: tuple[str, ...] = option(
        "label files or globs: CSV, TSV, JSON Lines, Parquet or COCO JSON (default: the layout's "
        "own label files)",
        kind=PATHS,
    )
    masks: tuple[str, ...] = option(
        "folders or globs of masks: PNGs named like the images, whose pixels are class ids (default: "
        "the layout's own)",
        kind=PATHS,
    )
    inventory: tuple[str, ...] = option(
        "CSV or Parquet files that list the images, with columns uri and size, or bucket, name "
        "and size; read instead of listing the image folders",
        kind=PATHS,
    )
    exclude: str = option(
        "file with keys of images to leave out (paths relative to --images), one per line; - reads "
        "standard input",
        kind="FILE",
    )
    layout: str = option(
        f"layout of images and labels: {', '.join(LAYOUTS)} (default: %(default)s, "
        "which detects the layout from the files)",
        AUTO,
        "LAYOUT",
        choices=(AUTO, *LAYOUTS),
        choices_checked=False,
    )
    yes: bool = option(
        "accept unsafe guesses about the labels instead of stopping to ask; the manifest records "
        "the questions",
        False,
    )


@dataclass(frozen=True)
class RolesOptions(OptionGroup):
    """Options of the commands alone."""

    title = InputOptions.title

    show_roles: bool = option(
        "print what each folder level, column and kind of file is used for, and stop; needs no --output",
        False,
    )


@dataclass(frozen=True)
class LabelOptions(OptionGroup):
    """Options that override what the layout infers about the labels."""

    title = "labels"
    description = "Override what is detected in label files and folders."

    key_column: str = option(
        "column that names the image, or none (default: detected by name)", kind="NAME"
    )
    label_column: str = option(
        "column with the label, or none to keep all columns as features (default: detected by name)",
        kind="NAME",
    )
    columns: Mapping[str, str] = option(
        "types of label columns: int, float, str, point for columns such as nose_x and nose_y, json to "
        "keep JSON as text, file and copy as --file_columns, or skip to leave a column out (default: inferred from "
        "the values)",
        kind=Kind("name:int,score:float", parse_columns, empty={}),
    )
    file_columns: Mapping[str, str] = option(
        "columns whose cells name files, read beside the image; pictures of its size are resized with it, "
        "except for those with :copy; the same as --columns right:file,thumb:copy",
        kind=Kind("right,thumb:copy", parse_file_columns, empty={}),
    )
    list_column: Mapping[str, str] = option(
        "column with several values per image: tags=; (separated in a cell), tags=[] (lists in "
        "brackets) or tags (one value in each of several rows); may be repeated",
        kind=Kind("tags=;", parse_list_column, empty={}, repeated=True),
    )
    one_hot: tuple[str, ...] = option(
        "one-hot columns, one per class, by name or as prefix_*; the column with 1 is the "
        "image's class",
        kind=Kind("a,b,c", parse_names, empty=()),
    )
    labels_encoding: str = option(
        "encoding of tables and caption files, such as cp1251 (default: UTF-8 or UTF-16; "
        "Windows-1252 if a table is neither)",
        kind=Kind("NAME", parse_encoding, empty=""),
    )
    label_from: str = option(
        "take labels from file names: a regular expression whose group (?P<label>...) is the label; "
        "other named groups become features",
        kind=Kind("REGEX", parse_label_from, empty=""),
    )
    label_base: int | None = option(
        "id of the first class, 0 or 1 (default: 0; 1 for objects in images)",
        None,
        NUMBER,
        choices=(0, 1),
    )
    label_order: str = option(
        "sort order of class names: code_point sorts as text; numeric as numbers, 2 before 10; "
        "auto is numeric if all names are integers",
        choices=LABEL_ORDERS,
        excludes=_NOT_WITH_CLASSES,
    )
    unlabelled: str = option(
        "images without a label: drop leaves them out, keep writes them without label features, "
        "empty writes them without objects (default: auto, which is empty for YOLO, and else drop)",
        choices=samples.UNLABELLED_CHOICES,
    )
    class_ids: str = option(
        "number: ids 0, 1, 2, ... in the order of the classes; keep: integer class names, or COCO's "
        "category ids, are the ids",
        choices=CLASS_IDS,
        excludes=_NOT_WITH_CLASSES,
    )
    classes: str = option(
        "fixed classes and ids: a file with one name per line, or the labels.txt, manifest.json "
        "or folder of an earlier data set; images of other classes are left out",
        kind="FILE",
    )
    classes_only: bool = option(
        "with --classes: fail if there is any other class", False, needs=("classes",)
    )
    mask_colors: str = option(
        "table of the colours in masks, with columns name,r,g,b as in class_dict.csv; ids count from "
        "0, or come from a column id",
        kind="FILE",
    )
    annotator: str = option(
        "with exports of Label Studio, Labelbox and Supervisely: read the labels of one person alone, by id, "
        "e-mail address or login (default: several people have to agree)",
        kind="NAME",
    )
    object_features: tuple[str, ...] = option(
        "object features to write besides boxes and classes: masks (COCO, YOLO), keypoints (COCO)",
        (),
        Kind(repeated=True),
        choices=schema.OBJECT_FEATURES,
    )
    yolo_task: str | None = option(
        f"content of YOLO label files: {', '.join(schema.YOLO_TASKS)} (default: detected from the lines)",
        None,
        choices=schema.YOLO_TASKS,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for column, kind in self.file_columns.items():
            if (typed := self.columns.get(column, kind)) != kind:
                raise UsageError(
                    f"column {column!r} is {typed} in --columns and {kind} in --file_columns; leave out one"
                )


@dataclass(frozen=True)
class SampleOptions(OptionGroup):
    """Options that tell what a sample is."""

    title = "samples"
    description = "By default, a sample is an image with all of its labels."

    sample: str = option(
        "row: each row of a table is a sample, with its image and keys such as a.jpg#0",
        choices=samples.SAMPLES,
    )
    row_id: str = option(
        "column whose values replace the numbers in keys of rows",
        kind="COLUMN",
        needs=("sample row", "no_image keep"),
    )
    rows_of: str = option(
        "folder: the rows of a table name folders, and are the labels of each image in them; splits separate no folder",
        choices=samples.ROWS_OF,
    )
    no_image: str = option(
        "rows that name no image: drop leaves them out, keep writes them without image features",
        choices=samples.NO_IMAGE,
    )
    crop_boxes: bool = option(
        "each object is a sample: the image is what its box contains, the class its own",
        False,
        excludes={
            "sample": "makes a sample of each object, --sample row of each row; leave out one",
            "unlabelled keep": "leaves out images without objects; leave out --unlabelled keep",
            "unlabelled empty": "leaves out images without objects; leave out --unlabelled empty",
            "bad_boxes": "leaves out each bad box by itself; leave out --bad_boxes drop_image",
        },
    )
    crop_margin: float = option(
        "with --crop_boxes: part of the box's width and height that is added on each side (default: 0)",
        0.0,
        Kind("FRACTION", float, 0, 10),
        needs=("crop_boxes",),
    )
    crop_min_side: int = option(
        "with --crop_boxes: leave out boxes with a shorter side, in pixels",
        1,
        Kind("N", int, 1, 1 << 16),
        needs=("crop_boxes",),
    )
    group_by: str = option(
        "image: rows or objects of an image are neighbours in one shard, so that the image is read once "
        "(default: shuffle them all)",
        "",
        choices=(IMAGE,),
        needs=("sample row", "crop_boxes"),
    )

    @property
    def crop(self) -> CropBoxes | None:
        """How objects are cut out; None where images stay whole."""
        return CropBoxes(self.crop_margin, self.crop_min_side) if self.crop_boxes else None
