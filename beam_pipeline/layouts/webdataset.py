"""WebDataset: archives where the files of a sample share their name up to its first dot.

    000000.jpg  000000.cls       the class: an integer or a name
    000001.jpg  000001.txt       a caption
    000002.jpg  000002.json      an object: a column for each of its fields

Source: https://github.com/webdataset/webdataset
"""

from __future__ import annotations

import itertools
import posixpath
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from beam_pipeline.core.archives import Entry, Member
from beam_pipeline.core.dead_letters import DeadLetter, Reason, Stage, image_dead_letter
from beam_pipeline.core.errors import (
    ContainerError,
    ListingError,
    UsageError,
)
from beam_pipeline.core.labels.samples import labelled
from beam_pipeline.core.labels.table_rows import LabelTable
from beam_pipeline.core.labels.tables import LabelSchema
from beam_pipeline.core.labels.typed_rows import typed_row
from beam_pipeline.core.listing.filters import IMAGE_EXTENSIONS, ImageRoot
from beam_pipeline.core.listing.folders import first_folder_split
from beam_pipeline.core.questions import Question
from beam_pipeline.core.records.example_source import LabelledImages
from beam_pipeline.core.references import DEFAULT_SPLIT, ImageRef, SampleRef
from beam_pipeline.core.text import counted, enumerated, excerpt, printable
from beam_pipeline.core.uris import is_remote
from beam_pipeline.layouts.caption_files import (
    CAPTION_COLUMN,
    CLASS_COLUMN,
    KEY_COLUMN,
    SIDECAR_OPTIONS,
    inspect_sidecars,
    json_fields,
)
from beam_pipeline.layouts.layout import ContainerLabels, Source, SourceOptions
from beam_pipeline.layouts.paths import (
    archive_notes,
    archive_questions,
    archive_roots,
)
from beam_pipeline.layouts.table import table_numbering
from beam_pipeline.storage.listing import MemberFilter, OpenedArchive

CLASS, CAPTION, FIELDS = "cls", "txt", "json"
SIDECARS = (CLASS, CAPTION, FIELDS)
"""Extensions of the files that tell a sample's labels."""

_MAX_SIDECAR_BYTES = 16 << 20  # 16 MiB
_RECOGNISED_BY, _LOOKED_AT, _LOOKED_AT_REMOTE = 200, 2_000, 200  # members of an archive
_SHOWN = 5
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")
_YOLO = re.compile(r"\s*\d+(\s+[0-9.eE+-]+){4,}\s*")

Read = Callable[[Member, int], bytes]
"""(member, bytes of its content) -> the content."""


@dataclass
class _Sample:
    """The files of one sample.

    Attributes:
      images: (extension, reference or why there is none) of its images.
      fields: column -> value, from its other files.
      problem: what is wrong with those files, or empty.
    """

    images: list[tuple[str, ImageRef | DeadLetter]] = field(default_factory=list)
    fields: dict[str, Any] = field(default_factory=dict)
    problem: str = ""

    def add_labels(self, extension: str, entry: Entry, read: Read) -> None:
        """Adds what a file beside the image states; a class and a caption in files of their own come first."""
        try:
            if entry.member is None:
                raise ValueError(entry.problem)
            if entry.size > _MAX_SIDECAR_BYTES:
                raise ValueError(f"{entry.size} bytes, expected at most {_MAX_SIDECAR_BYTES}")
            text = read(entry.member, entry.size).decode("utf-8-sig")
            if extension == FIELDS:
                ours = {CLASS_COLUMN, CAPTION_COLUMN} & self.fields.keys()
                fields = json_fields(text)
                self.fields |= {name: fields[name] for name in fields if name not in ours}
            elif extension == CAPTION:
                self.fields[CAPTION_COLUMN] = text.strip()
            else:
                name = text.strip()
                self.fields[CLASS_COLUMN] = int(name) if _INTEGER.fullmatch(name) else name
        except (OSError, ValueError, RecursionError) as error:
            problem = (isinstance(error, OSError) and error.strerror) or error
            self.problem = self.problem or f"its .{extension} cannot be used: {problem}"


