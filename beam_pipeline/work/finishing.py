"""Writes the files beside the shards, and last the manifest, or notes why it is missing."""

from __future__ import annotations

import dataclasses
import itertools
import logging
import posixpath
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

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
    INCOMPLETE_FOLDER,
    MOST_IN_ONE,
    REPORT_NAME,
    WRITING_NAME,
    dead_letter_names,
    parts_for,
)
from beam_pipeline.core.dataset.plan import Plan, accounting_error, all_filtered, too_many_bad
from beam_pipeline.core.dataset.tally import Tally, Totals
from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.errors import (
    AnotherJobError,
    ChangedInputsError,
    CodecError,
    ConversionError,
    FailurePolicy,
    LostSamplesError,
    OutputError,
    OutputNotEmptyError,
    QuestionError,
    Refusal,
    refusal_order,
)
from beam_pipeline.core.labels.roles import RoleRow
from beam_pipeline.core.labels.schema import (
    MASK_KINDS,
    Column,
    ColumnKind,
    class_column,
)
from beam_pipeline.core.packing import DeadLetterBatch
from beam_pipeline.core.records.alteration import Event
from beam_pipeline.core.records.sharding import ImageFigures, ShardInfo
from beam_pipeline.core.report.side_files import files_from_manifest, gives_way
from beam_pipeline.storage import files
from beam_pipeline.work.dead_letter_files import WrittenPart, write_lines, write_parts
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
from beam_pipeline.work.receipts import EarlierDataSet
from beam_pipeline.work.writing import EncodingOptions

COMMITTED = "data set complete: %s"
"""The line of a worker's log on a new manifest, from which a service can tell that nights bring one."""


