"""Resolves what was typed: finds the layout, makes paths absolute, looks features up."""

from __future__ import annotations

import dataclasses
import os
import posixpath
import sys
from collections.abc import Iterable, Mapping, Sequence

from beam_pipeline.config import ConvertConfig
from beam_pipeline.core.dataset.manifest import LABELS_NAME, MANIFEST_NAME
from beam_pipeline.core.dataset.names import dataset_name
from beam_pipeline.core.dataset.plausibility import (
    FOLDER_NAMES,
    LabelChecks,
)
from beam_pipeline.core.errors import ConversionError, UsageError
from beam_pipeline.core.labels.classes import ClassNumbering
from beam_pipeline.core.labels.points import resize_questions
from beam_pipeline.core.labels.roles import SPLIT
from beam_pipeline.core.labels.row_samples import Crops
from beam_pipeline.core.labels.sample_filters import (
    Classes,
    Exclusion,
    KnownClasses,
    parse_class_list,
    parse_class_manifest,
)
from beam_pipeline.core.labels.schema import (
    ENCODED_KEY,
    MASK_KINDS,
    Column,
    ColumnKind,
    class_column,
)
from beam_pipeline.core.labels.unlabelled import KeepUnlabelled, WithoutObjects
from beam_pipeline.core.listing.folders import SPLIT_NAMES, split_paths
from beam_pipeline.core.listing.inventory import rows_in
from beam_pipeline.core.questions import Question, question_error
from beam_pipeline.core.records.example_source import LabelledImages
from beam_pipeline.core.records.features import feature_kinds
from beam_pipeline.core.text import counted, enumerated
from beam_pipeline.core.uris import is_remote
from beam_pipeline.layouts.label_files import LabelFileReader
from beam_pipeline.layouts.layout import (
    ContainerLabels,
    FileLabels,
    FolderLabels,
    Labels,
    Source,
)
from beam_pipeline.layouts.opening import open_source
from beam_pipeline.layouts.paths import label_files
from beam_pipeline.layouts.table import split_columns, split_files, with_splits_of_files
from beam_pipeline.layouts.tree import subfolders
from beam_pipeline.options import ConvertOptions
from beam_pipeline.reuse import with_reuse
from beam_pipeline.storage import files
from beam_pipeline.work.exclusion import read_exclusion

_STANDARD_INPUT = "standard input"
_INVENTORIES_ASKED = 32  # for their sizes

THE_LABEL = "label"
"""The name of the label in --features, whatever its column is called."""


def convert_config(options: ConvertOptions) -> tuple[ConvertConfig, str]:
    """Finds the layout and resolves paths, names and features.

    Returns: the configuration, and why this layout was chosen; empty if the user named it.

    Raises:
      UsageError: names the path or option that cannot be used, and why.
    """
    folder = output_folder(options.output.output)
    source, why = open_source(options.inputs.layout, options.source)
    if options.splits.by_label_file:
        source = with_splits_of_files(source)
    source, known = _with_known_classes(source, options)
    source = _with_unlabelled(source, options.labels.unlabelled)
    crops = _crops(source, options) if options.samples.crop_boxes else None
    if crops:
        examples = dataclasses.replace(_with_columns(source, crops.cropped), rows=True)
        source = dataclasses.replace(source, examples=examples)
    keep = _unlabelled(source) if options.labels.unlabelled == "keep" else None
    if keep:
        source = dataclasses.replace(source, examples=_with_columns(source, keep.columns))
    inventory = label_files(options.inputs.inventory, "--inventory")
    config = ConvertConfig(
        options=options,
        source=source,
        output=folder,
        name=options.output.name or dataset_name(folder),
        inventory=tuple(inventory),
        inventory_rows=_inventory_rows(inventory),
        renames=resolve_renames(options.output.features, source.columns),
        label_bytes=_label_bytes(source.labels),
        unlabelled=keep,
        crops=crops,
        known=known,
        exclusion=_exclusion(options.inputs.exclude),
        checks=_label_checks(source, options),
    )
    if options.output.reuse:
        config, note = with_reuse(config)
        noted = dataclasses.replace(source, notes=(*config.source.notes, note))
        config = dataclasses.replace(config, source=noted)
    return config, why


