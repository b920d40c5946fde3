"""Writes the files beside the shards, and last the manifest, or notes why it is missing."""

from __future__ import annotations

import dataclasses
import heapq
import itertools
import logging
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from beam_pipeline.core import errors, packing
from beam_pipeline.core.dataset import changes, manifest, names
from beam_pipeline.core.dataset.duplicates import DUPLICATES_NAME, NO_DUPLICATES, Duplicates
from beam_pipeline.core.dataset.plan import Plan, accounting_error, all_filtered, too_many_bad
from beam_pipeline.core.dataset.tally import Tally, Totals, without_totals
from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.labels.roles import RoleRow
from beam_pipeline.core.labels.schema import MASK_KINDS, Column, ColumnKind, class_column
from beam_pipeline.core.records import alteration
from beam_pipeline.core.records.sharding import ImageFigures, ShardInfo
from beam_pipeline.core.report.side_files import files_from_manifest, gives_way
from beam_pipeline.storage import files
from beam_pipeline.work import job, output_folder, writing

COMMITTED = "data set complete: %s"
"""The line of a worker's log on a new manifest, from which a service can tell that nights bring one."""

MOST_AT_ONCE = 1 << 20
"""Dead letters that are sorted at once; each takes some 320 bytes, and packed 40 at most."""
_PIECE = 512  # dead letters of a sorted portion that are unpacked together


def sorted_letters(
    batches: Iterable[packing.DeadLetterBatch], most: int = MOST_AT_ONCE
) -> Iterator[DeadLetter]:
    """Yields dead letters in order. Of very many, sorted portions wait packed for the others."""
    letters = itertools.chain.from_iterable(batches)
    portions: list[Iterator[DeadLetter]] = []
    while len(portion := sorted(itertools.islice(letters, most))) == most:
        packed = [job.spill(packing.pack(portion[n : n + _PIECE])) for n in range(0, most, _PIECE)]
        pieces = (packing.unpack(DeadLetter, job.unspill(piece)) for piece in packed)
        portions.append(itertools.chain.from_iterable(pieces))
        portion.clear()  # before the next one is sorted
    yield from heapq.merge(*portions, portion)


@dataclass(kw_only=True)
class Reports:
    """The reports of all stages of a run, from the engine, which may read them from a disk each time.

    Attributes:
      shards: the figures of those that were written, without those that are summed.
      dead_letters: of all stages.
      refusals: the reasons why shards were not written.
      images: what happened to images, where `shards` do not know.
      changes: each shard's fate since the data set whose shards were reused.
      duplicates: the images of the same bytes, in parts; None if images were not compared.
      sums: the sums over shards, images and dead letters.
    """

    shards: Sequence[ShardInfo]
    dead_letters: Iterable[packing.DeadLetterBatch]
    refusals: Sequence[errors.Refusal]
    images: Iterable[ImageFigures] = ()
    changes: Iterable[changes.ShardFate] = ()
    duplicates: Iterable[Duplicates] | None = None
    sums: Totals = field(init=False)

    def __post_init__(self) -> None:
        """Reads what is small once; the figures of a shard that are summed are not."""
        shards: list[ShardInfo] = []
        given = _without_totals(self.shards, shards)
        self.sums = Totals.of(itertools.chain(given, self.images, self.dead_letters))
        self.shards, self.refusals = shards, list(self.refusals)


def _without_totals(shards: Iterable[ShardInfo], bounded: list[ShardInfo]) -> Iterator[ShardInfo]:
    """Yields shards, and adds them to a list without the figures that are summed."""
    for shard in shards:
        bounded.append(without_totals(shard))
        yield shard


