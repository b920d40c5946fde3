"""Writes the files beside the shards, and last the manifest, or notes why there is none."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from beam_pipeline.core.card.side_files import files_from_manifest, gives_way
from beam_pipeline.core.dataset.changes import (
    CHANGES_NAME,
    ShardFate,
    changes_file,
    option_differences,
    with_settled,
)
from beam_pipeline.core.dataset.duplicates import DUPLICATES_NAME, NO_DUPLICATES, Duplicates
from beam_pipeline.core.dataset.manifest import (
    CHECKSUM_ENTRY,
    LINES_ENTRY,
    MANIFEST_NAME,
    DeadLetterFiles,
    Manifest,
    Recorded,
    build_manifest,
    crc32c_text,
    dump_json,
    manifest_file,
    parse_manifest,
)
from beam_pipeline.core.dataset.names import (
    MOST_IN_ONE,
    REPORT_NAME,
    WRITING_NAME,
    dead_letter_names,
    parts_for,
)
from beam_pipeline.core.dataset.plan import Plan
from beam_pipeline.core.dataset.refusals import (
    accounting_error,
    all_filtered,
    too_many_bad,
)
from beam_pipeline.core.dataset.tally import Tally, Totals
from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.errors import (
    AnotherJobError,
    ChangedInputsError,
    CodecError,
    ConversionError,
    LostSamplesError,
    OutputError,
    OutputNotEmptyError,
    QuestionError,
)
from beam_pipeline.core.failures import FailurePolicy, Refusal, refusal_order
from beam_pipeline.core.labels.schema import (
    Column,
    ColumnKind,
    class_column,
    file_columns,
)
from beam_pipeline.core.records.alteration import Event
from beam_pipeline.core.records.sharding import ImageFigures, ShardInfo
from beam_pipeline.storage import files
from beam_pipeline.transforms.batches import DeadLetterBatch
from beam_pipeline.transforms.dead_letters import WrittenPart, write_lines, write_parts
from beam_pipeline.work.earlier_data_set import EarlierDataSet
from beam_pipeline.work.encoding import EncodingOptions
from beam_pipeline.work.incomplete_folder import (
    delete_incomplete,
    note_names,
    note_refusal,
    noted_names,
    read_note,
)
from beam_pipeline.work.output_folder import (
    delete_dead_letters,
    earlier_manifest,
    is_somebody_elses,
)

COMMITTED = "data set complete: %s"
"""The line of a worker's log on a new manifest, by which a service can tell that nights bring one."""


@dataclass(frozen=True, kw_only=True)
class Reports:
    """The reports of all stages of a run, as the engine hands them over.

    Attributes:
      shards: the figures of those that were written.
      dead_letters: of all stages, unless they are so many that parts list them.
      refusals: the reasons why shards were not written.
      images: what happened to images, where `shards` do not know.
      changes: what became of each shard since the data set whose shards were reused.
      totals: the sums over shards, images and dead letters; None to sum up the others.
      in_parts: the parts of dead letters that were written; without `totals`, they are now.
      duplicates: the images of the same bytes, in parts; None if images were not compared.
    """

    shards: Iterable[ShardInfo]
    dead_letters: Iterable[DeadLetterBatch]
    refusals: Iterable[Refusal]
    images: Iterable[ImageFigures] = ()
    changes: Iterable[ShardFate] = ()
    totals: Totals | None = None
    in_parts: Iterable[WrittenPart] = ()
    duplicates: Iterable[Duplicates] | None = None


@dataclass(frozen=True)
class _Run:
    """A run as its reports describe it, in memory."""

    plan: Plan
    shards: Sequence[ShardInfo]
    dead_letters: Sequence[DeadLetter]
    refusals: Sequence[Refusal]
    totals: Totals
    in_parts: Sequence[WrittenPart]
    changes: Iterable[ShardFate]
    duplicates: Duplicates | None

    @property
    def tally(self) -> Tally:
        """The plan's counts, with all dead letters counted again, including those of the shards."""
        total = Tally()
        total.add(self.plan.tally)
        total.dead.clear()
        total.shown.clear()
        total.first.clear()
        total.add(self.totals.dead)
        return total


