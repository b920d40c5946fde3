"""AutoML Vision: CSV files without a header, in the format of Google's import and export."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.labels.table_files import TableHead, encoding_of
from beam_pipeline.core.records.example_source import LabelledImages
from beam_pipeline.core.references import LabelRow
from beam_pipeline.core.uris import is_remote
from beam_pipeline.layouts.automl.rows import (
    AutomlFormat,
    automl_names,
    inspect_automl,
    is_automl,
    read_automl,
)
from beam_pipeline.layouts.layout import FileLabels, Source, SourceOptions
from beam_pipeline.layouts.shared.heads import allow_long_cells, first_line, head
from beam_pipeline.layouts.shared.local_copy import LocalCopy, find_copies
from beam_pipeline.layouts.shared.paths import image_roots, label_files

_FIRST_DETECTION_ID = 1  # 0 is the background's


@dataclass(frozen=True)
class AutomlReader:
    """Reads a CSV file.

    Attributes:
      rows: the format of all rows.
      encodings: (URI, encoding) of each file.
      copies: maps the rows' names to images on this machine.
    """

    rows: AutomlFormat
    encodings: tuple[tuple[str, str], ...]
    copies: LocalCopy

    def read(self, file: BinaryIO, uri: str) -> Iterator[LabelRow | DeadLetter]:
        """Yields every row of a file."""
        allow_long_cells()
        rows = read_automl(file, uri, dict(self.encodings)[uri], self.rows)
        return self.copies.rename(rows)


class Automl:
    """Rows hold set, image and class, or set, image, class and box."""

    name = "automl"
    option_names = frozenset({"label_base", "label_order", "class_ids"})

    def recognise(self, options: SourceOptions) -> str:
        """Recognises label files whose first line is a row with a set and an image."""
        try:
            uris = label_files(options.labels)
        except UsageError:
            return ""
        heads = [first_line(uri) for uri in uris if not is_remote(uri)]
        if not heads or len(heads) < len(uris):
            return ""
        recognised = [found.uri for found in heads if found and is_automl(found)]
        return f"no header in {recognised[0]}, {_REASON}" if recognised else ""

    def open(self, options: SourceOptions) -> Source:
        """Reads the beginnings of all files.

        Raises:
          UsageError: a path does not exist, or a file is not of this kind.
        """
        if not options.labels:
            raise UsageError("--layout automl needs --labels")
        return automl_source(options, [head(uri) for uri in label_files(options.labels)])


_REASON = "its first line is a set and an image, as AutoML has it"


def automl_source(
    options: SourceOptions, heads: Sequence[TableHead], notes: Sequence[str] = ()
) -> Source:
    """Builds the source from the beginnings of the label files.

    Raises:
      UsageError: a path does not exist, or a file is not of this kind.
    """
    rows = inspect_automl(heads)
    roots = image_roots(options.images, frozenset(found.uri for found in heads))
    names = (name for found in heads for name in automl_names(found))
    copies = find_copies(names, roots, [found.uri for found in heads])
    return Source(
        layout=Automl.name,
        roots=roots,
        labels=FileLabels(
            AutomlReader(
                rows, tuple((found.uri, encoding_of(found.data)) for found in heads), copies
            ),
            tuple(found.uri for found in heads),
            merge_rows=rows.boxes,
        ),
        examples=LabelledImages(rows.columns),
        numbering=options.numbering(_FIRST_DETECTION_ID if rows.boxes else 0),
        notes=(*notes, *copies.notes),
    )


def automl_note(heads: Sequence[TableHead]) -> str:
    """Returns a sentence on why tables are AutoML's; empty if they are not."""
    recognised = [found.uri for found in heads if is_automl(found)]
    return f"{recognised[0]} has no header: {_REASON}" if recognised else ""