def sample_name(path: str) -> tuple[str, str]:
    """The name that a file shares with others of its sample, and the rest of its own, in lower case.

    >>> sample_name("a.b/000.Seg.PNG")
    ('a.b/000', 'seg.png')
    """
    folder, slash, name = path.rpartition("/")
    base, _, extension = name.partition(".")
    return f"{folder}{slash}{base}", extension.lower()


def _collect(
    root: ImageRoot, entries: Iterable[tuple[Entry, int]], read: Read
) -> tuple[dict[str, _Sample], Iterable[str]]:
    """The samples by their names, in the order of the archive, and extensions of other files in it."""
    samples: dict[str, _Sample] = defaultdict(_Sample)
    images = MemberFilter(root)
    for entry, version in entries:
        name, extension = sample_name(entry.name)
        if posixpath.basename(name).startswith(".") or not posixpath.basename(name):
            continue  # hidden, as what macOS adds
        if extension in SIDECARS:
            if not entry.name.startswith("__MACOSX/"):
                samples[name].add_labels(extension, entry, read)
        elif images.lists(entry):
            samples[name].images.append((extension, images.reference(entry, version)))
    return samples, images.ignored


@dataclass(frozen=True)
class WebDatasetReader:
    """Reads archives of samples.

    Attributes:
      archives: all of them.
      table: the samples' columns, like a table's.
      schema: what they are.
    """

    archives: tuple[ImageRoot, ...]
    table: LabelTable
    schema: LabelSchema

    def read(self, uri: str, unpack_to: str) -> Iterator[SampleRef | DeadLetter]:
        """Yields a reference to each image of an archive.

        Raises:
          ContainerError: it cannot be read, or is damaged.
        """
        (root,) = (archive for archive in self.archives if archive.uri == uri)
        try:
            with OpenedArchive(root) as archive:
                entries = ((entry, archive.version) for entry in archive.entries())
                samples, _ = _collect(root, entries, archive.content)
        except ListingError as error:
            raise ContainerError(str(error)) from error
        assert root.archive
        table = replace(self.table, uri=uri)
        for name, sample in samples.items():
            yield from self._outcomes(root.archive.key(name), sample, table)

    def _outcomes(
        self, key: str, sample: _Sample, table: LabelTable
    ) -> Iterator[SampleRef | DeadLetter]:
        """A reference to the image of a sample, of `a.jpg` and `a.seg.png` the first; or why there is none."""
        if not sample.images:
            labels = ", ".join(sample.fields) or "broken"
            message = f"there are labels, {labels}, and no image beside them"
            yield image_dead_letter(Stage.JOIN, key, table.uri, Reason.MISSING_IMAGE, message)
            return
        candidates = [image for image in sample.images if "." not in image[0]] or sample.images
        extensions = sorted({extension for extension, _ in candidates})
        row = typed_row(key, {KEY_COLUMN: key, **sample.fields}, table, self.schema, line=0)
        for _, image in candidates:
            if isinstance(image, DeadLetter):
                yield image
                continue
            stage, reason, file = Stage.JOIN, Reason.DUPLICATE_KEY, ""
            message = sample.problem or row.problem
            if len(extensions) > 1:
                reason = Reason.AMBIGUOUS_KEY
                message = f"the sample has {len(candidates)} images, .{', .'.join(extensions)}; expected one"
            elif len(candidates) > 1:
                message = f"its archive contains this path {len(candidates)} times"
            elif not sample.fields and not sample.problem:
                reason, message = Reason.UNLABELLED, f"no .{', .'.join(SIDECARS)} beside it"
            elif message:
                stage, reason, file = Stage.LABELS, Reason.BAD_LABEL_VALUE, table.uri
            else:
                split = row.split or first_folder_split(image.path) or DEFAULT_SPLIT
                yield labelled(image, split, row.values, table.uri)
                continue
            yield image_dead_letter(stage, image.key, image.uri, reason, message, file=file)


