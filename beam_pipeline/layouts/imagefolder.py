"""Hugging Face's image folders: `metadata.csv`, `metadata.jsonl` or `metadata.parquet` among the images.

The file is in the images' folder or in each split's, such as `train/metadata.jsonl`. Its column
`file_name` names images relative to it; all other columns are labels. Source:
https://huggingface.co/docs/datasets/image_dataset
"""

from __future__ import annotations

import posixpath
from contextlib import suppress
from dataclasses import replace

from beam_pipeline.core.errors import ConversionError, LabelTableError, UsageError
from beam_pipeline.core.labels.table_files import inspect_file, path_columns
from beam_pipeline.core.labels.table_rows import head_rows
from beam_pipeline.core.labels.tables import LABEL_NAMES, inspect_tables
from beam_pipeline.core.listing.folders import SPLIT_NAMES
from beam_pipeline.layouts.cell_files import file_heads
from beam_pipeline.layouts.heads import first_line, head
from beam_pipeline.layouts.layout import Source, SourceOptions
from beam_pipeline.layouts.local_copy import LocalCopy
from beam_pipeline.layouts.paths import image_roots
from beam_pipeline.layouts.table import (
    TABLE_OPTIONS,
    column_choices,
    table_examples,
    table_labels,
    table_numbering,
)
from beam_pipeline.layouts.tree import has_file, subfolders
from beam_pipeline.storage import files

_NAMES = ("metadata.csv", "metadata.jsonl", "metadata.parquet")


class ImageFolder:
    """A table among the images contains their labels."""

    name = "imagefolder"
    option_names = TABLE_OPTIONS

    def recognise(self, options: SourceOptions) -> str:
        """Recognises a metadata file among the images that has a column with their names."""
        if options.labels:
            return ""
        with suppress(ConversionError, OSError):  # reported by the layout that is finally chosen
            return next(filter(None, (_reason(path, options) for path in options.images)), "")
        return ""

    def open(self, options: SourceOptions) -> Source:
        """Reads the beginnings of the metadata files.

        Raises:
          UsageError: the file does not exist, or it is unusable as a whole.
        """
        if options.labels:
            raise UsageError(
                "--layout imagefolder finds its labels among the images; leave out --labels, or give "
                "--layout table"
            )
        folder_of = {uri: folder for path in options.images for uri, folder in find_metadata(path)}
        if not folder_of:
            raise UsageError(
                f"--layout imagefolder: no {', '.join(_NAMES[:-1])} or {_NAMES[-1]} in "
                f"{', '.join(options.images)} or in folders train, validation or test there"
            )
        first: dict[str, str] = {}
        for uri in folder_of:
            folder, name = posixpath.split(uri)
            if first.setdefault(folder, uri) != uri:
                raise LabelTableError(
                    f"{first[folder]} and {name} are in one folder; remove the one that does not count"
                )
        choices = replace(column_choices(options), label_needed=False)
        head_of = file_heads(lambda: image_roots(options.images), [*folder_of])
        schema, tables = inspect_tables([head(uri) for uri in folder_of], choices, head_of)
        tables = tuple(replace(table, folder=folder_of[table.uri]) for table in tables)
        notes = schema.notes
        if not schema.has_label and not options.label_column:
            features = ", ".join(column.feature for column in schema.columns)
            notes = (
                *notes,
                f"no column is called {', '.join(LABEL_NAMES)}, so there is no label but the features "
                f"{features}; --label_column NAME makes a column the label",
            )
        uris = tuple(folder_of)
        return Source(
            layout=self.name,
            roots=image_roots(options.images, frozenset(uris)),
            labels=table_labels(options, tables, schema, LocalCopy()),
            examples=table_examples(options, schema.columns),
            numbering=table_numbering(options, schema),
            notes=notes,
            questions=schema.questions,
            tables=tables,
            roles=schema.roles,
        )


def find_metadata(path: str) -> list[tuple[str, str]]:
    """Finds the metadata files of a folder of images, or of its split folders; none in archives.

    Args:
      path: the folder, as typed.

    Returns: (URI, folder relative to the images') of each.

    Raises:
      UsageError: the path does not exist.
    """
    roots = image_roots((path,))
    if any(root.archive for root in roots):
        return []
    root = roots[0].uri
    order = list(SPLIT_NAMES)
    below = (posixpath.basename(folder) for folder in subfolders(root))
    splits = [name for name in below if name.lower() in order]
    return [
        (uri, folder)
        for folder in ("", *sorted(splits, key=lambda name: order.index(name.lower())))
        for name in _NAMES
        if has_file(uri := files.join(root, folder, name))
    ]


def _reason(path: str, options: SourceOptions) -> str:
    """Returns the reason why a path is such a folder; empty if it is not."""
    for uri, folder in find_metadata(path):
        reason = f"{posixpath.join(folder, posixpath.basename(uri))} in {path}"
        try:
            beginning = first_line(uri)
            if beginning is None:
                return reason
            names = [*filter(None, head_rows(beginning, inspect_file(beginning)).columns)]
        except LabelTableError:  # reported when the file is opened
            return reason
        if not names:
            return reason
        columns = [options.key_column] if options.key_column in names else path_columns(names)
        if columns:
            return f"{reason} names images in its column {columns[0]}"
    return ""
