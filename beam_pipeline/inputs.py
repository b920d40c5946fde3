"""Resolves what was typed: finds the layout, makes paths absolute, looks features up."""

from __future__ import annotations

import contextlib
import os
import posixpath
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from beam_pipeline.config import LATEST, SETTLED_BY_REUSE, ConvertConfig, check_fit, has_kind
from beam_pipeline.core.dataset.changes import option_differences
from beam_pipeline.core.dataset.names import LABELS_NAME, MANIFEST_NAME, dataset_name
from beam_pipeline.core.dataset.plausibility import FOLDER_NAMES, IMAGE_NAMES, LabelChecks
from beam_pipeline.core.errors import ConversionError, UsageError
from beam_pipeline.core.labels import classes, schema
from beam_pipeline.core.labels.further_columns import resize_questions
from beam_pipeline.core.labels.samples import Crops, KeepUnlabelled, WithoutObjects
from beam_pipeline.core.listing.folders import SPLIT_NAMES, split_paths
from beam_pipeline.core.listing.inventory import rows_in
from beam_pipeline.core.questions import Question, question_error
from beam_pipeline.core.records import example_source, features
from beam_pipeline.core.text import counted, enumerated
from beam_pipeline.core.uris import is_remote
from beam_pipeline.layouts import label_files, opening, paths, table
from beam_pipeline.layouts.layout import FileLabels, FolderLabels, Source
from beam_pipeline.layouts.roles import understanding
from beam_pipeline.layouts.tree import subfolders
from beam_pipeline.options import ConvertOptions
from beam_pipeline.options.group import LABEL_FILES
from beam_pipeline.storage import files
from beam_pipeline.terminal import say
from beam_pipeline.work.labels import read_exclusion
from beam_pipeline.work.output_folder import read_earlier, without_options
from beam_pipeline.work.receipts import EarlierDataSet, without_receipt

_BOX = schema.ColumnKind.BOX
_INVENTORIES_ASKED = 32  # for their sizes
_DERIVED = ("features.", "columns ")
"""Recorded values that follow from options and label files."""


def checked_config(
    options: ConvertOptions, *, writes: bool = True, shows: bool = False, **changes: Any
) -> ConvertConfig:
    """Resolves what was typed, and makes sure that a job can begin.

    Credentials and access to the image folders are checked here; `prepare_output` checks the output folder.

    Args:
      options: what was typed.
      writes: False for a job that leaves the output folder alone.
      shows: whether to print how the input was understood.
      **changes: fields of the result with other values.

    Raises:
      UsageError: an option cannot be used.
      QuestionError: a guess about the labels is not safe; tells the command to run instead.
      ConversionError: a bucket cannot be reached.
    """
    if not options.inputs.images:
        raise UsageError("--images is empty, expected a path or several")
    config, why = convert_config(options)
    config = replace(config, **changes)
    files.check_credentials(config.uris if writes else config.source.uris)
    for root in config.source.roots:
        files.check_readable(root.uri)
    if shows:
        with contextlib.suppress(BrokenPipeError):  # a conversion needs no reader
            say(*understanding(config.source, why))
    check_questions(config)
    return config


