"""Class folders: `root/<class>/*` or `root/<split>/<class>/*`, with classes nested to any depth."""

from __future__ import annotations

from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.labels.schema import CLASS_FOLDER_COLUMNS
from beam_pipeline.core.listing.folders import FOLDER
from beam_pipeline.core.questions import Question
from beam_pipeline.core.records.example_source import LabelledImages
from beam_pipeline.layouts.archives import opened_for_folders
from beam_pipeline.layouts.layout import FolderLabels, Source, SourceOptions
from beam_pipeline.layouts.paths import image_roots


class ClassFolders:
    """An image's class is its folder."""

    name = "class_folders"
    option_names = frozenset({"label_base", "label_order", "class_ids"})

    def recognise(self, options: SourceOptions) -> str:
        """Recognises any folder without labels; the layout is tried last."""
        return "" if options.labels else "no --labels and no other layout's files"

    def open(self, options: SourceOptions) -> Source:
        """Lists every image below the folders.

        Raises:
          UsageError: a path does not exist, or labels are given.
        """
        if options.labels:
            raise UsageError("--layout class_folders takes labels from folders; leave out --labels")
        roots, questions = opened_for_folders(image_roots(options.images))
        if options.split_by == FOLDER:
            questions = (*questions, WHOLE_CLASSES)
        return Source(
            layout=self.name,
            roots=roots,
            labels=FolderLabels(),
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
