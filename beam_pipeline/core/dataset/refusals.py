"""Reasons why a run writes nothing, or no manifest, as its counts show them; each a `Refusal`, or None."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Mapping, Sequence

from beam_pipeline.core.dataset.duplicates import (
    described,
)
from beam_pipeline.core.dataset.plausibility import (
    LabelChecks,
)
from beam_pipeline.core.dataset.tally import Tally, accounting_fault
from beam_pipeline.core.dead_letters import EXPLANATIONS, Reason
from beam_pipeline.core.errors import (
    ChangedInputsError,
    ConversionError,
    DuplicateImagesError,
    LostSamplesError,
    NothingJoinedError,
    NothingLeftError,
    QuestionError,
    TooManyBadSamplesError,
    UnknownClassError,
    UsageError,
)
from beam_pipeline.core.failures import Refusal
from beam_pipeline.core.images.preparation import FILTER_REASONS
from beam_pipeline.core.records.sharding import (
    DEFAULT_SHARD_BYTES,
    MOST_SHARDS,
    ShardConfig,
    ShardInfo,
    ShardPlan,
)
from beam_pipeline.core.text import counted, quoted, terminal_line

_LIKE = 0.5  # how much of two names must be the same for one to be a candidate for the other
_MOST_UNLABELLED = 0.5  # of the listed images, where label files are given
_IN_PYTHON = (
    "beam_pipeline.convert_samples takes images from arrays in Python (docs/datasets/python.md)"
)
_OF_ROWS = {Reason.BAD_ROW.value, Reason.MISSING_IMAGE.value, Reason.MISSING_FILE.value}
_NO_IMAGES = {
    frozenset([".gz", ".h5", ".hdf5", ".idx3-ubyte", ".mat", ".npy", ".npz"]): (
        f"If these files contain arrays of pixels, as in MNIST and SVHN, {_IN_PYTHON}"
    ),
    frozenset([".dcm", ".dicom", ".nii"]): (
        f"DICOM and NIfTI are not read: write a PNG of 8 or 16 bits for each image first; or {_IN_PYTHON}"
    ),
    frozenset([".mp4", ".avi", ".mov", ".mkv", ".webm"]): (
        "Videos are not read: write their frames as images first, as ffmpeg -i clip.mp4 frames/%06d.png does"
    ),
    frozenset([".arw", ".cr2", ".cr3", ".dng", ".nef", ".orf", ".raf"]): (
        "Raw files of cameras are not read: write them as PNG or JPEG first"
    ),
}
"""Extensions of files that contain images, but are not read -> what to do with them."""

_PROGRAM_FAULT = (
    "No manifest is written. This is a fault of the program or the runner; please report it"
)


def _refusal(kind: type[ConversionError], message: str) -> Refusal:
    return Refusal.from_error(kind(message))


def other_classes(tally: Tally, checks: LabelChecks) -> Refusal | None:
    """The refusal of a run whose classes are not all in --classes."""
    unknown = tally.dead[Reason.UNKNOWN_CLASS.value]
    if not unknown or (tally.samples.total() and not checks.known_only):
        return None
    of = f"all {unknown}" if not tally.samples.total() else unknown
    raise_it = "" if checks.known_only else "; check that the file is of this data"
    return _refusal(
        UnknownClassError,
        f"{of} labelled images have a class that --classes {checks.known_from} does not name "
        f"(such as {quoted(tally.shown[Reason.UNKNOWN_CLASS.value])}); dead_letters.jsonl tells "
        f"which{raise_it}",
    )


def _advice(tally: Tally) -> str:
    """What to do with the files passed over, a sentence for each kind, after a full stop; or empty."""
    advices = (
        advice for endings, advice in _NO_IMAGES.items() if endings.intersection(tally.ignored)
    )
    return "".join(f". {advice}" for advice in advices)


def nothing_joined(tally: Tally, option: str = "--labels") -> Refusal | None:
    """The refusal of a run without any label.

    Args:
      tally: the counts of listing, labels and join.
      option: which names the label files, or the masks.
    """
    rows, fields = ("masks", "") if option == "--masks" else ("label rows", " and --key_column")
    no_row_met = bool(tally.label_rows) and tally.orphan_rows >= tally.label_rows
    if tally.samples.total() and not (tally.unlabelled and no_row_met):
        return None
    if not tally.listed:
        ignored = ", ".join(f"{n} {kind}" for kind, n in sorted(tally.ignored.items()))
        passed_over = f" (passed over: {ignored})" if ignored else ""
        return _refusal(
            NothingJoinedError, f"no images found{passed_over}; check --images{_advice(tally)}"
        )
    if tally.dead[Reason.EXCLUDED.value]:
        return _refusal(
            NothingJoinedError,
            f"no sample is left: --exclude names all {tally.dead[Reason.EXCLUDED.value]} images "
            "with a label",
        )
    unlabelled = tally.shown.get(Reason.UNLABELLED.value, [])
    of_rows = _OF_ROWS & tally.dead.keys()
    if not tally.label_rows and tally.dead and (of_rows or not unlabelled):  # as in a pipeline
        explained = {reason.value: f": {text}" for reason, text in EXPLANATIONS.items()}
        causes = "; ".join(
            f"{n} {reason}{_example(tally, reason)}{explained.get(reason, '')}"
            for reason, n in sorted(tally.dead.items())
        )
        return _refusal(
            NothingJoinedError, f"none of {tally.listed} images can be written: {causes}"
        )
    if not tally.label_rows:
        return _refusal(
            NothingJoinedError,
            f"none of {tally.listed} images has a label: there are no label rows, and no class "
            f"folders (images are {quoted(unlabelled)}). Give --labels with rows, put each "
            "class's images into a folder of its own, or take the class from the names with "
            "--label_from, such as '(?P<label>[a-z]+)[._]?[0-9]+[.]jpg'; --unlabelled keep writes "
            f"images without labels{_unmatched_name(tally)}",
        )
    reasons = ", ".join(f"{n} {reason}" for reason, n in sorted(tally.dead.items()))
    missing = tally.shown.get(Reason.MISSING_IMAGE.value, [])
    all_met = not tally.orphan_rows and option != "--masks"
    if not missing and (not unlabelled or all_met):
        return _refusal(
            NothingJoinedError,
            f"none of {tally.listed} images has labels that can be used, in {tally.label_rows} {rows} "
            f"({reasons}). {_told(tally)}dead_letters.jsonl lists them all",
        )
    return _refusal(
        NothingJoinedError,
        f"none of {tally.listed} images met one of {tally.label_rows} {rows} ({reasons}). "
        f"Images are named like {quoted(unlabelled)}; {rows.split()[-1]} name {quoted(missing)}. "
        f"{_told(tally)}{_nearest(missing, unlabelled)}"
        f"Check --images{',' if fields else ' and'} {option}{fields}",
    )


def _example(tally: Tally, reason: str) -> str:
    """Examples of dead letters in brackets: the first few keys, and what is said of the first."""
    keys = [key for key in tally.shown.get(reason, []) if key]
    text = ""
    if reason in tally.first:
        _, message, file, line = tally.first[reason]
        place = f"{file}, line {line}" if line else file
        text = f"{place}: {message}" if place else message
    if not keys:
        return f" (such as {text})" if text else ""
    return f" (such as {quoted(keys)}{f'; of the first: {text}' if text else ''})"


def too_many_bad(tally: Tally, max_bad_fraction: float) -> Refusal | None:
    """The refusal of a run with more bad samples than allowed."""
    by_reason = tally.bad
    bad = sum(by_reason.values())
    if (
        not bad or max_bad_fraction >= 1
    ):  # rows without an image can make more than there are images
        return None
    candidates = tally.listed + tally.further_samples
    if candidates and bad / candidates <= max_bad_fraction:
        return None
    reasons = ", ".join(
        f"{n} {reason}{_example(tally, reason)}" for reason, n in sorted(by_reason.items())
    )
    return _refusal(
        TooManyBadSamplesError,
        f"{counted(bad, 'bad sample')} among {counted(tally.listed, 'listed image')}, {max_bad_fraction:g} of them "
        f"allowed: {reasons}. dead_letters.jsonl lists them; fix them or raise --max_bad_fraction",
    )


def duplicate_images(tally: Tally) -> Refusal | None:
    """The refusal of a run that finds images of the same bytes."""
    if not tally.duplicates.groups:
        return None
    return _refusal(
        DuplicateImagesError,
        f"--duplicates error: {'; '.join(described(tally.duplicates))}. Remove all but one of each "
        "group; --duplicates first does so for you, and keep writes them all",
    )


def all_filtered(tally: Tally, shards: Sequence[ShardInfo]) -> Refusal | None:
    """The refusal of a run whose filters left nothing to write."""
    filtered = {
        name: tally.dead[reason.value]
        for reason, name in FILTER_REASONS.items()
        if tally.dead[reason.value]
    }
    if not filtered or any(shard.examples for shard in shards):
        return None
    by_filter = ", ".join(f"{n} by --{name}" for name, n in filtered.items())
    return _refusal(
        NothingLeftError,
        f"no image is left: of {counted(tally.listed, 'listed image')}, the filters leave out {by_filter}. "
        "dead_letters.jsonl lists them with their sizes; choose other limits",
    )


def mostly_unlabelled(tally: Tally, option: str = "--labels") -> Refusal | None:
    """The refusal of a run whose label files leave out more images than they name.

    Args:
      tally: the counts of listing, labels and join.
      option: which names the label files, or the masks.
    """
    unlabelled = tally.dead[Reason.UNLABELLED.value]
    if unlabelled <= _MOST_UNLABELLED * tally.listed:
        return None
    further = ", ".join(
        f"{n} {reason}{_first(tally, reason)}"
        for reason, n in sorted(tally.dead.items())
        if reason != Reason.UNLABELLED.value
    )
    return _refusal(
        QuestionError,
        terminal_line(
            f"{unlabelled} of {tally.listed} images lack a label, such as "
            f"{quoted(tally.shown.get(Reason.UNLABELLED.value, []))}"
            f"{f'; besides, {further}' if further else ''}. A data set without them is seldom "
            f"meant: check {option}, or name fewer images in --images; --yes leaves them out"
        ),
    )


def other_shards(then: ShardPlan, now: ShardPlan) -> Refusal:
    """The refusal of a resumed run whose shards differ from the earlier run's."""
    before, after = dict(then.shards), dict(now.shards)
    differences = "; ".join(
        f"{split}: {counted(before.get(split, 0), 'shard')} then, {after.get(split, 0)} now"
        for split in sorted({*before, *after})
        if before.get(split) != after.get(split)
    )
    return _refusal(
        ChangedInputsError,
        "--resume: the images or labels have changed since the earlier run, so that other shards "
        f"would be written ({differences}). Restore them, or convert again with --overwrite",
    )