@dataclass(frozen=True, kw_only=True)
class Reports:
    """The reports of all stages of a run, from the engine.

    Attributes:
      shards: the figures of those that were written.
      dead_letters: of all stages, unless they are so many that parts list them.
      refusals: the reasons why shards were not written.
      images: what happened to images, where `shards` do not know.
      changes: each shard's fate since the data set whose shards were reused.
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

    def summed(self) -> Totals:
        """The sums over shards, images and dead letters."""
        if self.totals is not None:
            return self.totals
        totals = Totals.of_shards(self.shards)
        for figures in self.images:
            totals.add_images(figures)
        for batch in self.dead_letters:
            totals.add_dead_letters(batch)
        return totals


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
        """The plan's counts, with all dead letters counted again, including the shards'."""
        total = Tally()
        total.add(dataclasses.replace(self.plan.tally, dead=Counter(), shown={}, first={}))
        total.add(self.totals.dead)
        return total

    def check_parts(self) -> None:
        """Raises LostSamplesError if parts do not list every dead letter, a fault of the program."""
        dead, listed = self.totals.dead.dead.total(), sum(part.letters for part in self.in_parts)
        if self.in_parts and listed != dead:
            raise LostSamplesError(
                f"the parts list {listed} dead letters of {dead}; please report it"
            )

    def check_codecs(self) -> None:
        """Raises CodecError if workers, or an earlier run, had other versions."""
        codecs = self.totals.images.codecs
        if len(codecs) > 1:
            raise CodecError(
                f"some shards contain images encoded by {codecs[0]}, others by {codecs[1]}; give "
                "all workers the same versions, and convert again with --overwrite"
            )


@dataclass(frozen=True, kw_only=True)
class DatasetFinisher:
    """Writes the files beside the shards: dead letters in any case, the rest if all is well.

    Attributes:
      output_folder: where the files go.
      encoding: what shaped the examples.
      max_bad_fraction: bad samples allowed, of all listed images.
      recorded_options: the options that the manifest records.
      failures: tells whether the job itself fails when the data set is incomplete.
      reuse: the data set whose shards were reused, or None.
      card: whether the data set gets a data card.
      most_dead_letters: the most that one file lists; more are written in parts.
      report_of: the command that `report.html` shows; None to write no report.
      roles: what each part of the input is used for, for the manifest.
      pointer: a file beside the output folder that is to name it when it is complete; empty for none.
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
    roles: Sequence[RoleRow] = ()
    pointer: str = ""

    def finish(self, plan: Plan, reports: Reports) -> bool:
        """Finishes a run, or notes in the output folder why the data set is not complete.

        Returns: whether it is.

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
            reason = (
                f"the files beside the shards in {self.output_folder} cannot be written: {error}"
            )
            refusal = plan.refusal or Refusal.from_error(OutputError(reason), error)
        if refusal:
            self._refuse(refusal)
        return not refusal

    def _collect(self, plan: Plan, reports: Reports) -> _Run:
        """Reads all reports; sums them up, and writes the parts of dead letters, if nobody has."""
        reports = dataclasses.replace(
            reports,
            shards=list(reports.shards),
            dead_letters=list(reports.dead_letters),
            refusals=list(reports.refusals),
        )
        dead_letters = sorted(itertools.chain.from_iterable(reports.dead_letters))
        totals, in_parts = reports.summed(), list(reports.in_parts)
        if reports.totals is None:
            names = self.parts_to_write(plan, dataclasses.replace(reports, totals=totals))
            in_parts = list(write_parts(self.output_folder, names, dead_letters))
        duplicates = None if reports.duplicates is None else Duplicates.sum_of(reports.duplicates)
        return _Run(
            plan,
            list(reports.shards),
            dead_letters,
            [*reports.refusals, *(part.refusal for part in in_parts if part.refusal)],
            totals,
            in_parts,
            reports.changes,
            duplicates,
        )

    def _write(self, run: _Run) -> Refusal | None:
        """Writes the files; returns or raises the reason if the data set is not complete.

        A complete data set that was there before is not rewritten. Where another job writes to the
        folder, nothing is, as every file may be the other's.
        """
        plan, tally = run.plan, run.tally
        self._check_alone(run.refusals, run.shards)
        earlier = earlier_manifest(self.output_folder)
        parts = parts_for(run.totals.dead.dead.total(), self.most_dead_letters)
        names = dead_letter_names(parts)
        crc = sum(part.crc for part in run.in_parts)
        if self._lists_dead_letters(plan, earlier, names):
            if not parts:
                crc = self._write_dead_letters(plan, earlier, names[0], run.dead_letters)
            elif not run.in_parts:
                raise OutputError(
                    f"the files of dead letters in {self.output_folder} cannot be written"
                )
        refusal = (
            plan.refusal
            or min(run.refusals, default=None, key=refusal_order)
            or too_many_bad(tally, self.max_bad_fraction)
            or accounting_error(plan.shard_plan, tally, run.shards)
        )
        if not refusal:
            run.check_parts()
            refusal = all_filtered(tally, run.shards)
        if not refusal:
            run.check_codecs()
            self._complete(run, earlier, DeadLetterFiles(parts, crc))
        return refusal

    def _complete(
        self, run: _Run, earlier: Manifest | None, dead_letter_files: DeadLetterFiles
    ) -> None:
        """Writes the files of a successful run.

        Raises:
          ConversionError: a file of somebody else or of another job is in their way.
        """
        folder = self.output_folder
        manifest_data = manifest_file(self._manifest(run, dead_letter_files))
        manifest = parse_manifest(manifest_data, files.join(folder, MANIFEST_NAME))
        changed = option_differences(_compared(earlier), _compared(manifest)) if earlier else ()
        if changed:
            raise ChangedInputsError(
                f"--resume: since {folder} was written, its images or labels have changed: "
                f"{'; '.join(changed)}. Restore them, or convert again with --overwrite"
            )
        there = set(files.list_folder(folder))
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
            self._make_way(side_files, there, parts)
            there = set()
        for name in [name for name in side_files if name not in there]:
            files.write_bytes(files.join(folder, name), side_files[name], new=name == MANIFEST_NAME)
        if MANIFEST_NAME not in there:
            try:
                self._check_alone((), run.shards)
            except AnotherJobError:
                if files.read_if_there(files.join(folder, MANIFEST_NAME)) == manifest_data:
                    files.delete(folder, [MANIFEST_NAME])
                raise
        delete_incomplete(folder)
        if self.pointer:
            try:
                self._point()
            except (OSError, ConversionError) as error:  # the data set is complete all the same
                logging.getLogger(__name__).warning("%s cannot be written: %s", self.pointer, error)
        if MANIFEST_NAME not in there:
            logging.getLogger(__name__).info(COMMITTED, folder)

    def _point(self) -> None:
        """Names the data set as the newest beside it, unless a newer one is named."""
        above, _, own = self.output_folder.rpartition("/")
        named = (files.read_if_there(self.pointer) or b"").decode(errors="replace").strip()
        manifests = [
            files.join(above, name, MANIFEST_NAME) for name in (posixpath.basename(named), own)
        ]
        if named and files.exists(manifests[0]):
            times = [files.changed_at(uri) for uri in manifests]
            if times[0] > times[1]:
                return
        files.write_bytes(self.pointer, f"{own}\n".encode())
        files.remove_folder(files.join(above, INCOMPLETE_FOLDER))

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
    ) -> None:
        """Notes the files that are about to be written.

        Args:
          side_files: name -> content; those that give way to somebody else's file are removed.
          there: the files in the folder.
          parts: the files that list dead letters in parts, which are written already.

        Raises:
          OutputNotEmptyError: one of them may not be written.
        """
        folder = self.output_folder
        for name in sorted(there & side_files.keys()):
            if is_somebody_elses(folder, name):
                del side_files[name]
        in_the_way = {name for name in there & side_files.keys() if not gives_way(name)}
        strangers = sorted(in_the_way - noted_names(folder))
        if strangers:
            raise OutputNotEmptyError(
                f"{folder} contains {strangers[0]}, which this run did not write and will not "
                "overwrite. Move it away and continue with --resume"
            )
        note_names(folder, WRITING_NAME, [*side_files, *parts])

    def parts_to_write(self, plan: Plan, reports: Reports) -> list[str]:
        """The names of the parts for dead letters, noted before they are written.

        None where one file is enough, where `finish` would write none, and where `finish` will refuse
        as they cannot be written.

        Raises:
          OSError: the note cannot be written, if `failures.retries`.
        """
        parts = parts_for(reports.summed().dead.dead.total(), self.most_dead_letters)
        if not parts:
            return []
        names = dead_letter_names(parts)
        try:
            self._check_alone(list(reports.refusals), list(reports.shards))
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
        """Tells whether dead letters are to be written: not for a question, and not again."""
        if plan.refusal is not None and plan.refusal.error == QuestionError.__name__:
            return False
        folder = self.output_folder
        return earlier is None or not all(files.exists(files.join(folder, name)) for name in names)

    def _check_alone(self, refusals: Sequence[Refusal], shards: Sequence[ShardInfo]) -> None:
        """Checks that no other job has deleted or replaced shards.

        Before the manifest is written, it keeps most jobs from writing one. After, it finds what was
        deleted in between. What is deleted still later is deleted with the manifest: the other job
        looks for one after its last shard is gone.

        Raises:
          AnotherJobError: one has, or a shard met another job.
        """
        for refusal in refusals:
            if refusal.error == AnotherJobError.__name__:
                raise refusal.to_error()
        expected = {shard.file_name: (shard.bytes, crc32c_text(shard.crc32c)) for shard in shards}
        altered = files.altered(self.output_folder, expected)
        if altered:
            raise AnotherJobError(
                f"another job is writing to this folder: {files.join(self.output_folder, altered[0])} is "
                "not there any more as this job wrote it. No manifest was written; wait for the other job, "
                "or choose another --output"
            )

    def _duplicates_file(
        self, duplicates: Duplicates | None, shards: Sequence[ShardInfo]
    ) -> dict[str, bytes]:
        """The file that lists duplicates, if there are any or some images could not be compared."""
        if duplicates is None:
            return {}
        examples = sum(shard.examples for shard in shards)
        incomplete = self.encoding.examples.resumable and duplicates.images_compared < examples
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

    def _manifest(self, run: _Run, dead_letter_files: DeadLetterFiles) -> dict[str, Any]:
        options = with_settled({"options": self.recorded_options}, run.plan.settled)["options"]
        turned = Event.LEFT_TURNED.value in run.totals.events
        recorded = Recorded(
            seed=self.encoding.seed,
            options=options,
            features=self.encoding.with_features(run.plan.features).features(turned=turned),
            counted=_counted(self.encoding.columns),
            roles=self.roles,
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
            raise self.failures.reworded(refusal.to_error())


def _changes_file(
    reuse: EarlierDataSet, plan: Plan, changes: Iterable[ShardFate]
) -> dict[str, bytes]:
    """The file that tells what changed since the data set whose shards were reused."""
    gone = reuse.samples_elsewhere([split for split, _ in plan.shard_plan.shards])
    content = changes_file(reuse.folder, changes, gone=gone, notes=plan.notes)
    return {CHANGES_NAME: dump_json(content)}


def _compared(manifest: Manifest) -> Mapping[str, Any]:
    """A manifest without the entries that may change while its data set stays the same."""
    content = manifest.content
    counts = {k: v for k, v in content["counts"].items() if k != "ignored_files"}
    open_entries = ("images", "questions", "roles", CHECKSUM_ENTRY, LINES_ENTRY)
    same = {k: v for k, v in content.items() if k not in open_entries}
    return {**same, "counts": counts}


def _counted(columns: Sequence[Column]) -> str:
    """Counts of each class; none if only masks have classes."""
    if any(column.kind is ColumnKind.BOX for column in columns):
        return "objects"
    masks = any(column.kind in MASK_KINDS for column in columns)
    return "" if masks and class_column(columns) is None else "examples"
