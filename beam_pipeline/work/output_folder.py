"""The output folder: the notes of a run in `.incomplete`, what an earlier run left, and what this one may remove."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Annotated, Any

from beam_pipeline.core import errors, text, typed_json
from beam_pipeline.core.dataset import changes, names
from beam_pipeline.core.dataset.manifest import MANIFEST_NAME, Manifest, dump_json, parse_manifest
from beam_pipeline.core.dataset.plan import Plan
from beam_pipeline.core.dataset.receipts import parse_receipt, receipt_name
from beam_pipeline.core.images.preparation import other_codec
from beam_pipeline.core.labels.classes import Classes
from beam_pipeline.core.records import formats, sharding
from beam_pipeline.core.records.features import ORIENTATION
from beam_pipeline.core.report import contents, side_files
from beam_pipeline.storage import files
from beam_pipeline.work.receipts import read_note_file, receipts_there, without_receipt

_refusals: dict[tuple[str, str], errors.Refusal] = {}
"""(output folder, job) -> the refusal of a job in this process."""

_OUR_NAMES = re.compile("|".join(file.pattern for file in side_files.SIDE_FILES))
_OUR_RECEIPTS = re.compile(rf"{re.escape(names.RECEIPTS_FOLDER)}/[^/]+\.json\.gz")


def is_ours(path: str) -> bool:
    """Tells whether a path in an output folder is one that a run gives to a file of a data set."""
    is_file = "/" not in path and (_OUR_NAMES.fullmatch(path) or formats.format_of_file(path))
    return bool(is_file) or _OUR_RECEIPTS.fullmatch(path) is not None


_Names = tuple[Annotated[str, typed_json.Expect(is_ours, "a file of a data set")], ...]
"""`writing.json` and `deleting.json`: paths that a run gives to its files, and no others."""


def unpacking_folder(folder: str) -> str:
    """A folder for files that a run needs until it ends; every worker can read it."""
    return files.join(folder, names.INCOMPLETE_FOLDER, names.UNPACKED_FOLDER)


def delete_incomplete(folder: str) -> None:
    """Deletes a run's own files in `.incomplete`, and the folder if it is empty then.

    What cannot be deleted stays: the data set beside it is whole.
    """
    with contextlib.suppress(OSError):
        delete_in_incomplete(folder)


def delete_in_incomplete(folder: str, keep: Set[str] = frozenset()) -> None:
    """Deletes a run's own files in `.incomplete` but some, and the folder if it is empty then."""
    inside = files.join(folder, names.INCOMPLETE_FOLDER)
    files.delete_folder(unpacking_folder(folder))
    ours = {name for name in files.list_folder(inside) if names.is_ours_in_incomplete(name)}
    files.delete(inside, sorted(ours - keep))
    files.remove_folder(inside)


@dataclass(frozen=True)
class EarlierRun:
    """An earlier run, complete or not.

    Attributes:
      shard_plan: the shards that it wrote or was about to write.
      run: its name, seed, options and features, like in the manifest.
      complete: it ended with a manifest.
      classes: (name, id) of its classes, in order of id, if it is complete.
    """

    shard_plan: sharding.ShardPlan
    run: Mapping[str, Any]
    complete: bool
    classes: Classes = ()


@dataclass(frozen=True, kw_only=True)
class _Note:
    """`plan.json`: the shards of a run that has not finished."""

    name: str
    shards: tuple[tuple[str, int], ...]
    compression: str
    record_format: str = formats.DEFAULT_FORMAT
    run: Mapping[str, Any] = field(default_factory=dict)


def _write(folder: str, name: str, content: Any) -> None:
    files.write_bytes(files.join(folder, names.INCOMPLETE_FOLDER, name), dump_json(content))


def _read(kind: Any, folder: str, name: str) -> Any:
    """A note of a kind, as `decode` has it; None if there is none. Raises ConversionError."""
    uri = files.join(folder, names.INCOMPLETE_FOLDER, name)
    if (data := read_note_file(uri)) is None:
        return None
    return typed_json.parse(kind, data, f"{uri} is damaged", "; remove it by hand")