class WebDataset:
    """Archives of samples whose files share a name."""

    name = "webdataset"
    option_names = SIDECAR_OPTIONS
    reads_labels = False

    def recognise(self, options: SourceOptions) -> str:
        """Archives; the first contains a .cls, .txt or .json beside an image."""
        if not all(path.strip() for path in options.images):
            return ""
        archives, unusable = archive_roots(options.images)
        if unusable or not archives:
            return ""
        root, images, labels = archives[0], {}, {}
        with OpenedArchive(root) as archive:
            for entry in itertools.islice(archive.entries(), _RECOGNISED_BY):
                name, extension = sample_name(entry.name)
                if extension in SIDECARS:
                    labels[name] = extension
                elif f".{extension.rpartition('.')[2]}" in IMAGE_EXTENSIONS:
                    images[name] = extension
        for name in images:
            if name in labels and not posixpath.basename(name).startswith("."):
                base = printable(posixpath.basename(name))
                return f"{base}.{labels[name]} beside {base}.{images[name]} in {root.uri}"
        return ""

    def open(self, options: SourceOptions) -> Source:
        """Looks at the beginnings of the first archive and of the last.

        Raises:
          UsageError: a path does not exist or is not an archive, or nothing states labels.
          ListingError: an archive cannot be read.
        """
        archives, unusable = archive_roots(options.images)
        if unusable or not archives:
            typed = ", ".join(unusable) or "nothing"
            raise UsageError(f"--layout {self.name} reads archives (.tar, .zip), not {typed}")
        rows, ignored = _beginnings(archives)
        if not rows:
            raise UsageError(
                f"--images {archives[0].uri}: no .{', .'.join(SIDECARS)} beside an image; for class "
                "folders in archives give --layout class_folders"
            )
        schema, table, left_out = inspect_sidecars(archives[0].uri, rows, options)
        notes = [*schema.notes, *left_out]
        if ignored:
            notes.append(f"files of other kinds are left out: {enumerated(ignored, _SHOWN)}")
        return Source(
            self.name,
            (),
            ContainerLabels(
                WebDatasetReader(archives, table, schema), tuple(root.uri for root in archives)
            ),
            LabelledImages(schema.columns),
            table_numbering(options, schema),
            (*archive_notes(archives), *notes),
            (*schema.questions, *archive_questions(archives), *_yolo_question(rows)),
            roles=schema.roles,
        )


def _beginnings(archives: Sequence[ImageRoot]) -> tuple[list[dict[str, Any]], Sequence[str]]:
    """The fields of the samples at the beginnings of the first and the last archive, and other files."""
    rows: list[dict[str, Any]] = []
    further: set[str] = set()
    for root in {archives[0].uri: archives[0], archives[-1].uri: archives[-1]}.values():
        with OpenedArchive(root) as archive:
            most = _LOOKED_AT_REMOTE if is_remote(root.uri) else _LOOKED_AT
            entries = ((entry, 0) for entry in itertools.islice(archive.entries(), most))
            samples, ignored = _collect(root, entries, archive.content)
        further.update(ignored)
        usable = ((n, s) for n, s in samples.items() if s.fields and s.images)
        rows += [{KEY_COLUMN: name, **sample.fields} for name, sample in usable]
    return rows, sorted(further)


def _yolo_question(rows: Sequence[Mapping[str, Any]]) -> Iterator[Question]:
    """Asks whether what would be captions are boxes."""
    texts = [row[CAPTION_COLUMN] for row in rows if isinstance(row.get(CAPTION_COLUMN), str)]
    lines = [line for text in texts for line in text.splitlines() if line.strip()]
    if lines and all(map(_YOLO.fullmatch, lines)):
        yield Question(
            "boxes_as_captions",
            f"The .txt files contain lines such as {excerpt(lines[0])} in {counted(len(texts), 'sample')}, "
            "which look like YOLO's boxes, not captions; unpack the archives, and name the folder.",
        )
