"""Two data sets, or two runs, compared by receipts, so that no image and no shard is read.

- `SampleChanges`: the samples that differ between two data sets;
- `ShardFate`: whether a shard is taken from the earlier data set, which `changes.json` sums up;
- differences of inputs and of options: phrases for people, "seed was 0, is 1".
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

from beam_pipeline.core import text, typed_json
from beam_pipeline.core.dataset.receipts import Receipt, ShardInputs
from beam_pipeline.core.dead_letters import Reason
from beam_pipeline.core.labels.schema import FILE_KINDS
from beam_pipeline.core.records import formats, sharding
from beam_pipeline.core.references import SampleRef, named_files

CHANGES_NAME = "changes.json"
_FORMAT = "beam-tfrecord-changes"
_SHOWN = 3
# A sample is the same if these and its labels are: its file may have moved, and its label file.
_SAME = ("key", "size", "split", "offset", "version")
_BOX_NUMBERS = 4  # what follows them is the box's line in the label file
_PASSING = frozenset({Reason.UNREADABLE.value, Reason.CHANGED_SINCE_LISTING.value})
"""Reasons that tell something of the moment rather than of the sample."""


class SampleChanges(NamedTuple):
    """The samples that differ between two data sets, by their keys, sorted.

    Attributes:
      added: only the later one has them.
      removed: only the earlier one has them.
      changed: their image differs, or their split.
      relabelled: their labels differ; the image of such a sample may have changed as well.
    """

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    relabelled: tuple[str, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """Kind of change -> number of samples."""
        return {kind: len(keys) for kind, keys in self._asdict().items()}

    @classmethod
    def sum_of(cls, parts: Iterable[SampleChanges]) -> SampleChanges:
        """The changes of all parts; a sample that left one and came to another has moved.

        Such a sample counts as changed, as its split did.
        """
        fields = zip(NO_CHANGES, *parts, strict=True)
        added, removed, changed, relabelled = (set(chain.from_iterable(keys)) for keys in fields)
        moved = added & removed
        return cls(
            added=tuple(sorted(added - moved)),
            removed=tuple(sorted(removed - moved)),
            changed=tuple(sorted(changed | moved)),
            relabelled=tuple(sorted(relabelled)),
        )


def summary_of(counts: Mapping[str, int]) -> str:
    """Numbers of changes, for people: "3 added, 1 removed"."""
    return ", ".join(f"{count} {kind}" for kind, count in counts.items() if count) or "no changes"


NO_CHANGES = SampleChanges()


def compare_samples(
    before: Iterable[SampleRef], after: Iterable[SampleRef], files: Sequence[int] = ()
) -> SampleChanges:
    """Compares samples by their keys, and their labels as far as examples show them.

    Args:
      before: the earlier ones.
      after: the later ones, which are not held in memory.
      files: the indices of the labels that are files.
    """
    left = {ref.key: ref for ref in before}
    added, changed, relabelled = [], [], []
    for now in after:
        then = left.pop(now.key, None)
        if then is None:
            added.append(now.key)
        elif then != now:
            if any(getattr(then, name) != getattr(now, name) for name in _SAME):
                changed.append(now.key)
            # A size that only one of them has from its label file is not a difference.
            sizes = {then.claimed_size, now.claimed_size} - {None}
            if len(sizes) > 1 or _shown(then, files) != _shown(now, files):
                relabelled.append(now.key)
    return SampleChanges(*(tuple(sorted(keys)) for keys in (added, left, changed, relabelled)))


def written_samples(receipt: Receipt) -> list[SampleRef]:
    """The samples of a shard that became examples."""
    dead = {letter.key for letter in receipt.dead_letters if not letter.of_object}
    refs = receipt.inputs.refs
    return [ref for ref in refs if ref.key not in dead] if dead else list(refs)


def samples_between(
    receipts: Sequence[Receipt], spec: sharding.ShardSpec, hasher: sharding.KeyHasher
) -> list[SampleRef]:
    """The samples of other shards that would be in this one.

    Args:
      receipts: of the shards of the same split that have hashes in common with this one.
      spec: this one.
      hasher: places samples.
    """
    return [
        ref
        for receipt in receipts
        for ref in written_samples(receipt)
        if receipt.inputs.spec.of == spec.of
        or sharding.shard_of(hasher.order(ref.key), spec.of) == spec.number
    ]


def shards_meeting(spec: sharding.ShardSpec, plan: sharding.ShardPlan) -> list[sharding.ShardSpec]:
    """The shards of another plan whose ranges of hashes overlap with a shard's of the same split.

    Shard 1 of 2 overlaps with shards 2 and 3 of 4, and shards 1 and 2 of 3.
    """
    if spec.split not in plan.first_shard:
        return []
    first, of = plan.first_shard[spec.split]
    begin = spec.number * of // spec.of
    end = -(-(spec.number + 1) * of // spec.of)
    return [plan.spec(first + number) for number in range(begin, end)]


class ShardFate(NamedTuple):
    """The fate of a shard in a conversion that reuses an earlier data set.

    Attributes:
      samples: the samples in its range of hashes that differ from the earlier data set's.
      reused: it is a shard of the earlier data set.
      bytes: length of the file.
      notes: sentences for people, such as about a shard that is damaged.
    """

    samples: SampleChanges
    reused: bool
    bytes: int
    notes: tuple[str, ...] = ()


def changes_file(
    folder: str,
    shards: Iterable[ShardFate],
    *,
    gone: SampleChanges = NO_CHANGES,
    notes: Sequence[str] = (),
) -> dict[str, Any]:
    """The content of `changes.json`.

    Args:
      folder: the earlier data set.
      shards: every shard of this one.
      gone: samples of splits that this one does not have.
      notes: sentences for people about the whole.
    """
    fates = list(shards)
    samples = SampleChanges.sum_of([gone, *(shard.samples for shard in fates)])
    reused = [shard.bytes for shard in fates if shard.reused]
    written = [shard.bytes for shard in fates if not shard.reused]
    return {
        "format": _FORMAT,
        "format_version": typed_json.FORMAT_VERSION,
        "since": folder,
        "samples": samples.counts,
        "shards": {"reused": len(reused), "written": len(written)},
        "bytes": {"reused": sum(reused), "written": sum(written)},
        "notes": [*notes, *sorted(note for shard in fates for note in shard.notes)],
    }


@dataclass(frozen=True)
class _ChangesFile:
    since: str
    samples: Mapping[str, int]
    shards: Mapping[str, int]
    bytes: Mapping[str, int]
    notes: tuple[str, ...]


def parse_changes(data: bytes, uri: str) -> Mapping[str, Any]:
    """Reads `changes.json` back.

    Raises:
      ConversionError: it is another program's file, or damaged.
    """
    fault = f"{uri} does not list the changes of a data set"
    content: _ChangesFile = typed_json.parse(_ChangesFile, data, fault, file_format=_FORMAT)
    return vars(content)


def input_differences(then: ShardInputs, now: ShardInputs) -> str:
    """The differences between two inputs of a shard, for people; empty if there are none."""
    before, after = ({ref.key: ref for ref in inputs.refs}.values() for inputs in (then, now))
    added, gone, *differing = compare_samples(before, after, file_labels(now.options))
    groups = {"added": added, "gone": gone, "changed": sorted(set(chain(*differing)))}
    some = {kind: text.enumerated(keys, _SHOWN) for kind, keys in groups.items() if keys}
    phrases = [f"{len(groups[kind])} {kind} ({keys})" for kind, keys in some.items()]
    phrases += option_differences(then.options, now.options)
    if not phrases and then.class_ids != now.class_ids:
        phrases.append("the ids of classes")
    return "; ".join(phrases)


def file_labels(options: Mapping[str, Any]) -> list[int]:
    """The indices of the labels that are files, such as masks, by the options of a shard or manifest."""
    kinds = [column["kind"] for column in options.get("columns", ())]
    return [index for index, kind in enumerate(kinds) if kind in FILE_KINDS]


def _shown(ref: SampleRef, files: Sequence[int]) -> str:
    """Labels as text, since NaN is not equal to itself.

    Without the places of files, which may have moved, and without the lines of boxes: where a row is
    added to a table, those of all later rows change.
    """
    labels: list[Any] = [without_lines(value) for value in ref.labels]
    for index in files:
        if index < len(labels):
            labels[index] = [file[1:] for file in named_files(labels[index])]
    return json.dumps(labels)


def without_lines(value: Any) -> Any:
    """A label without the lines that boxes have in the label file."""
    if isinstance(value, tuple) and value and isinstance(value[0], tuple):
        return [item[:_BOX_NUMBERS] if len(item) == _BOX_NUMBERS + 1 else item for item in value]
    return value


def has_same_outcome(receipt: Receipt, now: ShardInputs) -> bool:
    """Tells whether a conversion from nothing would write this shard and these dead letters.

    Dead letters name images, label files and lines, so these must be the same as well. A sample that
    could not be read then may be readable now.
    """
    passing = any(letter.reason in _PASSING for letter in receipt.dead_letters)
    if passing or input_differences(receipt.inputs, now):
        return False
    dead = {letter.key for letter in receipt.dead_letters}
    then = {ref.key: ref for ref in receipt.inputs.refs if ref.key in dead}
    return all(then[ref.key] == ref for ref in now.refs if ref.key in dead)


def with_settled(run: Mapping[str, Any], settled: Mapping[str, Any]) -> Mapping[str, Any]:
    """The record of a run, with the options that its plan settled.

    Classes that it leaves open and that the plan did not settle are not recorded.
    """
    options = {**run["options"], **settled}
    if not options.get("classes", True):
        del options["classes"]
    return {**run, "options": options}


_AS_TYPED = {"record_format": "format"}
"""Recorded key -> option, where their names differ."""
_IF_ABSENT = {"record_format": formats.DEFAULT_FORMAT}


def option_differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """A phrase for each option that was another: "seed was 0, is 1"."""
    before, after = (json.loads(json.dumps(options)) for options in (then, now))
    return list(_differences(before, after, ""))


def _differences(then: Mapping[str, Any], now: Mapping[str, Any], path: str) -> Iterator[str]:
    for key in sorted({*then, *now}):
        before, after = (options.get(key, _IF_ABSENT.get(key)) for options in (then, now))
        if isinstance(before, dict) and isinstance(after, dict):
            yield from _differences(before, after, f"{path}{key}.")
        elif before != after:
            name = _AS_TYPED.get(key, key)
            yield f"{path}{name} was {json.dumps(before)}, is {json.dumps(after)}"