def write_note(folder: str, plan: Plan, run: Mapping[str, Any]) -> None:
    """Notes which shards are about to be written, in a file of the same bytes for the same plan."""
    shards, written = plan.shard_plan.shards, formats.format_options(plan.shard_plan.record_format)
    note = {"name": plan.shard_plan.name, "shards": shards, **written, "run": run}
    _write(folder, names.NOTE_NAME, note)


def read_note(folder: str) -> EarlierRun | None:
    """The unfinished run in this folder; None without one. Raises ConversionError."""
    note: _Note | None = _read(_Note, folder, names.NOTE_NAME)
    if note is None:
        return None
    try:
        shard_plan = sharding.ShardPlan(note.name, note.shards, formats.recorded_format(vars(note)))
        if any(not is_ours(spec.file_name) for spec in shard_plan.specs):
            raise ValueError(f"its name is {text.excerpt(shard_plan.name)}")
    except (ValueError, errors.UsageError) as error:  # or a format that this version does not know
        uri = files.join(folder, names.INCOMPLETE_FOLDER, names.NOTE_NAME)
        raise errors.ConversionError(f"{uri} is damaged ({error}); remove it by hand") from error
    return EarlierRun(shard_plan, note.run, complete=False)


def note_refusal(folder: str, refusal: errors.Refusal, job: str = "") -> None:
    """Notes the reason why the data set is incomplete.

    A full disk has no room for the note either. A launcher in the same process still hears of it.

    Args:
      folder: the output folder.
      refusal: the reason.
      job: the job, as `FailurePolicy.job` has it.

    Raises:
      OSError: it cannot be noted.
    """
    _refusals[folder, job] = refusal
    _write(folder, names.refusal_name(job), refusal)


def noted_refusal(folder: str, job: str = "") -> errors.ConversionError | None:
    """The error that a job in this folder noted when it ended, if it did; never another job's.

    A data set that was complete before the run still is, and its note is removed.
    """
    noted = _refusals.pop((folder, job), None)
    noted = noted or _read(errors.Refusal, folder, names.refusal_name(job))
    if noted is None:
        return None
    if files.exists(files.join(folder, MANIFEST_NAME)):
        delete_incomplete(folder)
    return noted.to_error()


def note_names(folder: str, note: str, paths: Iterable[str]) -> None:
    """Notes the names of files that are about to be written or deleted.

    Args:
      folder: the output folder.
      note: `WRITING_NAME` or `DELETING_NAME`.
      paths: in the folder.
    """
    _write(folder, note, sorted(paths))


def noted_names(folder: str, note: str = names.WRITING_NAME) -> set[str]:
    """The names in a note; only names that a run gives to its files, whatever the note contains.

    Raises:
      ConversionError: the note is damaged.
    """
    return set(_read(_Names, folder, note) or ())


# --- between runs ---------------------------------------------------------------------------------


def earlier_manifest(folder: str) -> Manifest | None:
    """The manifest of a complete data set, or None."""
    uri = files.join(folder, MANIFEST_NAME)
    data = read_note_file(uri)
    return None if data is None else parse_manifest(data, uri)


def read_earlier(folder: str) -> EarlierRun | None:
    """The earlier run of this folder, complete or not; None if there was none."""
    manifest = earlier_manifest(folder)
    if manifest is None:
        return read_note(folder)
    shard_plan = sharding.ShardPlan(
        manifest.name,
        tuple((split, len(entry.shards)) for split, entry in sorted(manifest.splits.items())),
        manifest.record_format,
    )
    run = {key: manifest.content[key] for key in ("name", "seed", "options", "features")}
    classes = sorted(((entry.name, entry.id) for entry in manifest.classes), key=itemgetter(1))
    return EarlierRun(shard_plan, run, complete=True, classes=tuple(classes))