def _exclusion(path: str) -> Exclusion | None:
    """The keys that a file, or standard input, lists.

    Raises:
      UsageError: the file does not exist, or it cannot be used.
    """
    if not path:
        return None
    uri = _STANDARD_INPUT if path == "-" else files.canonical(path)
    try:
        data = sys.stdin.buffer.read() if path == "-" else files.read_bytes(uri)
    except OSError as error:
        raise UsageError(f"--exclude {path} cannot be read: {error.strerror or error}") from error
    return read_exclusion(data, uri)


def _with_unlabelled(source: Source, choice: str) -> Source:
    """The source with what images without a label row represent.

    Raises:
      UsageError: they are to be without objects, but labels are not of objects.
    """
    labels, columns = source.labels, source.columns
    if choice == "auto":
        return source
    of_objects = any(column.kind is ColumnKind.BOX for column in columns)
    if choice == "empty" and not (of_objects and isinstance(labels, FileLabels)):
        raise UsageError(
            f"--unlabelled empty means nothing for the layout {source.layout}, whose labels are not objects "
            "in label files; expected drop or keep"
        )
    if not isinstance(labels, FileLabels):
        return source
    if choice != "empty":
        return dataclasses.replace(source, labels=dataclasses.replace(labels, unnamed=None))
    if isinstance(labels.reader, LabelFileReader):
        return dataclasses.replace(
            source, labels=dataclasses.replace(labels, unnamed=labels.reader)
        )
    columns = tuple(dataclasses.replace(c, required=c.required and c.repeated) for c in columns)
    unnamed = WithoutObjects(tuple(() if column.repeated else None for column in columns))
    return dataclasses.replace(
        source,
        examples=_with_columns(source, columns),
        labels=dataclasses.replace(labels, unnamed=unnamed),
    )


def _unlabelled(source: Source) -> KeepUnlabelled:
    """The rule for images without labels.

    Raises:
      UsageError: there can be none.
    """
    if isinstance(source.labels, ContainerLabels):
        raise UsageError(
            f"--unlabelled keep means nothing for the layout {source.layout}: its images are in the "
            "same files as their labels; leave it out"
        )
    return KeepUnlabelled.of(source.columns)


def _has_masks(source: Source) -> bool:
    return any(column.kind in MASK_KINDS for column in source.columns)


def _crops(source: Source, options: ConvertOptions) -> Crops:
    """The rule that makes a sample of each object. Raises UsageError if there can be none."""
    if not any(column.kind is ColumnKind.BOX for column in source.columns):
        fault = f"needs boxes, and the labels of the layout {source.layout} have none; leave it out"
    elif options.labels.unlabelled == "keep":
        fault = "leaves out images without objects; leave out --unlabelled keep"
    else:
        return Crops(source.columns)
    raise UsageError(f"--crop_boxes {fault}")


def _with_columns(source: Source, columns: tuple[Column, ...]) -> LabelledImages:
    """The source's examples, with other label columns."""
    assert isinstance(source.examples, LabelledImages), source.examples
    return dataclasses.replace(source.examples, columns=columns)


def check_questions(config: ConvertConfig) -> None:
    """Stops a run whose layout makes an assumption that is not safe, unless --yes accepts it.

    Raises:
      QuestionError: tells what was found, and the command to run instead.
    """
    questions = _questions(config.source, config.options)
    if questions and not config.options.inputs.yes:
        raise question_error(questions, config.options)


def _questions(source: Source, options: ConvertOptions) -> tuple[Question, ...]:
    """What is not safe to assume of the labels, and of the changes to the images beside them."""
    moved: Iterable[Question] = ()
    if options.images.resize is not None:
        answered = bool(source.tables) and not any(c.kind is ColumnKind.BOX for c in source.columns)
        moved = resize_questions(source.columns, options.labels.columns, answered=answered)
    return (*source.questions, *moved)


