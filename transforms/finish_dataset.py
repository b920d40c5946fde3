"""Finishes the data set: checks the accounting, writes dead letters, labels and, last, the manifest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsIter

from beam_pipeline.transforms.batches import DeadLetterBatch
from beam_pipeline.transforms.core.dataset.class_files import class_files
from beam_pipeline.transforms.core.dataset.manifest import (
    DEAD_LETTERS_NAME,
    MANIFEST_NAME,
    build_manifest,
    dump_json,
)
from beam_pipeline.transforms.core.dataset.names import WRITING_NAME
from beam_pipeline.transforms.core.dataset.plan import (
    Plan,
    Tally,
    accounting_error,
    all_filtered,
    too_many_bad,
)
from beam_pipeline.transforms.core.dataset.receipts import option_changes
from beam_pipeline.transforms.core.dataset.sharding import ShardInfo
from beam_pipeline.transforms.core.dataset.tfds_metadata import tfds_files
from beam_pipeline.transforms.core.dead_letters import DeadLetter
from beam_pipeline.transforms.core.errors import (
    ChangedInputsError,
    OutputError,
    OutputNotEmptyError,
    QuestionError,
)
from beam_pipeline.transforms.core.failures import FailurePolicy, Refusal
from beam_pipeline.transforms.core.labels.schema import Column, ColumnKind
from beam_pipeline.transforms.encoding import EncodingOptions
from beam_pipeline.transforms.output_folder import (
    delete_incomplete,
    earlier_manifest,
    note_names,
    note_refusal,
    noted_names,
)
from beam_pipeline.transforms.storage import files


def finish_dataset(
    plan: Plan,
    shards: Iterable[ShardInfo],
    dead_letters: Iterable[DeadLetterBatch],
    refusals: Iterable[Refusal],
    *,
    output_folder: str,
    encoding: EncodingOptions,
    max_bad_fraction: float,
    recorded_options: Mapping[str, Any],
    failures: FailurePolicy,
) -> None:
    """Writes the files beside the shards, as `_finish` does; a file that cannot be written is a refusal.

    Raises:
      ConversionError: the reason why the data set is not complete, if `failures.raises_refusals`.
      OSError: a file cannot be written, if `failures.retries`.
    """
    try:
        _finish(
            plan,
            shards,
            dead_letters,
            refusals,
            output_folder=output_folder,
            encoding=encoding,
            max_bad_fraction=max_bad_fraction,
            recorded_options=recorded_options,
            failures=failures,
        )
    except OSError as error:
        if failures.retries:
            raise
        what = f"the files beside the shards in {output_folder} cannot be written: {error}"
        _refuse(output_folder, Refusal.from_error(OutputError(what)), failures)


def _finish(
    plan: Plan,
    shards: Iterable[ShardInfo],
    dead_letters: Iterable[DeadLetterBatch],
    refusals: Iterable[Refusal],
    *,
    output_folder: str,
    encoding: EncodingOptions,
    max_bad_fraction: float,
    recorded_options: Mapping[str, Any],
    failures: FailurePolicy,
) -> None:
    """Writes the files beside the shards: dead letters in any case, the rest if all is well.

    Otherwise the reason is noted in the output folder for the launcher. A complete data set that was
    there before is not rewritten.

    Raises:
      ConversionError: the reason why the data set is not complete, if `failures.raises_refusals`.
    """
    all_dead_letters = sorted(dead_letter for batch in dead_letters for dead_letter in batch)
    earlier = earlier_manifest(output_folder)
    asked = plan.refusal is not None and plan.refusal.error == QuestionError.__name__
    if not asked and (
        earlier is None or not files.exists(files.join(output_folder, DEAD_LETTERS_NAME))
    ):
        _write_lines(
            output_folder,
            DEAD_LETTERS_NAME,
            (dead_letter.to_json() for dead_letter in all_dead_letters),
        )
    tally = _final_tally(plan.tally, all_dead_letters)
    infos = list(shards)
    refusal = (
        plan.refusal
        or min(refusals, default=None)
        or too_many_bad(tally, max_bad_fraction)
        or accounting_error(plan, tally, infos)
        or all_filtered(tally, infos)
    )
    if refusal:
        _refuse(output_folder, refusal, failures)
        return
    manifest = build_manifest(
        plan=plan,
        tally=tally,
        shards=infos,
        seed=encoding.seed,
        options={
            **recorded_options,
            **({"label_order": plan.label_order} if plan.label_order else {}),
        },
        features=encoding.written_features,
        counted="objects" if _has_boxes(encoding.columns) else "examples",
    )
    changed = option_changes(_compared(earlier), _compared(manifest)) if earlier else []
    if changed:
        what = (
            f"--resume: since {output_folder} was written, its images or labels have changed: "
            f"{'; '.join(changed)}. Restore them, or convert again with --overwrite"
        )
        _refuse(output_folder, Refusal.from_error(ChangedInputsError(what)), failures)
        return
    there = set(files.list_folder(output_folder))
    side_files = {
        **dict(class_files(plan.classes, has_boxes=_has_boxes(encoding.columns))),
        **tfds_files(manifest),
        MANIFEST_NAME: dump_json(manifest),
    }
    if earlier is None:
        strangers = sorted((there & set(side_files)) - noted_names(output_folder))
        if strangers:
            what = (
                f"{output_folder} holds {strangers[0]}, which this run did not write and will not "
                "overwrite. Move it away and continue with --resume"
            )
            _refuse(output_folder, Refusal.from_error(OutputNotEmptyError(what)), failures)
            return
        note_names(output_folder, WRITING_NAME, side_files)
        there = set()
    for name, content in side_files.items():
        if name not in there:
            files.write_bytes(files.join(output_folder, name), content)
    delete_incomplete(output_folder)


def _compared(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """A manifest without the entries that may change while its data set stays the same."""
    counts = {k: v for k, v in manifest["counts"].items() if k != "ignored_files"}
    same = {k: v for k, v in manifest.items() if k != "questions"}
    return {**same, "counts": counts}


def _refuse(folder: str, refusal: Refusal, failures: FailurePolicy) -> None:
    try:
        note_refusal(folder, refusal)
    except OSError:  # a full disk: the launcher in this process, if it is this one, knows
        if failures.retries:
            raise
    if failures.raises_refusals:
        raise refusal.to_error()


def _final_tally(planned: Tally, dead_letters: Iterable[DeadLetter]) -> Tally:
    """The plan's counts, with all dead letters counted again, including those of the shards."""
    total = Tally()
    total.add(planned)
    total.dead.clear()
    total.shown.clear()
    total.add_dead_letters(dead_letters)
    return total