def check_no_links(folder: str) -> None:
    """Checks that the folders inside an output folder are its own, so that what is in them may be deleted.

    Raises:
      OutputNotEmptyError: one of them is a link.
    """
    for name in (names.INCOMPLETE_FOLDER, names.RECEIPTS_FOLDER):
        uri = files.join(folder, name)
        if os.path.islink(uri):
            raise errors.OutputNotEmptyError(
                f"{uri} is a link, and files behind it may not belong to this data set. Move it away"
            )


def prepare_output(folder: str, overwrite: bool) -> None:
    """Checks that a run may write here, and with `overwrite` removes the files of an earlier run.

    Those are the files that its manifest lists or, if it did not finish, its notes, and shards that their
    receipts describe. All other files stay; one that this run could overwrite is an error even with `overwrite`.

    A process that is killed in here leaves a note of what it was about to delete, and the next run
    with `--overwrite` or `--resume` continues from there.

    Raises:
      OutputNotEmptyError: other files are in the way, and which.
      AnotherJobError: another job completed a data set there while this one deleted the earlier.
      BucketError: the folder is in a bucket that does not exist or cannot be written to.
      OSError: a file cannot be deleted.
    """
    check_no_links(folder)
    receipts = receipts_there(folder)  # before their shards, see `_delete_earlier`
    paths = set(files.list_folder(folder))
    if paths and not overwrite and not _is_left_by_refusal(folder, paths):
        first = ", ".join(sorted(paths)[:3]) + (", ..." if len(paths) > 3 else "")
        unfinished = any(name.split("/")[0] == names.INCOMPLETE_FOLDER for name in paths)
        unfinished_run = "an earlier run that did not finish"
        there = unfinished_run if unfinished else text.counted(len(paths), "file")
        raise errors.OutputNotEmptyError(
            f"--output {folder} is not empty: it contains {there} ({first}). Choose another folder, or "
            f"use {'--resume to continue it, or ' if unfinished else ''}--overwrite to replace the "
            "data set that an earlier run wrote there"
        )
    try:
        earlier = _earlier_files(folder, paths)
    except errors.ConversionError as error:
        raise errors.OutputNotEmptyError(
            f"--overwrite: {error}. Nothing was deleted; choose another folder, or empty this one by hand"
        ) from error
    unlisted = set(filter(is_ours, receipts)) - earlier
    earlier |= _proved_by_receipts(folder, unlisted)
    strangers = sorted(_strangers(paths, earlier) | (unlisted - earlier))
    if strangers:
        raise errors.OutputNotEmptyError(
            f"--output {folder} contains {strangers[0]}, which no manifest there lists, so "
            "--overwrite will not touch it. Move it away or choose another folder"
        )
    files.prepare_folder(folder)
    _delete_earlier(folder, receipts | paths, earlier)