@dataclass(frozen=True, kw_only=True)
class DatasetFinisher:
    """Writes the files beside the shards: dead letters in any case, the rest if all is well.

    Attributes:
      request: how the shards were written, and where.
      max_bad_fraction: bad samples allowed, of all listed images.
      recorded: the options that the manifest records.
      card: whether the data set gets a data card.
      report_of: the command that `report.html` shows; None to write no report.
      roles: what each part of the input is used for, for the manifest.
      pointer: a file beside the output folder that is to name it when it is complete; empty for none.
    """

    request: writing.WriteRequest
    max_bad_fraction: float
    recorded: Mapping[str, Any]
    card: bool = True
    report_of: str | None = None
    roles: Sequence[RoleRow] = ()
    pointer: str = ""

    @property
    def folder(self) -> str:
        """The output folder."""
        return self.request.folder

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
        failures = self.request.failures
        try:
            refusal = self._write(plan, reports)
        except errors.ConversionError as error:
            refusal = plan.refusal or errors.Refusal.from_error(error)
        except OSError as error:
            if failures.retries:
                raise
            reason = f"the files beside the shards in {self.folder} cannot be written: {error}"
            refusal = plan.refusal or errors.Refusal.from_error(errors.OutputError(reason), error)
        if refusal:
            try:  # for the launcher, which may be another process
                output_folder.note_refusal(self.folder, refusal, failures.job)
            except OSError:  # a full disk: the launcher in this process, if it is this one, knows
                if failures.retries:
                    raise
            if failures.raises_refusals:
                raise failures.reworded(refusal.to_error())
        return not refusal

    def _write(self, plan: Plan, reports: Reports) -> errors.Refusal | None:
        """Writes the files; returns or raises the reason if the data set is not complete.

        A complete data set that was there before is not rewritten. Where another job writes to the
        folder, nothing is, as every file may be the other's.
        """
        self._check_alone(reports.refusals, reports.shards)
        earlier = output_folder.earlier_manifest(self.folder)
        listed, crc = self._write_dead_letters(plan, earlier, reports)
        # The plan's counts, with all dead letters counted again, including the shards'.
        tally = Tally()
        tally.add(dataclasses.replace(plan.tally, dead=Counter(), shown={}, first={}))
        tally.add(reports.sums.dead)
        refusal = (
            plan.refusal
            or min(reports.refusals, default=None, key=errors.refusal_order)
            or too_many_bad(tally, self.max_bad_fraction)
            or accounting_error(plan.shard_plan, tally, reports.shards, listed)
            or all_filtered(tally, reports.shards)
        )
        if refusal:
            return refusal
        codecs = reports.sums.images.codecs
        if len(codecs) > 1:  # workers, or an earlier run, had other versions
            raise errors.CodecError(
                f"some shards contain images encoded by {codecs[0]}, others by {codecs[1]}; give "
                "all workers the same versions, and convert again with --overwrite"
            )
        content = manifest.manifest_file(self._manifest(plan, tally, reports, crc))
        self._complete(plan, reports, content, earlier)
        return None

    def _complete(
        self,
        plan: Plan,
        reports: Reports,
        manifest_data: bytes,
        earlier: manifest.Manifest | None,
    ) -> None:
        """Writes the files of a successful run.

        Raises:
          ConversionError: a file of somebody else or of another job is in their way.
        """
        folder = self.folder
        made = manifest.parse_manifest(manifest_data, files.join(folder, manifest.MANIFEST_NAME))
        changed = changes.option_differences(_compared(earlier), _compared(made)) if earlier else ()
        if changed:
            raise errors.ChangedInputsError(
                f"--resume: since {folder} was written, its images or labels have changed: "
                f"{'; '.join(changed)}. Restore them, or convert again with --overwrite"
            )
        there = set(files.list_folder(folder))
        side_files = dict(files_from_manifest(made, card=self.card))
        duplicates = None if reports.duplicates is None else Duplicates.sum_of(reports.duplicates)
        side_files |= self._files_of_run(plan, reports, duplicates)
        if self.report_of is not None and (earlier is None or names.REPORT_NAME not in there):
            from beam_pipeline.core.report.page import Report  # Pillow takes long to import
            from beam_pipeline.work.report import make_report

            report = Report(
                manifest=made,
                statistics=reports.sums.images.statistics,
                command=self.report_of,
                duplicates=duplicates or NO_DUPLICATES,
            )
            letters = itertools.chain.from_iterable(reports.dead_letters)
            side_files[names.REPORT_NAME] = make_report(folder, report, letters)
        side_files[manifest.MANIFEST_NAME] = manifest_data
        if earlier is None:
            self._make_way(side_files, there)
            there = set()
        for name in [name for name in side_files if name not in there]:
            uri, is_last = files.join(folder, name), name == manifest.MANIFEST_NAME
            files.write_bytes(uri, side_files[name], new=is_last)
        if manifest.MANIFEST_NAME not in there:
            try:
                self._check_alone((), reports.shards)
            except errors.AnotherJobError:
                if files.read_if_there(files.join(folder, manifest.MANIFEST_NAME)) == manifest_data:
                    # The other job may have deleted the notes.
                    output_folder.note_names(
                        folder, names.WRITING_NAME, [*side_files, names.DEAD_LETTERS_NAME]
                    )
                    files.delete(folder, [manifest.MANIFEST_NAME])
                raise
        output_folder.delete_incomplete(folder)
        if self.pointer:
            try:
                self._point()
            except (OSError, errors.ConversionError) as error:  # the data set is complete
                logging.getLogger(__name__).warning("%s cannot be written: %s", self.pointer, error)
        if manifest.MANIFEST_NAME not in there:
            logging.getLogger(__name__).info(COMMITTED, folder)

    def _files_of_run(
        self, plan: Plan, reports: Reports, duplicates: Duplicates | None
    ) -> Iterator[tuple[str, bytes]]:
        """(name, content) of what changed since an earlier data set, and of images of the same bytes."""
        if reuse := self.request.earlier:
            gone = reuse.samples_elsewhere([split for split, _ in plan.shard_plan.shards])
            content = changes.changes_file(
                reuse.folder, reports.changes, gone=gone, notes=plan.notes
            )
            yield changes.CHANGES_NAME, manifest.dump_json(content)
        if duplicates is not None:
            examples = sum(shard.examples for shard in reports.shards)
            resumable = self.request.encoding.examples.resumable
            if duplicates.groups or (resumable and duplicates.images_compared < examples):
                yield DUPLICATES_NAME, manifest.dump_json(duplicates.to_json())

    def _point(self) -> None:
        """Names the data set as the newest beside it, unless a newer one is named."""
        above, _, own = self.folder.rpartition("/")
        data = files.read_if_there(self.pointer) or b"\n"
        named, *more = data.decode(errors="replace").split("\n")
        if more != [""] or "/" in named or os.path.islink(self.pointer):
            raise errors.ConversionError("it is not a run's, but somebody's own; move it away")
        theirs, ours = (files.join(above, name, manifest.MANIFEST_NAME) for name in (named, own))
        if named and files.exists(theirs) and files.changed_at(theirs) > files.changed_at(ours):
            return
        files.write_bytes(self.pointer, f"{own}\n".encode())
        files.remove_folder(files.join(above, names.INCOMPLETE_FOLDER))

    def _write_dead_letters(
        self, plan: Plan, earlier: manifest.Manifest | None, reports: Reports
    ) -> tuple[Mapping[str, int], int]:
        """Writes a line for each dead letter, but not for a question, and not again. Raises OSError.

        Returns: how many lines have each reason, and the sum of `line_crc` over all.
        """
        folder, uri = self.folder, files.join(self.folder, names.DEAD_LETTERS_NAME)
        asks = plan.refusal is not None and plan.refusal.error == errors.QuestionError.__name__
        if asks or (earlier and files.exists(uri)):
            return reports.sums.dead.dead, 0
        if plan.refusal and earlier is None and output_folder.read_note(folder) is None:
            # The note could not be written, and the next run has to know whose file this is.
            output_folder.note_names(folder, names.WRITING_NAME, [names.DEAD_LETTERS_NAME])
        reasons: Counter[str] = Counter()
        crc = 0
        with files.open_output(uri) as sink:
            for letter in sorted_letters(reports.dead_letters):
                reasons[letter.reason] += 1
                line = letter.to_json().encode()
                crc += manifest.line_crc(line)
                sink.write(line + b"\n")
        return reasons, crc

    def _make_way(self, side_files: dict[str, bytes], there: Set[str]) -> None:
        """Notes the files that are about to be written.

        Args:
          side_files: name -> content; those that give way to somebody else's file are removed.
          there: the files in the folder.

        Raises:
          OutputNotEmptyError: one of them may not be written.
        """
        folder = self.folder
        for name in sorted(there & side_files.keys()):
            if output_folder.is_somebody_elses(folder, name):
                del side_files[name]
        in_the_way = {name for name in there & side_files.keys() if not gives_way(name)}
        strangers = sorted(in_the_way - output_folder.noted_names(folder))
        if strangers:
            raise errors.OutputNotEmptyError(
                f"{folder} contains {strangers[0]}, which this run did not write and will not "
                "overwrite. Move it away and continue with --resume"
            )
        output_folder.note_names(folder, names.WRITING_NAME, side_files)

    def _check_alone(self, refusals: Sequence[errors.Refusal], shards: Sequence[ShardInfo]) -> None:
        """Checks that no other job has deleted or replaced shards.

        Before the manifest is written, it keeps most jobs from writing one. After, it finds what was
        deleted in between. What is deleted still later is deleted with the manifest: the other job
        looks for one after its last shard is gone.

        Raises:
          AnotherJobError: one has, or a shard met another job.
        """
        for refusal in refusals:
            if refusal.error == errors.AnotherJobError.__name__:
                raise refusal.to_error()
        crc = manifest.crc32c_text
        written = {shard.file_name: (shard.bytes, crc(shard.crc32c)) for shard in shards}
        altered = files.altered(self.folder, written)
        if altered:
            raise errors.AnotherJobError(
                f"another job is writing to this folder: {files.join(self.folder, altered[0])} is "
                "not there any more as this job wrote it. No manifest was written; wait for the other job, "
                "or choose another --output"
            )

    def _manifest(
        self, plan: Plan, tally: Tally, reports: Reports, dead_letter_crc: int
    ) -> dict[str, Any]:
        encoding = self.request.encoding
        turned = alteration.LEFT_TURNED in reports.sums.events
        run = {
            "seed": encoding.seed,
            "options": self.recorded,
            "features": encoding.with_features(plan.features).features(turned=turned),
        }
        return manifest.build_manifest(
            *(plan, tally, reports.shards, reports.sums, changes.with_settled(run, plan.settled)),
            counted=_counted(encoding.columns),
            roles=self.roles,
            dead_letter_crc=dead_letter_crc,
        )


def _compared(data_set: manifest.Manifest) -> Mapping[str, Any]:
    """A manifest without the entries that may change while its data set stays the same."""
    counts = {k: v for k, v in data_set.content["counts"].items() if k != "ignored_files"}
    open_entries = ("images", "questions", "roles", manifest.CHECKSUM_ENTRY, manifest.LINES_ENTRY)
    same = {k: v for k, v in data_set.content.items() if k not in open_entries}
    return {**same, "counts": counts}


def _counted(columns: Sequence[Column]) -> str:
    """Counts of each class; none if only masks have classes."""
    if any(column.kind is ColumnKind.BOX for column in columns):
        return "objects"
    masks = any(column.kind in MASK_KINDS for column in columns)
    return "" if masks and class_column(columns) is None else "examples"