def accounting_error(
    shard_plan: ShardPlan, tally: Tally, shards: Sequence[ShardInfo]
) -> Refusal | None:
    """The refusal of a run that lost or doubled samples, which is a fault of the program.

    Every shard must have been written once, and the numbers must add up.
    """
    written = sorted(shard.file_name for shard in shards)
    planned = sorted(spec.file_name for spec in shard_plan.specs)
    if written != planned:
        return _refusal(
            LostSamplesError,
            f"{len(planned)} shards were planned, {len(written)} were written: {_PROGRAM_FAULT}",
        )
    examples = sum(shard.examples for shard in shards)
    fault = accounting_fault(
        listed=tally.listed,
        orphan_rows=tally.orphan_rows,
        further=tally.further_samples,
        dropped=tally.dropped_objects,
        examples=examples,
        dead_letters=tally.dead.total(),
    )
    if fault:
        return _refusal(
            LostSamplesError, f"{fault}: samples were lost or doubled. {_PROGRAM_FAULT}"
        )
    return None


def too_small_shards(
    shards: ShardConfig, counts: Mapping[str, int], tally: Tally
) -> Refusal | None:
    """The refusal of a size that is smaller than the images, as `100` is where `100MB` was meant."""
    # The last shard of a split may be a remainder. Images above the default size are left to it.
    chosen = shards.shard_bytes != DEFAULT_SHARD_BYTES
    for split, count in counts.items():
        samples = tally.samples[split]
        if shards.is_counted(split) or count - 1 <= samples:
            continue
        if chosen or count > MOST_SHARDS:
            return _refusal(
                UsageError,
                f"--shard_size is {counted(shards.shard_bytes, 'byte')}, which makes "
                f"{counted(count, 'shard')} of {counted(samples, 'sample')} in the split {split}; "
                "give a size of several images, with its unit, such as --shard_size 200MB, "
                "or --num_shards",
            )
    return None