def _has_boxes(columns: Sequence[Column]) -> bool:
    return any(column.kind is ColumnKind.BOX for column in columns)


def _write_lines(folder: str, name: str, lines: Iterable[str]) -> None:
    with files.open_output(files.join(folder, name)) as sink:
        for line in lines:
            sink.write(line.encode() + b"\n")


@dataclass(kw_only=True)
class FinishDataset(beam.PTransform):
    """Ends a run: checks the accounting, writes dead letters, labels and, last, the manifest.

    Attributes:
      shards: PCollection of `ShardInfo`.
      dead_letters: PCollection of `DeadLetterBatch`.
      refusals: PCollection of `Refusal`, the reasons why shards were not written.
      output_folder: where the files go.
      encoding: what shaped the examples.
      max_bad_fraction: bad samples allowed, of all listed images.
      recorded_options: the options that the manifest records.
      failures: says whether the job itself fails when there is no complete data set.
    """

    shards: beam.PCollection[ShardInfo]
    dead_letters: beam.PCollection[DeadLetterBatch]
    refusals: beam.PCollection[Refusal]
    output_folder: str
    encoding: EncodingOptions
    max_bad_fraction: float
    recorded_options: dict[str, Any]
    failures: FailurePolicy

    def expand(self, plan: beam.PCollection[Plan]) -> beam.PCollection[None]:
        return plan | "Finish" >> beam.Map(
            finish_dataset,
            AsIter(self.shards),
            AsIter(self.dead_letters),
            AsIter(self.refusals),
            output_folder=self.output_folder,
            encoding=self.encoding,
            max_bad_fraction=self.max_bad_fraction,
            recorded_options=self.recorded_options,
            failures=self.failures,
        )
