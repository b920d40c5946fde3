"""The folder `.incomplete` in an output folder: what a run notes there until it ends."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import Annotated, Any

from beam_pipeline.core import errors, text, typed_json
from beam_pipeline.core.dataset import names
from beam_pipeline.core.dataset.manifest import MANIFEST_NAME, dump_json
from beam_pipeline.core.dataset.plan import Plan
from beam_pipeline.core.labels.classes import Classes
from beam_pipeline.core.records import formats, sharding
from beam_pipeline.core.report.side_files import SIDE_FILES
from beam_pipeline.storage import files

_refusals: dict[tuple[str, str], errors.Refusal] = {}
"""(output folder, job) -> the refusal of a job in this process."""

_OUR_NAMES = re.compile("|".join(file.pattern for file in SIDE_FILES))
_OUR_RECEIPTS = re.compile(rf"{re.escape(names.RECEIPTS_FOLDER)}/[^/]+\.json\.gz")


def is_ours(path: str) -> bool:
    """Tells whether a path in an output folder is one that a run gives to a file of a data set."""
    is_file = "/" not in path and (_OUR_NAMES.fullmatch(path) or formats.is_record_file(path))
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


@dataclass(frozen=True)
class _RefusalNote:
    """`refusal-....json`: why a job writes no data set."""

    error: str
    message: str
    ids: tuple[str, ...] = ()


def _write(folder: str, name: str, content: Any) -> None:
    files.write_bytes(files.join(folder, names.INCOMPLETE_FOLDER, name), dump_json(content))


def _read(kind: Any, folder: str, name: str) -> Any:
    """A note of a kind, as `decode` has it; None if there is none. Raises ConversionError."""
    uri = files.join(folder, names.INCOMPLETE_FOLDER, name)
    data = read_note_file(uri)
    if data is None:
        return None
    return typed_json.parse(kind, data, f"{uri} is damaged", "; remove it by hand")


def read_note_file(uri: str) -> bytes | None:
    """The content of a file; None if it does not exist. Raises ConversionError."""
    try:
        return files.read_if_there(uri)
    except OSError as error:
        raise errors.ConversionError(f"{uri} cannot be read: {error.strerror or error}") from error


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
    _write(folder, names.refusal_name(job), refusal._asdict())


def noted_refusal(folder: str, job: str = "") -> errors.ConversionError | None:
    """The error that a job in this folder noted when it ended, if it did; never another job's.

    A data set that was complete before the run still is, and its note is removed.
    """
    noted = _refusals.pop((folder, job), None)
    if noted is None:
        note: _RefusalNote | None = _read(_RefusalNote, folder, names.refusal_name(job))
        if note is None:
            return None
        noted = errors.Refusal(note.error, note.message, note.ids)
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