def unknown_splits(shards: ShardConfig, splits: Sequence[str]) -> Refusal | None:
    """The refusal of a run whose --num_shards names a split that there is not."""
    if shards.num_shards is None or isinstance(shards.num_shards, int):
        return None
    unknown = sorted(set(shards.num_shards) - set(splits))
    if not unknown:
        return None
    return _refusal(
        UsageError,
        f"--num_shards names the split {', '.join(unknown)}, but the splits are {', '.join(splits)}",
    )


def empty_split(tally: Tally, splits: Sequence[str]) -> Refusal | None:
    """The refusal of a run that was to divide groups or classes and left a split empty."""
    empty = [split for split in splits if not tally.samples[split]]
    if not empty:
        return None
    return _refusal(
        UsageError,
        f"--splits: not one of {tally.samples.total()} samples fell into {', '.join(empty)}; "
        "there are too few groups, or too few samples in each class, for so small a share. "
        "Give it a larger share, divide groups with --stratify, or try another --seed",
    )


def _told(tally: Tally) -> str:
    """The message of the first dead letter of a row, or else of an image: a sentence."""
    for reason in sorted(
        tally.first, key=lambda reason: (reason == Reason.UNLABELLED.value, reason)
    ):
        return f"The first {reason}{_first(tally, reason)}. "
    return ""