def prepare_resume(folder: str, run: Mapping[str, Any], open_options: Collection[str] = ()) -> None:
    """Checks that a run may continue an earlier one, and removes unfinished files of the latter.

    Where `--overwrite` was interrupted while it deleted files, the rest is deleted, and the run is a
    first one.

    Args:
      folder: the output folder.
      run: what this run records.
      open_options: options that the plan settles later, and then compares.

    Raises:
      OutputNotEmptyError: the folder contains no run that could be continued.
      ChangedInputsError: the earlier run had other options, and which.
      OSError: a file cannot be deleted.
    """
    check_no_links(folder)
    paths = receipts_there(folder) | set(files.list_folder(folder))
    if noted_names(folder, names.DELETING_NAME) and MANIFEST_NAME not in paths:
        _delete_earlier(folder, paths, _earlier_files(folder, paths))
        paths = set(files.list_folder(folder))
    earlier = read_earlier(folder)
    if earlier is None or not earlier.complete:
        strangers = sorted(_strangers(paths, _earlier_files(folder, paths)))
        if strangers:
            known = "neither a manifest nor the note of a run that began here"
            raise errors.OutputNotEmptyError(
                f"--resume: --output {folder} contains {strangers[0]}, but "
                f"{known if earlier is None else 'the run that began here did not write it'}. "
                "Move it away or choose another folder"
            )
    if earlier is None:
        files.prepare_folder(folder)
        return
    then, now = (without_options(recorded, open_options) for recorded in (earlier.run, run))
    codecs = [recorded["options"].get("codec", "") for recorded in (then, now)]
    if all(codecs) and codecs[0] != codecs[1]:
        raise errors.CodecError(f"--resume: in {folder}, {other_codec(*codecs)}")
    changed = changes.option_differences(then, now)
    if changed:
        raise errors.ChangedInputsError(
            f"--resume: {folder} was written with other options: {'; '.join(changed)}. Give the "
            "same again, or convert again with --overwrite"
        )
    if earlier.complete:
        missing = without_receipt(folder, earlier.shard_plan)
        if missing:
            raise errors.OutputNotEmptyError(
                f"--resume: {folder} has no receipt {missing[0]}, so it cannot be told what its shard was "
                "made of. Convert again with --overwrite"
            )
    delete_in_incomplete(folder, keep={names.NOTE_NAME, names.WRITING_NAME})


def check_unwritten(folder: str, shard_plan: sharding.ShardPlan, *, retries: bool) -> None:
    """Checks, within a job, that its shards do not mix with another run's.

    A launcher has prepared the folder with `prepare_output`. A pipeline without one learns of an earlier
    run here, before its first shard.

    Args:
      folder: the output folder.
      shard_plan: the shards that are about to be written.
      retries: the engine may run this again, when shards of this plan are there already.

    Raises:
      OutputNotEmptyError: it contains shards or a manifest of another run.
      ConversionError: it cannot be read.
    """
    paths = set(files.list_folder(folder))
    earlier = read_earlier(folder)
    if earlier and earlier.shard_plan == shard_plan and (retries or not earlier.complete):
        return
    noted = {spec.file_name for spec in earlier.shard_plan.specs} if earlier else set()
    own = noted_names(folder) | ({names.DEAD_LETTERS_NAME} if earlier else set())
    in_the_way = paths & {MANIFEST_NAME, *noted} or _strangers(paths, own)
    if in_the_way:
        raise errors.OutputNotEmptyError(
            f"{folder} contains {min(in_the_way)} of another run, and nothing was written. Choose another "
            "folder, or remove that data set"
        )


def without_options(run: Mapping[str, Any], option_names: Collection[str]) -> Mapping[str, Any]:
    """The record of a run, without options, and without the feature that depends on the images."""
    options = {k: v for k, v in run.get("options", {}).items() if k not in option_names}
    features = {k: v for k, v in run.get("features", {}).items() if k != ORIENTATION.key}
    return {**run, "options": options, "features": features}


def clean_up_refused(folder: str) -> None:
    """Removes what a failed run has left, if it wrote no shard, so that it can be started again.

    Its dead letters stay, with a note that they may be replaced.
    """
    paths = set(files.list_folder(folder))
    unfinished = read_note(folder)
    shards = {spec.file_name for spec in unfinished.shard_plan.specs} if unfinished else set()
    receipts = any(map(is_ours, receipts_there(folder)))
    if MANIFEST_NAME in paths or paths & shards or receipts:
        return
    letters = paths & {names.DEAD_LETTERS_NAME} & _earlier_files(folder, paths)
    if paths & noted_names(folder) - letters:  # a job lost its shards to another at the end
        return
    if letters and not files.size_of(files.join(folder, names.DEAD_LETTERS_NAME)):
        files.delete(folder, sorted(letters))
        letters = set()
    if letters:
        note_names(folder, names.WRITING_NAME, letters)
    delete_in_incomplete(folder, keep={names.WRITING_NAME} if letters else set())


