"""Options for reading labels and numbering classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.labels.classes import CLASS_IDS, LABEL_ORDERS
from beam_pipeline.core.labels.schema import OBJECT_FEATURES
from beam_pipeline.core.labels.unlabelled import UNLABELLED_CHOICES
from beam_pipeline.layouts.yolo.labels import YOLO_TASKS
from beam_pipeline.options.group import OptionGroup, option
from beam_pipeline.options.values import (
    parse_columns,
    parse_encoding,
    parse_label_from,
    parse_list_column,
    parse_names,
)


@dataclass(frozen=True)
class LabelOptions(OptionGroup):
    """Options that override what the layout infers about the labels."""

    title = "labels"
    description = "Override what is guessed from the label files and folders."

    key_column: str = option(
        "", metavar="NAME", help="column that names the image (default: guessed from its name)"
    )
    label_column: str = option(
        "",
        metavar="NAME",
        help="column that holds the label, or none if no column does (default: guessed from its "
        "name)",
    )
    columns: Mapping[str, str] = option(
        {},
        metavar="name:int,score:float",
        parse=parse_columns,
        help="types of label columns: int, float, str, or skip to leave a column out (default: "
        "guessed from the values)",
    )
    list_column: Mapping[str, str] = option(
        {},
        metavar="tags=;",
        parse=parse_list_column,
        repeated=True,
        help="column whose cells hold several values, with their separator, or [] for lists in "
        "brackets; or, as tags, whose values are in several rows of an image; may be repeated",
    )
    one_hot: tuple[str, ...] = option(
        (),
        metavar="a,b,c",
        parse=parse_names,
        help="one-hot columns, one per class, by name or as prefix_*; the column that holds 1 is the "
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
        help="take labels from file names instead of folders and tables: a regular expression whose "
        "group (?P<label>...) is the label; other named groups become further columns",
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
    label_from_folder_name: bool = option(
        False, help="older spelling of --class_ids keep, for class folders only"
    )
    unlabelled: str = option(
        UNLABELLED_CHOICES[0],
        choices=UNLABELLED_CHOICES,
        help="images without a label: drop reports them, keep writes them without label features "
        "(default: %(default)s)",
    )
    class_ids: str = option(
        CLASS_IDS[0],
        choices=CLASS_IDS,
        help="number gives classes the ids 0, 1, 2, ... in their order; keep uses class names that are "
        "integers, or the ids of COCO's categories, as the ids (default: %(default)s)",
    )
    classes: str = option(
        "",
        metavar="FILE",
        help="fixed classes and ids: a file with one name per line, or the labels.txt, manifest.json "
        "or folder of an earlier data set; images of other classes are rejected as unknown_class",
    )
    classes_only: bool = option(False, help="with --classes: fail if there is any other class")
    mask_colors: str = option(
        "",
        metavar="FILE",
        help="table of the colours in masks: name,r,g,b a line, as class_dict.csv has it; the ids count "
        "from 0, or are a column id",
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
        help="content of YOLO label files: boxes, outlines, keypoints or rotated boxes (default: "
        "guessed from the lines)",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.classes_only and not self.classes:
            raise UsageError("--classes_only needs --classes, which lists the classes")
        if not self.classes:
            return
        for name in ("label_order", "label_from_folder_name", "class_ids"):
            if getattr(self, name) != type(self).__dataclass_fields__[name].default:
                raise UsageError(f"--{name} has no effect with --classes, which sets the ids")