def _first(tally: Tally, reason: str) -> str:
    """The message of the first dead letter with a reason, and its file; empty if unknown."""
    if reason not in tally.first:
        return ""
    key, message, file, line = tally.first[reason]
    where = f" ({file}, line {line})" if line else f" ({file})" if file else ""
    return f", {key!r}{where}: {message}" if key else f"{where}: {message}"


def _nearest(rows: Sequence[str], images: Sequence[str]) -> str:
    """A sentence with the two most similar names; empty if none are.

    A row that names an image from a folder below --images on states that folder.
    """
    pairs = [
        (difflib.SequenceMatcher(None, row, image).ratio(), row, image)
        for row in rows
        for image in images
    ]
    for _, row, image in pairs:
        if unicodedata.normalize("NFC", row) == unicodedata.normalize("NFC", image):
            return (
                f"The row {row!a} and the image {image!a} differ only in their Unicode form: "
                "write one of them as the other, with unicodedata.normalize in Python. "
            )
        if image.endswith(f"/{row}"):
            folder = image.removesuffix(row)
            return f"The row {row!r} would name the image {image!r} if --images named its folder {folder}. "
    ratio, row, image = max(pairs, default=(0.0, "", ""))
    return (
        f"Nearest to each other are the row {row!r} and the image {image!r}. "
        if ratio >= _LIKE
        else ""
    )


def _unmatched_name(tally: Tally) -> str:
    """The fault that --label_from finds in the first image's name, if no image has a label for it."""
    _, message, _, _ = tally.first.get(Reason.UNLABELLED.value, ("", "", "", 0))
    return f". Of the first: {message}" if "--label_from" in message else ""