def _label_checks(source: Source, options: ConvertOptions) -> LabelChecks:
    """The checks of classes whose names come from folders, or from one column."""
    labels, checked = options.labels, LabelChecks(known_from=options.labels.classes)
    index = class_column(source.columns)
    objects = any(column.kind is ColumnKind.BOX for column in source.columns)
    split_folders = _split_folders(source)
    checked = dataclasses.replace(
        checked,
        known_only=labels.classes_only,
        option="--masks" if _has_masks(source) else "--labels",
        assumed=options.inputs.yes,
        overridden=tuple(question.reason for question in _questions(source, options)),
        options=options,
        unseen=source.unseen,
        confirmed=options.inputs.layout == source.layout,
        folder=_only_folder(source, options),
        split_folders=split_folders,
        split_files={} if options.splits.splits else split_files(source),
        split_columns={} if options.splits.splits else split_columns(source),
        split_roots=() if options.splits.splits else split_paths(options.inputs.images),
        above_roots=_folder_above(options),
    )
    if index is None or objects or source.numbering.known:
        return checked
    if isinstance(source.labels, FolderLabels):
        where = "names of images" if source.labels.names else FOLDER_NAMES
        return dataclasses.replace(checked, where=where)
    if source.class_by_folder:
        return dataclasses.replace(checked, where=FOLDER_NAMES, confirmed=False, listed=True)
    if isinstance(source.labels, FileLabels):
        name = source.columns[index].name if source.tables else ""
        where = f"the column {name!r}" if name else "the label files"
        is_class = labels.class_ids == "keep" or name in labels.columns
        return dataclasses.replace(checked, where=where, column=name, confirmed=is_class)
    return checked


def _split_folders(source: Source) -> tuple[str, ...]:
    """The names of folders of images that are splits, if class folders are below them."""
    if not any(row.role.startswith(SPLIT) for row in source.roles):
        return ()
    names = (posixpath.basename(path) for root in source.roots for path in subfolders(root.uri))
    return tuple(dict.fromkeys(name for name in names if name.lower() in SPLIT_NAMES))


def _folder_above(options: ConvertOptions) -> str:
    """The folder that contains all paths of --images, if these are called as splits; else empty."""
    typed = options.inputs.images
    above = {posixpath.dirname(path.rstrip("/")) for path in typed}
    exact = all(posixpath.basename(path.rstrip("/")).lower() in SPLIT_NAMES for path in typed)
    if len(above) != 1 or not exact:
        return ""
    return above.pop() or "."


def _only_folder(source: Source, options: ConvertOptions) -> str:
    """The only path of --images, as typed; empty if there are several, or it is not a folder."""
    typed, roots = options.inputs.images, source.roots
    single = len(typed) == len(roots) == 1 and not (roots[0].archive or roots[0].patterns)
    return typed[0] if single else ""


def _with_known_classes(
    source: Source, options: ConvertOptions
) -> tuple[Source, KnownClasses | None]:
    """The source with the ids that --classes gives its classes.

    Raises:
      UsageError: the file cannot be used, or lacks classes.
    """
    typed = options.labels.classes
    if not typed:
        return source, None
    column = class_column(source.columns)
    masks = _has_masks(source)
    if column is None and not masks:
        raise UsageError(
            f"--classes means nothing for these labels of the layout {source.layout}: none is a class"
        )
    classes, note = read_classes(typed, source.columns, options.labels.label_base)
    base = classes[0][1]
    numbering = ClassNumbering(base, known=classes)
    if column is None:  # of masks, which are not opened: the names of their ids
        return dataclasses.replace(source, numbering=numbering, notes=(*source.notes, note)), None
    known = KnownClasses(tuple(name for name, _ in classes), column, typed)
    return dataclasses.replace(source, numbering=numbering, notes=(*source.notes, note)), known


def read_classes(
    path: str, columns: Sequence[Column], base: int | None = None
) -> tuple[Classes, str]:
    """Reads the classes that --classes names.

    A `labels.txt` beside the manifest of its data set is read from that manifest, which tells whether
    ids begin at 0 or 1.

    Args:
      path: a list, a manifest, or the folder of an earlier data set, as typed.
      columns: the label columns. A list counts from 1 if there are objects.
      base: the id of a list's first line, if the user gave one.

    Returns: the classes, and a sentence that tells where they come from.

    Raises:
      UsageError: the file does not exist, or it cannot be used.
    """
    uri = files.canonical(path)
    folder, name = posixpath.split(uri)
    is_list = posixpath.splitext(name)[1].lower() not in ("", ".json")
    if is_list:
        manifest = files.join(folder, MANIFEST_NAME) if name == LABELS_NAME else ""
    else:
        manifest = uri if name.lower().endswith(".json") else files.join(uri, MANIFEST_NAME)
    if not is_remote(uri) and os.path.isfile(uri) and not name.lower().endswith(".json"):
        is_list = True  # whatever its name
        manifest = manifest if name == LABELS_NAME else ""
    data = _read(manifest, path, required=not is_list) if manifest else None
    if data is not None:
        if base is not None:
            raise UsageError(
                f"--label_base means nothing with --classes {path}: {manifest} has the ids"
            )
        classes = parse_class_manifest(data, manifest)
        return classes, _classes_note(manifest, classes)
    objects = any(column.kind is ColumnKind.BOX for column in columns)
    listed = _read(uri, path, required=True)
    assert listed is not None
    classes = parse_class_list(listed, uri, int(objects) if base is None else base)
    return classes, _classes_note(uri, classes)


