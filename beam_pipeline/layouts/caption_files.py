"""Caption files: each image has a text of its name beside it, as trainers of text-to-image models keep them.

    10_dog/0001.png    10_dog/0001.txt      or .caption
    00000/000000000.jpg    .txt    .json    img2dataset's `files`: the object's fields become columns

Sources: https://github.com/kohya-ss/sd-scripts, https://github.com/rom1504/img2dataset
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from beam_pipeline.core.errors import LabelTableError, UsageError, reason_of
from beam_pipeline.core.labels import further_columns, table_rows, typed_rows
from beam_pipeline.core.labels.schema import OBJECTS_COLUMN, SKIP_KIND, Column
from beam_pipeline.core.labels.table_files import encoding_of
from beam_pipeline.core.labels.tables import LabelSchema, inspect_tables
from beam_pipeline.core.listing.filters import TEXTS, ImageRoot
from beam_pipeline.core.questions import Question
from beam_pipeline.core.records.example_source import LabelledImages
from beam_pipeline.core.text import excerpt, is_utf8, some
from beam_pipeline.core.uris import is_remote
from beam_pipeline.layouts import label_files, layout, nearby, tree
from beam_pipeline.layouts.paths import image_roots
from beam_pipeline.layouts.table import table_numbering
from beam_pipeline.storage import files

KEY_COLUMN, CLASS_COLUMN, CAPTION_COLUMN = "__key__", "cls", "caption"

SIDECAR_OPTIONS = frozenset(
    {
        *("label_column", "columns", "list_column", "one_hot"),
        *("label_base", "label_order", "class_ids"),
    }
)
"""The options of layouts whose columns are such files."""

_JSON = ".json"
MOST_BYTES = 1 << 20
"""1 MiB of a caption or an object; they are held with the reference of the image."""

_NO_CAPTIONS = ("readme", "license", "licence", "copying", "notice", "changelog")
_LISTS = frozenset({"labels", "classes", "requirements"})

_MOST_FOLDERS, _MOST_REMOTE_FOLDERS = 200, 20
_TEXTS, _TEXTS_REMOTE = 50, 10  # captions looked at
_LINES = 20  # of each
_HEAD_BYTES = 4096
_NEARLY_ALL = 0.9
_OBJECTS, _OBJECTS_REMOTE = 500, 50  # JSON files that column types are inferred from
_IMAGES_WITHOUT = 500  # images, after which a folder without captions is not looked at any further


class CaptionFiles:
    """A text of the image's name is its caption."""

    name = "caption_files"
    option_names = SIDECAR_OPTIONS | {"labels_encoding"}

    def recognise(self, options: layout.SourceOptions) -> str:
        """Recognises texts for nearly all images of folders, if nothing else may be their labels."""
        given = options.images, options.labels
        images, labels = ([*map(files.canonical, paths)] for paths in given)
        if not all(is_remote(uri) or tree.has_folder(uri) for uri in (*images, *labels)):
            return ""
        if labels:
            sets, reason = [look_for_captions(images, labels)], "captions such as"
        else:
            sets = [look_for_captions([folder], enough=_IMAGES_WITHOUT) for folder in images]
            reason = "a caption beside each image, such as"
        are_described = all(map(Captions.describe_images, sets))
        if not are_described or (not labels and any(map(_has_other_labels, images))):
            return ""
        first = sets[0].uris[sets[0].ending][0]
        return f"{reason} {label_files.typed_path(first, (options.labels or options.images)[0])}"

    def open(self, options: layout.SourceOptions) -> layout.Source:
        """Looks at names of the images, and at some of the JSON files beside them.

        Raises:
          UsageError: captions are missing, or a path cannot be used.
        """
        roots = image_roots(options.images)
        typed = image_roots(options.labels, option="--labels")
        labels = typed or tuple(ImageRoot(root.uri) for root in roots)
        uris, elsewhere = ([root.uri for root in side] for side in (roots, labels))
        separate = sorted({*elsewhere} - {*uris})
        captions = look_for_captions(uris, elsewhere if separate else ())
        if not captions.ending and not any(map(is_remote, (*uris, *elsewhere))):
            raise UsageError(
                f"no captions in {some(elsewhere)}; expected files {' or '.join(TEXTS)} with the names of "
                "the images, beside them or in a folder named with --labels; --layout webdataset reads those in archives"
            )
        ending = captions.ending or TEXTS[0]
        pattern = label_files.files_pattern(ending)
        folders = tuple(replace(root, patterns=root.patterns or (pattern,)) for root in labels)
        kinds = {CAPTION_COLUMN: "str"}
        schema, table, left_out = inspect_sidecars(elsewhere[0], _rows(captions), options, kinds)
        form = CaptionFormat(table, schema, options.labels_encoding, bool(captions.with_fields))
        reader = label_files.LabelFileReader(form, tuple(map(label_files.Place, separate)))
        questions = [*schema.questions]
        (second,) = (each for each in TEXTS if each != ending)
        have_both = 2 * len(captions.uris[second]) >= captions.images > 0
        if have_both and not any(root.patterns for root in typed):
            reason = (
                f"Images have captions {ending} and {second}; those in {ending} would be written."
            )
            answer = {"labels": (f"{elsewhere[0]}/**/*{second}",), "layout": self.name}
            questions.append(Question("two_captions", reason, "For the others:", answer))
        return layout.Source(
            layout=self.name,
            roots=roots,
            labels=layout.FileLabels(reader, folders=folders),
            examples=LabelledImages(schema.columns),
            roles=tuple(row for row in schema.roles if row.subject != f"column {KEY_COLUMN}"),
            numbering=table_numbering(options, schema),
            notes=(*schema.notes, *left_out),
            questions=tuple(questions),
        )


