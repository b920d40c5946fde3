"""Labels in the paths of images: class folders, `root/<class>/*` or `root/<split>/<class>/*`, and --label_from."""

from __future__ import annotations

from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.labels.name_pattern import SPLIT_GROUP, name_pattern
from beam_pipeline.core.labels.schema import CLASS_FOLDER_COLUMNS, KIND_NAMES
from beam_pipeline.core.listing.folders import FOLDER
from beam_pipeline.core.questions import Question
from beam_pipeline.core.records.example_source import LabelledImages
from beam_pipeline.layouts import layout, paths


class ClassFolders:
    """An image's class is its folder."""

    name = "class_folders"
    option_names = frozenset({"label_base", "label_order", "class_ids"})
    reads_labels = False

    def recognise(self, options: layout.SourceOptions) -> str:
        """Recognises any folder without labels; the layout is tried last."""
        return "no --labels and no other layout's files"

    def open(self, options: layout.SourceOptions) -> layout.Source:
        """Lists every image below the folders.

        Raises:
          UsageError: a path does not exist.
        """
        roots, questions = paths.opened_for_folders(paths.image_roots(options.images))
        if options.split_by == FOLDER:
            questions = (*questions, WHOLE_CLASSES)
        return layout.Source(
            layout=self.name,
            roots=roots,
            labels=layout.FolderLabels(),
            examples=LabelledImages(CLASS_FOLDER_COLUMNS),
            numbering=options.numbering(),
            questions=questions,
        )


WHOLE_CLASSES = Question(
    "whole_classes",
    "--split_by folder puts whole classes into one split, as the folders are the classes, so no "
    "class that is tested on is ever trained on. If that is not wanted, name the groups in a column "
    "of a table: --labels TABLE --split_by COLUMN",
)
"""The question of --split_by folder where folders are the classes."""


class FileNames:
    """An image's name contains its labels."""

    name = "file_names"
    option_names = frozenset({"label_from", "columns", "label_base", "label_order"})
    reads_labels = False

    def recognise(self, options: layout.SourceOptions) -> str:
        """Recognises the option --label_from."""
        return "--label_from is given" if options.label_from else ""

    def open(self, options: layout.SourceOptions) -> layout.Source:
        """Lists every image below the folders.

        Raises:
          UsageError: a path does not exist, or an option names no group.
        """
        if not options.label_from:
            raise UsageError("--layout file_names needs --label_from")
        kinds = {name: KIND_NAMES.get(kind) for name, kind in options.columns.items()}
        pattern = name_pattern(options.label_from, kinds)
        groups = [column.name for column in name_pattern(options.label_from, {}).columns]
        if unknown := sorted({*kinds} - {*groups}):
            raise UsageError(
                f"--columns: no group {unknown[0]!r} in --label_from {options.label_from}; its groups "
                f"are {', '.join(groups)}"
            )
        if not pattern.columns:
            raise UsageError(
                f"--label_from {options.label_from} has only the group {SPLIT_GROUP}; expected one "
                "called label, as in (?P<label>.+)"
            )
        return layout.Source(
            layout=self.name,
            roots=paths.image_roots(options.images),
            labels=layout.FolderLabels(pattern),
            examples=LabelledImages(pattern.columns),
            numbering=options.numbering(),
        )