def _classes_note(uri: str, classes: Classes) -> str:
    names = enumerated([f"{i} {name}" for name, i in classes], 5)
    return f"{counted(len(classes), 'class/classes')} and their ids are those of {uri}: {names}"


def _read(uri: str, typed: str, *, required: bool) -> bytes | None:
    try:
        data = files.read_if_there(uri)
    except OSError as error:
        raise UsageError(f"--classes {typed} cannot be read: {error.strerror or error}") from error
    if data is None and required:
        raise UsageError(f"--classes {typed}: no file {uri}")
    return data


def _label_bytes(labels: Labels) -> int | None:
    """Total size of label files that are known by name; None where it cannot be read."""
    if not isinstance(labels, FileLabels) or not labels.files:
        return None
    try:
        return sum(max(0, files.size_of(uri)) for uri in labels.files)
    except (OSError, ConversionError):
        return (
            None  # metadata may be forbidden where reading is allowed; if not, the job reports it
        )


def _inventory_rows(inventory: Sequence[str]) -> int:
    """About how many rows inventories have, 0 if unknown; of many, some represent all, as each size is a request."""
    asked = inventory[:: -(-len(inventory) // _INVENTORIES_ASKED) or 1]
    try:
        sizes = {uri: max(0, files.size_of(uri)) for uri in asked}
    except (OSError, ConversionError):
        return 0  # as for label files
    return rows_in(sizes) * len(inventory) // max(1, len(asked))


def output_folder(output: str) -> str:
    """The output folder, absolute.

    Raises:
      UsageError: it is a file.
    """
    if not output.strip():
        raise UsageError("--output is empty")
    folder = files.canonical(output)
    if not is_remote(folder) and os.path.lexists(folder) and not os.path.isdir(folder):
        raise UsageError(f"--output {output} is a file; expected a folder, made if missing")
    return folder


def check_buckets(config: ConvertConfig, *, writes: bool) -> None:
    """Checks credentials and access to the image folders before a job starts.

    `prepare_output` checks the output folder.

    Args:
      config: the job.
      writes: False for a job that leaves the output folder alone.

    Raises:
      ConversionError: names what is missing, and the bucket.
    """
    files.check_credentials(config.uris if writes else config.source.uris)
    for root in config.source.roots:
        files.check_readable(root.uri)


def resolve_renames(wanted: Mapping[str, str], columns: Sequence[Column]) -> dict[str, str]:
    """Resolves --features to written key -> standard key.

    Args:
      wanted: written key -> standard key, name of a column, or "label".
      columns: the label columns.

    Raises:
      UsageError: the feature does not exist, or nothing would contain the image or the label.
    """
    standard = feature_kinds(columns)
    by_name = {column.name: column.feature_keys[0] for column in columns if column.feature}
    index = class_column(columns)
    label = columns[index].feature_keys[0] if index is not None else "image/label"
    by_name.setdefault(THE_LABEL, label)
    renames = {}
    for written, source in wanted.items():
        key = source if source in standard else by_name.get(source, "")
        if key not in standard:
            raise UsageError(
                f"--features {written}={source}: there is no feature or column {source!r}; the features "
                f"are {', '.join(standard)}"
            )
        renames[written] = key
    for key in (ENCODED_KEY, label):
        if key in renames and key not in renames.values():
            content = "image" if key == ENCODED_KEY else "label"
            raise UsageError(
                f"--features {key}={wanted[key]}: the {content} would be left out; "
                f"give it another key as well, such as my/{content}={key}"
            )
    twice = [key for key in renames.values() if list(renames.values()).count(key) > 1]
    if twice:
        raise UsageError(f"--features writes {twice[0]} twice; give it one key")
    return renames