def _is_left_by_refusal(folder: str, paths: set[str]) -> bool:
    """Tells whether a folder contains nothing but what `clean_up_refused` leaves."""
    dead_letters = paths & {names.DEAD_LETTERS_NAME}
    folders = {name.split("/")[0] for name in paths - dead_letters}
    inside = files.list_folder(files.join(folder, names.INCOMPLETE_FOLDER))
    has_one_note = folders <= {names.INCOMPLETE_FOLDER} and inside == [names.WRITING_NAME]
    return has_one_note and noted_names(folder) == dead_letters


def file_versions(folder: str) -> dict[str, int]:
    """The version of each file of a complete data set, to see later which were written again.

    Empty if the data set is incomplete: no manifest, or a shard is missing or of another length.
    """
    if not (manifest := earlier_manifest(folder)):
        return {}
    there = files.files_in(folder)
    sizes = {name: file.size for name, file in there.items()}
    is_whole = all(sizes.get(shard.path) == shard.bytes for shard in manifest.shards)
    return {name: file.version for name, file in there.items()} if is_whole else {}


def _earlier_files(folder: str, paths: Collection[str]) -> set[str]:
    """Paths in the folder of all files that an earlier run has written, or was about to write.

    Args:
      folder: the output folder.
      paths: the files in it.

    Raises:
      ConversionError: its manifest or a note cannot be read.
    """
    noted = noted_names(folder, names.DELETING_NAME) | noted_names(folder)
    earlier = {name for name in noted if not side_files.gives_way(name)}
    unfinished, manifest = read_note(folder), earlier_manifest(folder)
    shards = [shard.path for shard in manifest.shards] if manifest else []
    unsure = [p for p in paths if manifest or (p in noted and side_files.gives_way(p))]
    unsure += [names.DEAD_LETTERS_NAME] if unfinished else []
    earlier.update(name for name in unsure if _is_side_file(folder, name, manifest))
    if unfinished:
        shards += [spec.file_name for spec in unfinished.shard_plan.specs]
    earlier.update(shards, (formats.format_of(shard).index_name(shard) for shard in shards))
    earlier.update(map(receipt_name, shards))
    return earlier


def _is_side_file(folder: str, name: str, manifest: Manifest | None) -> bool:
    """True for a file beside the shards that a run wrote and that was not replaced since."""
    entry = side_files.side_file(name)
    if entry is None or entry.is_ours is None:
        return entry is not None
    with contextlib.suppress(errors.ConversionError, OSError):
        if name == names.DEAD_LETTERS_NAME:  # of any length
            content = next(read_dead_letters(folder, bytes), b"")
        else:
            content = read_note_file(files.join(folder, name))
        return content is not None and entry.is_ours(manifest, name, content)
    return False


def is_somebody_elses(folder: str, name: str) -> bool:
    """True for a file that a run leaves alone, instead of writing its own of that name."""
    return side_files.gives_way(name) and not _is_side_file(folder, name, None)


_EDITED = (
    "is not as it was written: damaged or edited. If the change is yours, remove the seal, the line or "
    "value with beam-tfrecord and a long number"
)


def spoilt_side_files(folder: str, manifest: Manifest) -> Iterator[tuple[str, str]]:
    """Yields the name and the fault of each file beside the shards that is not as a run wrote it.

    A file with a seal may have been changed by hand, and is somebody's own without its seal. The others
    are what the manifest determines.

    Raises:
      OSError: a file cannot be read.
    """
    try:
        expected = dict(side_files.files_from_manifest(manifest, card=True))
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        yield MANIFEST_NAME, f"does not determine the files beside the shards: {error!r}"
        return
    for name, content in {**expected, names.REPORT_NAME: b""}.items():
        data = files.read_if_there(files.join(folder, name))
        if name == names.REPORT_NAME or side_files.gives_way(name):
            ours = data and (contents.has_seal(data) or len(data) == len(content))
            if data and ours and not _is_side_file(folder, name, manifest):
                yield name, _EDITED
        elif data is None:
            yield name, "is missing; `beam-tfrecord repair` writes it again"
        elif data != content:
            yield name, "is not as in the manifest; `beam-tfrecord repair` writes it again"


