"""The data card `README.md`, in the form that Hugging Face's Hub reads.

YAML at the top lists tasks and size; the text below tells what the data set contains, how it was made,
what was left out and how to read it. Everything comes from the manifest, so the card is the
same on every engine. Source of the form: https://huggingface.co/docs/hub/datasets-cards.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence

from beam_pipeline.core.dataset.manifest import FeatureEntry, Manifest
from beam_pipeline.core.dead_letters import EXPLANATIONS
from beam_pipeline.core.report import contents
from beam_pipeline.core.text import counted, terminal_line

README_NAME = "README.md"

_MOST_ROWS = 100  # classes in the table
_SIZES = ("1K", "10K", "100K", "1M", "10M", "100M", "1B", "10B", "100B", "1T")
_TENSORFLOW = {"int64": "tf.int64", "float": "tf.float32", "bytes": "tf.string"}
_MISSING = {"int64": "tf.int64.min", "float": 'float("nan")', "bytes": '""'}
_SHOWN_ELSEWHERE = ("columns", "features", "classes")


def readme(manifest: Manifest) -> bytes:
    """The card of a complete data set."""
    number = manifest.counts.unlabelled
    unlabelled = f"{number:,} of them {'has' if number == 1 else 'have'} no label. "
    rows = contents.feature_rows(manifest)
    features = [[code(row.key), row.kind, row.values, markdown(row.content)] for row in rows]
    splits = [(markdown(name), *figures) for name, *figures in contents.split_rows(manifest)]
    filled = [name for name, split in manifest.splits.items() if split.shards]
    split = "train" if "train" in filled else "".join(filled[:1])
    labels = {column.feature for column in manifest.options.columns}
    tasks = contents.tasks(manifest)
    labelled = labels & {"image/class", "image/label", "image/object/bbox"}
    page = contents.template("card.md").substitute(
        pretty_name=literal(manifest.name),
        tasks="\n- ".join(["task_categories:", *tasks]) + "\n" if tasks else "",
        size=_size_category(manifest.counts.examples),
        format=manifest.record_format.name,
        name=markdown(manifest.name),
        summary=contents.summary(manifest),
        unlabelled=unlabelled if number else "",
        splits=_table(["split", "examples", "shards", "bytes"], splits, (1, 2, 3)),
        features=_table(["key", "kind", "values", "content"], features),
        classes=_classes(manifest),
        options=_options(manifest),
        left_out=_left_out(manifest),
        split=literal(split),
        as_dict="" if labelled else ", as_dict=True",
        with_tensorflow=_with_tensorflow(manifest, split) if split else "",
        seal=contents.PLACEHOLDER,
    )
    return contents.sealed(page.encode())


# --- text from data ---------------------------------------------------------------------------------

_MARKUP = re.compile(r"[\\`*_{}\[\]<>#!|&~:@$]")
_BARE_LINK = re.compile(r"(?i)(?<=www)\.")  # "www.example.org" becomes a link in GitHub's Markdown

# YAML wants these as escapes; json.dumps escapes those below U+0020.
_NOT_IN_YAML = re.compile("[\x7f-\xa0\u2028\u2029\ufeff\ufffe\uffff]")


def markdown(text: str) -> str:
    """Returns one line of Markdown that shows a text as it is.

    Control characters and direction marks are shown as escapes, very long texts are shortened, and
    spaces at the ends are left out.
    """
    return _BARE_LINK.sub(r"\\.", _MARKUP.sub(r"\\\g<0>", terminal_line(text).strip()))


def code(text: str) -> str:
    """Returns a code span for a table's cell; Markdown's escapes where a span could not show the text."""
    line = terminal_line(text)
    is_plain = line and line == line.strip() and not set(line) & set("`|\\")
    return f"`{line}`" if is_plain else markdown(text)


def literal(text: str) -> str:
    """Returns a double-quoted text on one line, as YAML and Python have it."""
    quoted = json.dumps(text, ensure_ascii=False)
    return _NOT_IN_YAML.sub(lambda match: f"\\u{ord(match[0]):04x}", quoted)


def _size_category(examples: int) -> str:
    index = max(len(str(examples)) - 3, 0)  # of the first size that is more
    if index == 0:
        return f"n<{_SIZES[0]}"
    return f"{_SIZES[index - 1]}<n<{_SIZES[index]}" if index < len(_SIZES) else f"n>{_SIZES[-1]}"


# --- the text -------------------------------------------------------------------------------------


def _table(
    header: Sequence[str], rows: Iterable[Sequence[object]], numbers: Sequence[int] = ()
) -> str:
    """A table; `numbers` are the columns that are aligned to the right."""
    sides = ("---:" if column in numbers else "---" for column in range(len(header)))
    cells = ([f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row] for row in rows)
    first, *lines = (f"| {' | '.join(row)} |" for row in (header, *cells))
    return "\n".join([first, f"|{'|'.join(sides)}|", *lines])


def _classes(manifest: Manifest) -> str:
    """The section on classes, with the empty line after it; empty without classes."""
    classes, unit = manifest.classes, manifest.unit
    if not classes:
        return ""
    counted_in = [unit, *(f"in {markdown(split)}" for split in manifest.splits)] if unit else []
    header, rows = ["id", "class", *counted_in], []
    for entry in classes[:_MOST_ROWS]:
        counts = [entry.count, *(entry.splits.get(split, 0) for split in manifest.splits)]
        rows.append([str(entry.id), markdown(entry.name), *counts[: len(counted_in)]])
    more = f"And {len(classes) - _MOST_ROWS:,} more, which `manifest.json` lists.\n\n"
    table = _table(header, rows, (0, *range(2, len(header))))
    return f"## Classes\n\n{table}\n\n{more if len(classes) > _MOST_ROWS else ''}"


def _options(manifest: Manifest) -> str:
    rows = [("seed", str(manifest.seed))]
    for name, value in manifest.content["options"].items():
        if value and name not in _SHOWN_ELSEWHERE:
            rows.append((code(name), markdown(json.dumps(value, ensure_ascii=False))))
    return _table(["option", "value"], rows)


def _left_out(manifest: Manifest) -> str:
    if not manifest.dead_letters:
        return "Nothing: every listed image became an example, and every label row was used."
    number = counted(manifest.counts.dead_letters, "image or label row/images or label rows")
    rows = [
        (code(reason), count, markdown(EXPLANATIONS.get(reason, "")))
        for reason, count in manifest.dead_letters.items()
    ]
    table = _table(["reason", "number", "meaning"], rows, (1,))
    return f"{number}, listed one by one in [dead_letters.jsonl](dead_letters.jsonl):\n\n{table}"


def _with_tensorflow(manifest: Manifest, split: str) -> str:
    """The code that reads a split without this package; empty if TensorFlow cannot read the shards."""
    reader = manifest.record_format.tf_data
    if not reader:
        return ""
    class_name, given = reader
    arguments = [f", {name}={literal(value)}" for name, value in given.items() if value]
    features = sorted(manifest.features.items())
    return contents.template("tensorflow_card.md").substitute(
        specs="".join(f"    {literal(key)}: {_spec(feature)},\n" for key, feature in features),
        paths=literal(contents.shard_pattern(manifest.splits[split])),
        reader=class_name,
        arguments="".join(arguments),
    )


def _spec(feature: FeatureEntry) -> str:
    dtype = _TENSORFLOW[feature.kind]
    if feature.ragged:
        return f"tf.io.RaggedFeature({dtype})"
    default = f", {_MISSING[feature.kind]}" if feature.optional else ""
    return f"tf.io.FixedLenFeature({[*feature.shape]}, {dtype}{default})"
