"""The registry of layouts, those that `--layout` knows. docs/adding_a_layout.md says how to add one."""

from __future__ import annotations

import dataclasses
import difflib

from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.questions import LABEL_FILES_IGNORED
from beam_pipeline.layouts.automl import Automl
from beam_pipeline.layouts.caption_files import CaptionFiles
from beam_pipeline.layouts.cifar.batches import CIFAR10, CIFAR100
from beam_pipeline.layouts.cifar.layout import Cifar
from beam_pipeline.layouts.class_folders import ClassFolders
from beam_pipeline.layouts.coco.layout import Coco, CocoPanoptic
from beam_pipeline.layouts.file_names import FileNames
from beam_pipeline.layouts.imagefolder import ImageFolder
from beam_pipeline.layouts.kitti import Kitti
from beam_pipeline.layouts.layout import Layout, Source, SourceOptions
from beam_pipeline.layouts.masks import Masks
from beam_pipeline.layouts.parquet.layout import Parquet
from beam_pipeline.layouts.shared.archives import (
    archive_notes,
    archive_questions,
    expanded,
)
from beam_pipeline.layouts.surroundings.alternatives import certain_alternative
from beam_pipeline.layouts.surroundings.doubts import find_doubts
from beam_pipeline.layouts.surroundings.folders import only_folder
from beam_pipeline.layouts.table import Table
from beam_pipeline.layouts.tree import remembered
from beam_pipeline.layouts.voc import Voc
from beam_pipeline.layouts.webdataset import WebDataset
from beam_pipeline.layouts.yolo.layout import Yolo

AUTO = "auto"

LAYOUTS: tuple[Layout, ...] = (
    FileNames(),
    Cifar("cifar10", CIFAR10),
    Cifar("cifar100", CIFAR100),
    WebDataset(),
    Parquet(),
    Kitti(),
    Voc(),
    CocoPanoptic(),
    Coco(),
    Yolo(),
    Masks(),
    ImageFolder(),
    CaptionFiles(),
    Automl(),
    Table(),
    ClassFolders(),
)
"""In the order in which `auto` asks them: those that look for more come first."""

_DEFAULTS = SourceOptions(images=())
_OPTION_FIELDS = (
    *("key_column", "label_column", "columns", "list_column"),
    *("one_hot", "labels_encoding", "label_from"),
    *("label_base", "label_order", "class_ids"),
    *("object_features", "yolo_task"),
    *("masks", "mask_colors"),
)


def open_source(name: str, options: SourceOptions) -> tuple[Source, str]:
    """Finds images and labels by the layout of that name, or by the first that recognises them.

    Returns: the source, and why this layout was taken; empty if the user named it.

    Raises:
      UsageError: there is no such layout, or a path or option cannot be used.
    """
    with remembered():
        return _open(name, options)


def _open(name: str, options: SourceOptions) -> tuple[Source, str]:
    options = dataclasses.replace(options, images=expanded(options.images))
    layout, why = _recognise(options) if name == AUTO else (_layout(name), "")
    guessed = name == AUTO and layout.name == ClassFolders.name
    alternative = certain_alternative(options, LAYOUTS) if guessed else None
    notes: tuple[str, ...] = ()
    if alternative:
        notes = (_taken_instead(options, alternative.options),)
        options, layout, why = alternative
    for field in _OPTION_FIELDS:
        if field not in layout.option_names and getattr(options, field) != getattr(
            _DEFAULTS, field
        ):
            users = [other.name for other in LAYOUTS if field in other.option_names]
            raise UsageError(
                f"--{field} means nothing for "
                f"the layout {layout.name}{f' ({why})' if why else ''}; it is for {', '.join(users)}"
            )
    source = layout.open(options)
    doubts = find_doubts(options, LAYOUTS) if guessed and not alternative else []
    ignored = doubts or [q for q in source.questions if q.id == LABEL_FILES_IGNORED]
    archives = any(root.archive for root in source.roots)
    return dataclasses.replace(
        source,
        notes=(*notes, *archive_notes(source.roots), *source.notes),
        questions=(*source.questions, *doubts, *archive_questions(source.roots)),
        unseen=guessed and not ignored and (archives or not only_folder(options)),
    ), why


def _taken_instead(typed: SourceOptions, taken: SourceOptions) -> str:
    """A note on the paths that were taken instead of those given."""
    labels = f" --labels {' '.join(taken.labels)}" if taken.labels else ""
    return (
        f"--images {' '.join(taken.images)}{labels} was taken for --images {' '.join(typed.images)}; "
        f"--layout {ClassFolders.name} takes the names of its folders as classes"
    )


def _recognise(options: SourceOptions) -> tuple[Layout, str]:
    for layout in LAYOUTS:
        if options.masks and "masks" not in layout.option_names:
            continue
        why = layout.recognise(options)
        if why:
            return layout, why
    raise UsageError("no layout fits what --images and --labels name; say which with --layout")


def _layout(name: str) -> Layout:
    for layout in LAYOUTS:
        if layout.name == name:
            return layout
    names = [AUTO, *(layout.name for layout in LAYOUTS)]
    close = difflib.get_close_matches(name, names, n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    raise UsageError(f"--layout is {name!r}, expected one of {', '.join(names)}{hint}")