def _rows(captions: Captions) -> list[dict[str, Any]]:
    """The columns of some samples, from the beginning and the end of the data set."""
    rows: list[dict[str, Any]] = [{KEY_COLUMN: "", CAPTION_COLUMN: "a caption"}]
    uris = captions.with_fields
    most = _OBJECTS_REMOTE if uris and is_remote(uris[0]) else _OBJECTS
    for uri in uris if len(uris) <= most else (*uris[: most // 2], *uris[-most // 2 :]):
        with suppress(OSError, ValueError, RecursionError):  # a dead letter of its image
            rows.append({**fields_beside(uri), KEY_COLUMN: uri, CAPTION_COLUMN: "a caption"})
    return rows


# --- captions by their names ---------------------------------------------------------------------


@dataclass
class Captions:
    """Captions and JSON objects of images, as far as the folders were looked at.

    Attributes:
      images: how many images there are.
      uris: ending -> URIs of the caption files, of those with an image.
      with_fields: URIs of the caption files with a JSON object beside them.
    """

    images: int = 0
    uris: dict[str, list[str]] = field(default_factory=lambda: {ending: [] for ending in TEXTS})
    with_fields: list[str] = field(default_factory=list)

    def add(self, folder: tree.Folder, images: Collection[str]) -> None:
        """Adds the captions in a folder for images of these names, without extension."""
        parts = [(name, *_parts(name)) for name in folder.files]
        objects = {stem for _, stem, ending in parts if ending == _JSON}
        for name, stem, ending in parts:
            if ending in self.uris and stem in images and not is_no_caption(name):
                self.uris[ending].append(f"{folder.path}/{name}")
                self.with_fields += [f"{folder.path}/{name}"] if stem in objects else []

    @property
    def ending(self) -> str:
        """The ending of most captions; empty if there are none."""
        ending = max(TEXTS, key=lambda ending: len(self.uris[ending]))
        return ending if self.uris[ending] else ""

    def describe_images(self) -> bool:
        """True if nearly every image has a caption, of words instead of the numbers of objects; some are read."""
        uris = self.uris.get(self.ending, [])
        if not uris or len(uris) < _NEARLY_ALL * self.images:
            return False
        most = _TEXTS_REMOTE if is_remote(uris[0]) else _TEXTS
        read = [_are_numbers(uri) for uri in uris[:: len(uris) // most + 1]]
        return read.count(False) >= _NEARLY_ALL * (len(read) - read.count(None)) > 0


def look_for_captions(
    images: Sequence[str], labels: Sequence[str] = (), *, enough: int = 0
) -> Captions:
    """Looks at the names in folders of images; in large ones, only at some.

    Args:
      images: URIs of folders with images.
      labels: URIs of folders with their captions; by default, captions are beside the images.
      enough: after so many images without a single caption beside them, looks no further; 0 for never.
    """
    captions = Captions()
    stems = set[str]()
    for folder in _below(images):
        captions.images += len(folder.images)
        here = {_parts(name)[0] for name in folder.images}
        stems |= here
        if not labels:
            captions.add(folder, here)
            if 0 < enough <= captions.images and not captions.ending:
                break
    for folder in _below(labels):
        captions.add(folder, stems)
    return captions


def _below(roots: Sequence[str]) -> Iterator[tree.Folder]:
    for root in roots:
        yield from tree.walk(root, _MOST_REMOTE_FOLDERS if is_remote(root) else _MOST_FOLDERS)


def _parts(name: str) -> tuple[str, str]:
    """A file name without extension, and its extension in lower case."""
    stem, ending = posixpath.splitext(name)
    return stem, ending.lower()


def _are_numbers(uri: str) -> bool | None:
    """True if most of the first lines of a file are numbers; None if there are none."""
    data = tree.beginning(uri, _HEAD_BYTES)
    text = data.decode(encoding_of(data), "replace")
    lines = [line for line in text.splitlines() if line.strip()][:_LINES]
    return 2 * sum(map(nearby.is_of_numbers, lines)) > len(lines) if lines else None


def _has_other_labels(root: str) -> bool:
    """True if files in a folder or near it may also be labels of the images."""
    here = tree.names_in(root)
    inside = tree.tree(here)
    own = {path for folder in inside for path in (folder.path, *folder.folders)}
    around = {*tree.names_in(posixpath.dirname(here.path)).folders, *own} - {here.path}
    if any(posixpath.basename(path).lower() in tree.LABEL_FOLDERS for path in around):
        return True
    tables = [path for folder in inside for path in nearby.tables_in(folder)]
    harmless = {"captions_ignored", "json_ignored"}
    if tables and all(posixpath.splitext(path)[0] in own for path in tables):
        harmless.add("tables_ignored")  # img2dataset: 00000.parquet, 00000/
    return any(question.id not in harmless for question in nearby.ignored_label_files(here, root))


# --- caption files -------------------------------------------------------------------------------


@dataclass(frozen=True)
class CaptionFormat(label_files.LabelFormat):
    """Texts, each with the JSON object beside it.

    Attributes:
      table: the samples' columns, like a table's.
      schema: their kinds.
      encoding: encoding of the captions; empty for UTF-8, or UTF-16 with a byte order mark.
      has_fields: True if JSON objects are beside captions.
    """

    table: table_rows.LabelTable
    schema: LabelSchema
    encoding: str = ""
    has_fields: bool = False
    most_bytes = MOST_BYTES

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.schema.columns

    def skips(self, name: str) -> bool:
        return is_no_caption(name)

    def parse(self, data: bytes, uri: str) -> label_files.ImageLabels:
        """Parses a caption and the object beside it; a field's own file comes first."""
        try:
            own = {KEY_COLUMN: uri, CAPTION_COLUMN: caption_of(data, self.encoding)}
            fields = {**fields_beside(uri), **own} if self.has_fields else own
        except (OSError, ValueError, RecursionError) as error:
            raise label_files.BadLabelError(reason_of(error)) from error
        row = typed_rows.typed_row(uri, fields, replace(self.table, uri=uri), self.schema, 0)
        if row.problem:
            raise label_files.BadLabelError(row.problem)
        return label_files.ImageLabels(row.values, split=row.split)


def is_no_caption(name: str) -> bool:
    """True for names of files that are in many folders and describe no image, such as README.txt."""
    stem = posixpath.splitext(name)[0].lower()
    return stem.startswith(_NO_CAPTIONS) or stem in _LISTS


def caption_of(data: bytes, encoding: str = "") -> str:
    """The text of a caption file, all of its lines, without space around it.

    Raises:
      ValueError: it has another encoding.
    """
    encoding = encoding or encoding_of(data)
    try:
        text = data.decode(encoding).strip()
        text.encode()  # some encodings can write half of a surrogate pair
        return text
    except UnicodeError as error:
        raise ValueError(
            f"not a text in {encoding.removesuffix('-sig')} ({error}); save it as UTF-8, or "
            "name the encoding of all captions with --labels_encoding"
        ) from error


def fields_beside(uri: str) -> dict[str, Any]:
    """The columns in the JSON object beside a caption file; none without such a file.

    Raises:
      OSError: it cannot be read.
      ValueError, RecursionError: it is no JSON object.
    """
    try:
        with files.open_input(f"{posixpath.splitext(uri)[0]}{_JSON}") as file:
            data = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        return {}
    try:
        if len(data) > MOST_BYTES:
            raise ValueError(f"it has more than {MOST_BYTES} bytes; expected a short text")
        return json_fields(data.decode(table_rows.UTF_8))
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"the {_JSON} beside the caption cannot be used: {reason_of(error)}"
        ) from error


def json_fields(text: str) -> dict[str, Any]:
    """The columns of a JSON object. Raises ValueError, RecursionError."""
    fields = json_value(text)
    if not isinstance(fields, dict):
        raise ValueError(f"expected a JSON object, found {excerpt(fields)}")
    return fields


def json_value(text: str) -> Any:
    """The value of JSON. Raises ValueError, RecursionError."""
    value = json.loads(text)
    if "\\u" in text and not is_utf8(json.dumps(value, ensure_ascii=False)):
        raise ValueError("it escapes half a character")
    return value


def inspect_sidecars(
    uri: str,
    rows: Sequence[Mapping[str, Any]],
    options: layout.SourceOptions,
    kinds: Mapping[str, str],
    head_of: further_columns.FileHead = lambda _: None,
) -> tuple[LabelSchema, table_rows.LabelTable, tuple[str, ...]]:
    """Settles the columns by some samples.

    Args:
      uri: of all files, for messages.
      rows: the columns of each sample, with its name as `KEY_COLUMN`.
      options: the options given.
      kinds: column -> type name of `KIND_NAMES`, of columns whose type is known.
      head_of: looks at files that the columns name.

    Returns: the schema; the table that the samples are rows of; notes for the user.

    Raises:
      UsageError: the columns cannot be told.
    """
    names = {name for row in rows for name in row}
    choices = replace(
        options,
        key_column=KEY_COLUMN,
        label_column=options.label_column or CLASS_COLUMN * (CLASS_COLUMN in names),
        columns={**kinds, **options.columns},
        label_needed=CAPTION_COLUMN not in names,
    )
    schema, table, nested = inspect_rows(uri, rows, choices, options.columns, head_of)
    notes = [f"left out, since they are objects or lists of them: {', '.join(nested)}"]
    return schema, table, tuple(notes if nested else ())


def inspect_rows(
    uri: str,
    rows: Sequence[Mapping[str, Any]],
    choices: layout.SourceOptions,
    asked: Collection[str],
    head_of: further_columns.FileHead = lambda _: None,
) -> tuple[LabelSchema, table_rows.LabelTable, Sequence[str]]:
    """Settles the columns of rows of JSON that are in no table.

    Args:
      uri: where they are, for messages.
      rows: the first ones.
      choices: the options given, with all that is known of the columns.
      asked: columns whose kind the user gave, which may contain objects of JSON.
      head_of: looks at files that the columns name.

    Returns: the schema; the table that they are rows of; the columns that no feature can contain.

    Raises:
      UsageError: the columns cannot be told.
    """
    known = {OBJECTS_COLUMN, *asked}
    values = ((name, value) for row in rows for name, value in row.items() if _is_nested(value))
    nested = dict.fromkeys((name for name, _ in values if name not in known), SKIP_KIND)
    choices = replace(choices, columns={**choices.columns, **nested})
    numbered = table_rows.TableRows.of_fields(range(1, len(rows) + 1), rows)
    head = table_rows.TableHead(uri, b"", True, numbered)
    try:
        schema, (table,) = inspect_tables([head], choices, head_of)
    except LabelTableError as error:
        raise UsageError(f"--images {error}") from error
    return schema, table, list(nested)


def _is_nested(value: Any) -> bool:
    items = value if isinstance(value, list) else [value]
    return any(isinstance(item, (list, dict)) for item in items)