@dataclass(frozen=True, kw_only=True)
class DatasetFinisher:
    """Writes the files beside the shards: dead letters in any case, the rest if all is well.

    Attributes:
      output_folder: where the files go.
      encoding: what shaped the examples.
      max_bad_fraction: bad samples allowed, of all listed images.
      recorded_options: the options that the manifest records.
      failures: says whether the job itself fails when there is no complete data set.
      reuse: the data set whose shards were reused; None if there is none.
      card: whether the data set gets a data card.
      most_dead_letters: the most that one file lists; more are written in parts.
      report_of: the command that `report.html` shows; None to write no report.
    """

    output_folder: str
    encoding: EncodingOptions
    max_bad_fraction: float
    recorded_options: Mapping[str, Any]
    failures: FailurePolicy
    reuse: EarlierDataSet | None = None
    card: bool = True
    most_dead_letters: int = MOST_IN_ONE
    report_of: str | None = None

    def finish(self, plan: Plan, reports: Reports) -> None:
        """Finishes a run, or notes in the output folder why the data set is not complete.

        Args:
          plan: the planned shards and classes.
          reports: of all stages.

        Raises:
          ConversionError: the data set is not complete, if `failures.raises_refusals`.
          OSError: a file cannot be written, if `failures.retries`.
        """
        try:
            refusal = self._write(self._collect(plan, reports))
        except ConversionError as error:
            refusal = plan.refusal or Refusal.from_error(error)
        except OSError as error:
            if self.failures.retries:
                raise
            what = f"the files beside the shards in {self.output_folder} cannot be written: {error}"
            refusal = plan.refusal or Refusal.from_error(OutputError(what))
        if refusal:
            self._refuse(refusal)

    def _collect(self, plan: Plan, reports: Reports) -> _Run:
        """Reads all reports; sums them up, and writes the parts of dead letters, if nobody has."""
        shards, refusals = list(reports.shards), list(reports.refusals)
        dead_letters = sorted(letter for batch in reports.dead_letters for letter in batch)
        totals, in_parts = reports.totals, list(reports.in_parts)
        if totals is None:
            totals = Totals.of_shards(shards)
            totals.add_dead_letters(dead_letters)
            for figures in reports.images:
                totals.add_images(figures)
            names = self.parts_to_write(plan, shards, refusals, totals)
            in_parts = list(write_parts(self.output_folder, names, dead_letters))
        refusals += (part.refusal for part in in_parts if part.refusal)
        duplicates = None if reports.duplicates is None else Duplicates.sum_of(reports.duplicates)
        return _Run(
            plan, shards, dead_letters, refusals, totals, in_parts, reports.changes, duplicates
        )

    def _write(self, run: _Run) -> Refusal | None:
        """Writes the files; returns the reason if the data set is not complete.

        A complete data set that was there before is not rewritten. Where another job writes to the
        folder, nothing is, as every file may be the other's.
        """
        plan, tally = run.plan, run.tally
        another = self._another(run.refusals, run.shards)
        if another:
            return plan.refusal or another
        earlier = earlier_manifest(self.output_folder)
        parts = parts_for(run.totals.dead.dead.total(), self.most_dead_letters)
        names = dead_letter_names(parts)
        crc = sum(part.crc for part in run.in_parts)
        if self._lists_dead_letters(plan, earlier, names):
            if not parts:
                crc = self._write_dead_letters(plan, earlier, names[0], run.dead_letters)
            elif not run.in_parts:
                what = f"the files of dead letters in {self.output_folder} cannot be written"
                return plan.refusal or Refusal.from_error(OutputError(what))
        return (
            plan.refusal
            or min(run.refusals, default=None, key=refusal_order)
            or too_many_bad(tally, self.max_bad_fraction)
            or accounting_error(plan.shard_plan, tally, run.shards)
            or _lost_in_parts(run.in_parts, run.totals)
            or all_filtered(tally, run.shards)
            or _several_codecs(run.totals.images)
            or self._complete(run, earlier, DeadLetterFiles(parts, crc))
        )

    def _complete(
        self, run: _Run, earlier: Manifest | None, dead_letter_files: DeadLetterFiles
    ) -> Refusal | None:
        """Writes the files of a run in which all is well; returns what is in their way."""
        manifest_data = manifest_file(self._manifest(run, dead_letter_files))
        manifest = parse_manifest(manifest_data, files.join(self.output_folder, MANIFEST_NAME))
        changed = self._changed_inputs(earlier, manifest) if earlier else None
        if changed:
            return changed
        there = set(files.list_folder(self.output_folder))
        wants_report = self.report_of is not None and (earlier is None or REPORT_NAME not in there)
        side_files = {
            **dict(files_from_manifest(manifest, card=self.card)),
            **(_changes_file(self.reuse, run.plan, run.changes) if self.reuse else {}),
            **self._duplicates_file(run.duplicates, run.shards),
            **(self._report(manifest, run) if wants_report else {}),
            MANIFEST_NAME: manifest_data,
        }
        if earlier is None:
            parts = dead_letter_names(dead_letter_files.parts) if dead_letter_files.parts else ()
            in_the_way = self._make_way(side_files, there, parts)
            if in_the_way:
                return in_the_way
            there = set()
        new_files = {name: side_files[name] for name in side_files if name not in there}
        return self._write_files(new_files, run.shards)

    def _write_files(
        self, new_files: Mapping[str, bytes], shards: Sequence[ShardInfo]
    ) -> Refusal | None:
        """Writes the files that are not there yet, the manifest last; returns why it was withdrawn."""
        for name, content in new_files.items():
            uri = files.join(self.output_folder, name)
            files.write_bytes(uri, content, new=name == MANIFEST_NAME)
        replaced = self._replaced(shards) if MANIFEST_NAME in new_files else None
        if replaced:
            self._withdraw(new_files[MANIFEST_NAME])
            return replaced
        delete_incomplete(self.output_folder)
        logging.getLogger(__name__).info(COMMITTED, self.output_folder)
        return None

    def _changed_inputs(self, earlier: Manifest, manifest: Manifest) -> Refusal | None:
        """The refusal of a run in which a complete data set would come out different."""
        changed = option_differences(_compared(earlier), _compared(manifest))
        if not changed:
            return None
        what = (
            f"--resume: since {self.output_folder} was written, its images or labels have changed: "
            f"{'; '.join(changed)}. Restore them, or convert again with --overwrite"
        )
        return Refusal.from_error(ChangedInputsError(what))

    def _write_dead_letters(
        self,
        plan: Plan,
        earlier: Manifest | None,
        name: str,
        dead_letters: Iterable[DeadLetter],
    ) -> int:
        """Writes the one file that lists all dead letters, in place of any other of this run's."""
        folder = self.output_folder
        if plan.refusal and earlier is None and read_note(folder) is None:
            # The note could not be written, and the next run has to know whose file this is.
            note_names(folder, WRITING_NAME, [name])
        delete_dead_letters(folder, keep=[name])
        return write_lines(files.join(folder, name), dead_letters)

    def _make_way(
        self, side_files: dict[str, bytes], there: Set[str], parts: Sequence[str]
    ) -> Refusal | None:
        """Notes the files that are about to be written, or returns why one of them may not be.

        Args:
          side_files: name -> content; those that give way to somebody else's file are removed.
          there: the files in the folder.
          parts: the files that list dead letters in parts, which are written already.
        """
        folder = self.output_folder
        for name in sorted(there & side_files.keys()):
            if is_somebody_elses(folder, name):
                del side_files[name]
        in_the_way = {name for name in there & side_files.keys() if not gives_way(name)}
        strangers = sorted(in_the_way - noted_names(folder))
        if strangers:
            what = (
                f"{folder} holds {strangers[0]}, which this run did not write and will not "
                "overwrite. Move it away and continue with --resume"
            )
            return Refusal.from_error(OutputNotEmptyError(what))
        note_names(folder, WRITING_NAME, [*side_files, *parts])
        return None

    def parts_to_write(
        self, plan: Plan, shards: Iterable[ShardInfo], refusals: Iterable[Refusal], totals: Totals
    ) -> list[str]:
        """The names of the parts in which dead letters are to be written, noted before they are.

        None where one file is enough, where `finish` would write none, and where `finish` will refuse
        as they cannot be written.

        Raises:
          OSError: the note cannot be written, if `failures.retries`.
        """
        parts = parts_for(totals.dead.dead.total(), self.most_dead_letters)
        if not parts or self._another(list(refusals), list(shards)):
            return []
        names = dead_letter_names(parts)
        try:
            earlier = earlier_manifest(self.output_folder)
            if not self._lists_dead_letters(plan, earlier, names):
                return []
            delete_dead_letters(self.output_folder, keep=names)
            note_names(self.output_folder, WRITING_NAME, names)
        except ConversionError:
            return []
        except OSError:
            if self.failures.retries:
                raise
            return []
        return names

    def _lists_dead_letters(
        self, plan: Plan, earlier: Manifest | None, names: Sequence[str]
    ) -> bool:
        """Tells whether dead letters are to be written: not for a question, and not anew."""
        if plan.refusal is not None and plan.refusal.error == QuestionError.__name__:
            return False
        folder = self.output_folder
        return earlier is None or not all(files.exists(files.join(folder, name)) for name in names)

    def _another(self, refusals: Sequence[Refusal], shards: Sequence[ShardInfo]) -> Refusal | None:
        """The refusal of a job that met another one in its folder."""
        another = next((one for one in refusals if one.error == AnotherJobError.__name__), None)
        return another or self._replaced(shards)

    def _duplicates_file(
        self, duplicates: Duplicates | None, shards: Sequence[ShardInfo]
    ) -> dict[str, bytes]:
        """The file that lists duplicates, if there are any or some images could not be compared."""
        if duplicates is None:
            return {}
        examples = sum(shard.examples for shard in shards)
        incomplete = self.encoding.examples.resumable and duplicates.compared < examples
        if not duplicates.groups and not incomplete:
            return {}
        return {DUPLICATES_NAME: dump_json(duplicates.to_json())}

    def _report(self, manifest: Manifest, run: _Run) -> dict[str, bytes]:
        """The file for people. Pillow takes long to import, and other parts never need it."""
        from beam_pipeline.work.report import make_report

        content = make_report(
            self.output_folder,
            manifest,
            statistics=run.totals.images.statistics,
            dead_letters=run.dead_letters,
            command=self.report_of or "",
            duplicates=run.duplicates or NO_DUPLICATES,
        )
        return {REPORT_NAME: content}

    def _replaced(self, shards: Sequence[ShardInfo]) -> Refusal | None:
        """The refusal of a job whose shards another job has deleted or replaced.

        Before the manifest is written, it keeps most jobs from writing one. After, it finds what was
        deleted in between. What is deleted still later is deleted with the manifest: the other job
        looks for one after its last shard is gone.
        """
        expected = {shard.file_name: (shard.bytes, crc32c_text(shard.crc32c)) for shard in shards}
        altered = files.altered(self.output_folder, expected)
        if not altered:
            return None
        what = (
            f"another job is writing to this folder: {files.join(self.output_folder, altered[0])} is "
            "not there any more as this job wrote it. No manifest was written; wait for the other job, "
            "or choose another --output"
        )
        return Refusal.from_error(AnotherJobError(what))

    def _withdraw(self, manifest: bytes) -> None:
        """Deletes the manifest if it is this job's."""
        uri = files.join(self.output_folder, MANIFEST_NAME)
        if files.read_if_there(uri) == manifest:
            files.delete(self.output_folder, [MANIFEST_NAME])

    def _manifest(self, run: _Run, dead_letter_files: DeadLetterFiles) -> dict[str, Any]:
        options = with_settled({"options": self.recorded_options}, run.plan.settled)["options"]
        turned = Event.LEFT_TURNED.value in run.totals.events
        recorded = Recorded(
            seed=self.encoding.seed,
            options=options,
            features=self.encoding.features(turned=turned),
            counted=_counted(self.encoding.columns),
        )
        return build_manifest(
            run.plan, run.tally, run.shards, recorded, run.totals, dead_letter_files
        )

    def _refuse(self, refusal: Refusal) -> None:
        """Notes the reason for the launcher, which may be another process."""
        try:
            note_refusal(self.output_folder, refusal, self.failures.job)
        except OSError:  # a full disk: the launcher in this process, if it is this one, knows
            if self.failures.retries:
                raise
        if self.failures.raises_refusals:
            raise refusal.to_error()