def write_side_file(folder: str, name: str, manifest: Manifest) -> bool:
    """Writes a file that the manifest determines, without a seal; returns False for any other."""
    content = dict(side_files.files_from_manifest(manifest, card=False)).get(name)
    if content is None or side_files.gives_way(name):
        return False
    files.write_bytes(files.join(folder, name), content)
    return True


def _strangers(paths: Iterable[str], earlier: set[str]) -> set[str]:
    """Files with names that a run could overwrite, although no earlier run has written them."""
    ours = {name for name in paths if "/" not in name and is_ours(name)}
    return {name for name in ours - earlier if not side_files.gives_way(name)}


def _proved_by_receipts(folder: str, receipts: Iterable[str]) -> set[str]:
    """Receipts that no manifest or note lists, and their shards: what they describe, byte for byte.

    In a bucket, a job that loses leaves them where another one deleted its notes meanwhile.
    """
    proved = set()
    for name in receipts:
        uri = files.join(folder, name)
        with contextlib.suppress(errors.ConversionError):
            receipt = parse_receipt(read_note_file(uri) or b"", uri)
            shard, info = receipt.inputs.spec.file_name, receipt.info
            if receipt_name(shard) == name:
                proved.add(name)
                if files.holds(files.join(folder, shard), info.bytes, info.crc32c):
                    proved.add(shard)
    return proved


def _delete_earlier(folder: str, paths: set[str], earlier: set[str]) -> None:
    """Deletes the files of an earlier run, in an order that allows interruption anywhere.

    First comes a note of all that goes, then the manifest: from there on, the folder contains no complete
    data set. The note itself goes last.

    In a bucket, the earlier run may be a job that is still writing. So receipts were listed before the
    other names, and no shard that stays loses its receipt; and notes that the job writes after the look
    for its manifest stay.
    """
    present = earlier & paths
    receipts = {name for name in present if name.startswith(f"{names.RECEIPTS_FOLDER}/")}
    if present:
        note_names(folder, names.DELETING_NAME, present)
    files.delete(folder, [MANIFEST_NAME] if MANIFEST_NAME in present else [])
    files.delete(folder, sorted(present - receipts - {MANIFEST_NAME}))
    files.delete(folder, sorted(receipts))
    files.remove_folder(files.join(folder, names.RECEIPTS_FOLDER))
    delete_in_incomplete(folder, keep={names.DELETING_NAME})
    _delete_files_of_another(folder)
    inside = files.join(folder, names.INCOMPLETE_FOLDER)
    files.delete(inside, [names.DELETING_NAME])
    files.remove_folder(inside)


def _delete_files_of_another(folder: str) -> None:
    """Deletes a manifest that another job wrote while its shards were being deleted, and what is beside it.

    Raises:
      AnotherJobError: its shards are all there.
    """
    manifest = earlier_manifest(folder)
    if manifest is None:
        return
    listed = {shard.path: (shard.bytes, shard.crc32c) for shard in manifest.shards}
    if files.altered(folder, listed):
        paths = receipts_there(folder) | set(files.list_folder(folder))
        _delete_earlier(folder, paths, _earlier_files(folder, paths))
        return
    raise errors.AnotherJobError(
        f"another job has just completed a data set in {folder}. Nothing of it was changed; choose "
        "another --output, or run this again to replace it"
    )


def read_dead_letters(folder: str, parse: Callable[[bytes], Any] = json.loads) -> Iterator[Any]:
    """The dead letters of a data set, each of its line. Raises OSError, or ValueError for one that is not JSON."""
    with files.open_input(files.join(folder, names.DEAD_LETTERS_NAME)) as file:
        yield from map(parse, file)