def convert_config(options: ConvertOptions) -> tuple[ConvertConfig, str]:
    """Finds the layout and resolves paths, names and features.

    Returns: the configuration, and why this layout was chosen; empty if the user named it.

    Raises:
      UsageError: names the path or option that cannot be used, and why.
    """
    folder = output_folder(options.output.output)
    source, why = opening.open_source(options.inputs.layout, options.source)
    check_fit(source, options)
    if options.splits.splits == LABEL_FILES:
        source = table.with_splits_of_files(source)
    source, known = _with_known_classes(source, options)
    source = _with_unlabelled(source, options.labels.unlabelled)
    crops = Crops(source.columns) if options.samples.crop_boxes else None
    keep = KeepUnlabelled.of(source.columns) if options.labels.unlabelled == "keep" else None
    if crops:
        source = _with_columns(source, crops.cropped, rows=True)
    if keep:
        source = _with_columns(source, keep.columns)
    inventory = tuple(paths.label_files(options.inputs.inventory, "--inventory"))
    asked = inventory[:: -(-len(inventory) // _INVENTORIES_ASKED) or 1]
    sizes = _sizes(source.labels.files if isinstance(source.labels, FileLabels) else ())
    config = ConvertConfig(
        options=options,
        source=source,
        output=folder,
        name=options.output.name or dataset_name(folder),
        inventory=inventory,
        # Of many, some represent all, as each size is a request.
        inventory_rows=rows_in(_sizes(asked)) * len(inventory) // max(1, len(asked)),
        renames=resolve_renames(options.output.features, source.columns),
        label_bytes=sum(sizes.values()) if sizes else None,
        unlabelled=keep,
        crops=crops,
        known=known,
        exclusion=_exclusion(options.inputs.exclude),
        checks=_label_checks(source, options),
    )
    return (_with_reuse(config) if options.output.reuse else config), why


def _exclusion(path: str) -> classes.Exclusion | None:
    """The keys that a file, or standard input, lists.

    Raises:
      UsageError: the file does not exist, or it cannot be used.
    """
    if not path:
        return None
    uri = "standard input" if path == "-" else files.canonical(path)
    with files.naming(f"--exclude {path}", UsageError):
        data = sys.stdin.buffer.read() if path == "-" else files.read_bytes(uri)
    return read_exclusion(data, uri)


def _with_unlabelled(source: Source, choice: str) -> Source:
    """The source with what images without a label row represent."""
    labels, columns = source.labels, source.columns
    if choice == "auto" or not isinstance(labels, FileLabels):
        return source
    unnamed: Any = labels.reader if choice == "empty" else None
    if choice == "empty" and not isinstance(unnamed, label_files.LabelFileReader):
        unnamed = WithoutObjects(tuple(() if column.repeated else None for column in columns))
        optional = (replace(c, required=c.required and c.repeated) for c in columns)
        source = _with_columns(source, tuple(optional))
    return replace(source, labels=replace(labels, unnamed=unnamed))


def _with_columns(source: Source, columns: tuple[schema.Column, ...], **changes: Any) -> Source:
    """The source with other label columns."""
    assert isinstance(source.examples, example_source.LabelledImages), source.examples
    return replace(source, examples=replace(source.examples, columns=columns, **changes))


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
        answered = bool(source.tables) and not has_kind(source.columns, _BOX)
        moved = resize_questions(source.columns, options.labels.columns, answered=answered)
    return (*source.questions, *moved)


def _label_checks(source: Source, options: ConvertOptions) -> LabelChecks:
    """The checks of classes whose names come from folders, or from one column."""
    labels, typed, undivided = options.labels, options.inputs.images, not options.splits.splits
    names = {posixpath.basename(path.rstrip("/")).lower() for path in typed}
    above = {posixpath.dirname(path.rstrip("/")) or "." for path in typed}
    roots = source.roots
    single = len(typed) == len(roots) == 1 and not (roots[0].archive or roots[0].patterns)
    checks = LabelChecks(
        known_from=labels.classes,
        known_only=labels.classes_only,
        option="--masks" if has_kind(source.columns, *schema.MASK_KINDS) else "--labels",
        assumed=options.inputs.yes,
        overridden=tuple(question.reason for question in _questions(source, options)),
        options=options,
        unseen=source.unseen,
        confirmed=options.inputs.layout == source.layout,
        folder=typed[0] if single else "",
        split_folders=_split_folders(source),
        split_files=table.split_files(source) if undivided else {},
        split_columns=table.split_columns(source) if undivided else {},
        split_roots=split_paths(typed) if undivided else (),
        above_roots=above.pop() if len(above) == 1 and names <= SPLIT_NAMES.keys() else "",
    )
    index = schema.class_column(source.columns)
    if index is None or has_kind(source.columns, _BOX) or source.numbering.known:
        return checks
    if isinstance(source.labels, FolderLabels):
        return replace(checks, where=IMAGE_NAMES if source.labels.names else FOLDER_NAMES)
    if source.class_by_folder:
        return replace(checks, where=FOLDER_NAMES, confirmed=False, listed=True)
    if isinstance(source.labels, FileLabels):
        name = source.columns[index].name if source.tables else ""
        where = f"the column {name!r}" if name else "the label files"
        is_class = labels.class_ids == "keep" or name in labels.columns
        return replace(checks, where=where, column=name, confirmed=is_class)
    return checks


def _split_folders(source: Source) -> tuple[str, ...]:
    """The names of folders of images that are splits where class folders are below them."""
    if not (isinstance(source.labels, FolderLabels) or source.class_by_folder):
        return ()
    names = (posixpath.basename(path) for root in source.roots for path in subfolders(root.uri))
    return tuple(dict.fromkeys(name for name in names if name.lower() in SPLIT_NAMES))


def _with_known_classes(
    source: Source, options: ConvertOptions
) -> tuple[Source, classes.KnownClasses | None]:
    """The source with the ids that --classes gives its classes.

    Raises:
      UsageError: the file cannot be used, or lacks classes.
    """
    typed = options.labels.classes
    if not typed:
        return source, None
    column = schema.class_column(source.columns)
    listed, note = read_classes(typed, source.columns, options.labels.label_base)
    numbering = classes.ClassNumbering(listed[0][1], known=listed)
    source = replace(source, numbering=numbering, notes=(*source.notes, note))
    if column is None:  # of masks, which are not opened: the names of their ids
        return source, None
    return source, classes.KnownClasses(tuple(name for name, _ in listed), column, typed)


def read_classes(
    path: str, columns: Sequence[schema.Column], base: int | None = None
) -> tuple[classes.Classes, str]:
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
    extension = posixpath.splitext(name)[1].lower()
    is_file = not is_remote(uri) and os.path.isfile(uri)  # then a list, whatever its name
    is_list = extension != ".json" and (bool(extension) or is_file)
    if not is_list:
        manifest = uri if extension == ".json" else files.join(uri, MANIFEST_NAME)
    else:
        manifest = files.join(folder, MANIFEST_NAME) if name == LABELS_NAME else ""
    source, data = manifest, _read(manifest, path, required=not is_list) if manifest else None
    if data is None:
        source, data = uri, _read(uri, path, required=True)
        first = int(has_kind(columns, _BOX)) if base is None else base
        listed = classes.parse_class_list(data or b"", uri, first)
    elif base is not None:
        raise UsageError(
            f"--label_base means nothing with --classes {path}: {manifest} has the ids"
        )
    else:
        listed = classes.parse_class_manifest(data, manifest)
    names = enumerated([f"{i} {name}" for name, i in listed], 5)
    count = counted(len(listed), "class/classes")
    return listed, f"{count} and their ids are those of {source}: {names}"


def _read(uri: str, typed: str, *, required: bool) -> bytes | None:
    with files.naming(f"--classes {typed}", UsageError):
        data = files.read_if_there(uri)
    if data is None and required:
        raise UsageError(f"--classes {typed}: no file {uri}")
    return data


def _sizes(uris: Iterable[str]) -> dict[str, int]:
    """The sizes of files; none if metadata is forbidden, where reading may be allowed: else the job reports it."""
    try:
        return {uri: max(0, files.size_of(uri)) for uri in uris}
    except (OSError, ConversionError):
        return {}


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


def resolve_renames(wanted: Mapping[str, str], columns: Sequence[schema.Column]) -> dict[str, str]:
    """Resolves --features to written key -> standard key.

    Args:
      wanted: written key -> standard key, name of a column, or "label".
      columns: the label columns.

    Raises:
      UsageError: the feature does not exist, or nothing would contain the image or the label.
    """
    standard = features.feature_kinds(columns)
    index = schema.class_column(columns)
    label = columns[index].feature_keys[0] if index is not None else "image/label"
    by_name = {column.name: column.feature_keys[0] for column in columns if column.feature}
    known = {"label": label, **by_name, **{key: key for key in standard}}
    renames = {}
    for written, source in wanted.items():
        key = known.get(source, "")
        if key not in standard:
            raise UsageError(
                f"--features {written}={source}: there is no feature or column {source!r}; the features "
                f"are {', '.join(standard)}"
            )
        renames[written] = key
    for key in (schema.ENCODED_KEY, label):
        if key in renames and key not in renames.values():
            content = "image" if key == schema.ENCODED_KEY else "label"
            raise UsageError(
                f"--features {key}={wanted[key]}: the {content} would be left out; "
                f"give it another key as well, such as my/{content}={key}"
            )
    twice = [key for key in renames.values() if list(renames.values()).count(key) > 1]
    if twice:
        raise UsageError(f"--features writes {twice[0]} twice; give it one key")
    return renames


# --- reuse ----------------------------------------------------------------------------------------


def _with_reuse(config: ConvertConfig) -> ConvertConfig:
    """The conversion with the data set that --reuse names, and a note on where shards come from.

    Raises:
      UsageError: the folder does not contain a complete data set with receipts, or one of other options.
      ConversionError: it cannot be read.
    """
    typed = config.options.output.reuse
    above = files.canonical(typed.removeprefix(LATEST))
    folder = _latest_in(above, config) if typed.startswith(LATEST) else above
    if folder == config.output:
        raise UsageError(
            f"--reuse {typed} is the output folder; name an earlier data set, and another --output"
        )
    note = f"{above} does not contain a complete data set yet, so every shard is written"
    if folder:
        config = replace(config, earlier=_opened(folder, config))
        note = f"unchanged shards are those of {folder}"
    return replace(config, source=replace(config.source, notes=(*config.source.notes, note)))


def _latest_in(folder: str, config: ConvertConfig) -> str:
    """The newest complete data set in a folder, by the time of its manifest, or empty; the output does not count."""
    versions = []
    with files.naming(f"--reuse {LATEST}{folder}"):
        for name in files.list_folder(folder):  # in buckets, paths of all files
            if is_remote(folder) and not name.endswith(f"/{MANIFEST_NAME}"):
                continue
            uri = files.join(folder, name.removesuffix(f"/{MANIFEST_NAME}"))
            manifest = files.join(uri, MANIFEST_NAME)
            if uri != config.output and (is_remote(folder) or files.exists(manifest)):
                versions.append((files.changed_at(manifest), uri))
    return max(versions, default=(0, ""))[1]


def _opened(folder: str, config: ConvertConfig) -> EarlierDataSet:
    """The data set whose shards are reused. Raises UsageError or ConversionError if it cannot be."""
    try:
        run = read_earlier(folder)
        missing = without_receipt(folder, run.shard_plan) if run else []
    except (ConversionError, OSError) as error:
        raise UsageError(f"--reuse {folder}: {error}") from error
    if run is None or not run.complete:
        raise UsageError(
            f"--reuse {folder}: there is no {MANIFEST_NAME}, so the folder does not contain a complete data set"
        )
    then, now = (
        {**without_options(recorded, SETTLED_BY_REUSE), "name": ""}
        for recorded in (run.run, config.run)
    )
    changed = [text.removeprefix("options.") for text in option_differences(then, now)]
    # Another layout has other columns and so other features: naming the layout is enough.
    changed = [text for text in changed if not text.startswith(_DERIVED)] or changed
    if changed:
        raise UsageError(
            f"--reuse {folder}: that data set was written with other options, so none of its shards "
            f"would be the same: {'; '.join(changed)}. Give the same options, or leave --reuse out"
        )
    if missing:
        raise UsageError(
            f"--reuse {folder}: {len(missing)} of {len(run.shard_plan.specs)} shards lack a receipt (the first is "
            f"{missing[0]}), so it cannot be told what they were made of; leave --reuse out"
        )
    kept, encoding = () if config.known else run.classes, config.encoding
    return EarlierDataSet(folder, run.shard_plan, kept, encoding.seed, encoding.by_image)