def _several_codecs(images: ImageFigures) -> Refusal | None:
    """The refusal of a run whose workers, or whose earlier run, had other versions."""
    if len(images.codecs) < 2:
        return None
    return Refusal.from_error(
        CodecError(
            f"some shards hold images encoded by {images.codecs[0]}, others by {images.codecs[1]}; give "
            "all workers the same versions, and convert again with --overwrite"
        )
    )


def _changes_file(
    reuse: EarlierDataSet, plan: Plan, changes: Iterable[ShardFate]
) -> dict[str, bytes]:
    """The file that says what changed since the data set whose shards were reused."""
    splits = [split for split, _ in plan.shard_plan.shards]
    gone = reuse.samples_elsewhere(splits)
    content = changes_file(reuse.folder, changes, gone=gone, notes=plan.notes)
    return {CHANGES_NAME: dump_json(content)}


def _compared(manifest: Manifest) -> Mapping[str, Any]:
    """A manifest without the entries that may change while its data set stays the same."""
    content = manifest.content
    counts = {k: v for k, v in content["counts"].items() if k != "ignored_files"}
    open_entries = ("images", "questions", CHECKSUM_ENTRY, LINES_ENTRY)
    same = {k: v for k, v in content.items() if k not in open_entries}
    return {**same, "counts": counts}


def _lost_in_parts(in_parts: Sequence[WrittenPart], totals: Totals) -> Refusal | None:
    """The refusal of a run whose parts do not list every dead letter, a fault of the program."""
    dead, found = totals.dead.dead.total(), sum(part.letters for part in in_parts)
    if not in_parts or found == dead:
        return None
    return Refusal.from_error(
        LostSamplesError(f"the parts list {found} dead letters of {dead}; please report it")
    )


def _has_boxes(columns: Sequence[Column]) -> bool:
    return any(column.kind is ColumnKind.BOX for column in columns)


def _counted(columns: Sequence[Column]) -> str:
    """Counts of each class; none if only masks have classes."""
    if _has_boxes(columns):
        return "objects"
    return "" if file_columns(columns) and class_column(columns) is None else "examples"
