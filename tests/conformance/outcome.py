"""Runs a row: its files in the working folder, its command in this process, its outcome as plain data."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import json
import os
import re
import shlex
import shutil
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from beam_pipeline import cli
from beam_pipeline.commands.convert import ConvertOptions
from beam_pipeline.config import ConvertConfig
from beam_pipeline.core.dataset.manifest import CHECKSUM_ENTRY, LINES_ENTRY, ROLES_ENTRY, dump_json
from beam_pipeline.core.dataset.names import MANIFEST_NAME
from beam_pipeline.core.errors import ConversionError, QuestionError
from beam_pipeline.core.images.png import MAGIC
from beam_pipeline.core.records.example_view import Example
from beam_pipeline.core.report.metadata import SCHEMA_NAME
from beam_pipeline.inputs import check_questions, convert_config
from tests.conformance.trees import Tree
from tests.harness import dead_letters_of, manifest_of, on_runner
from tests.pictures import write_files

_ALWAYS = ("--writers", "0", "--name", "d", "--no_card", "--no_report", "--output", "out")
_FEW_PIXELS = 32
"""Of a PNG among the labels whose values are compared, not its digest."""

_OF_THE_IMAGE = frozenset(
    f"image/{name}"
    for name in (
        "channels",
        "colorspace",
        "encoded",
        "filename",
        "format",
        "height",
        "source_id",
        "width",
    )
)


@dataclass(frozen=True)
class Row:
    """A conversion.

    Attributes:
      argv: options of `convert`, as typed.
      files: its input.
      makers: what writes more of it, before that, into the working folder.
      stable: False if a library encodes the images, so that the shards' bytes change with its release;
        then the digests are of everything else in the examples.
      every_file: True to compare the files beside the shards, too.
      in_words: True to compare notes, reasons, errors and dead letters word for word, and all examples.
      runs: False if only what is known before the job counts.
    """

    argv: str
    files: Tree
    makers: Sequence[Callable[[str], object]] = ()
    stable: bool = True
    runs: bool = True
    every_file: bool = False
    in_words: bool = False

    def prepared(self) -> list[str]:
        """Writes the input into the working folder, and returns the options."""
        for make in self.makers:
            make(".")
        write_files(".", self.files)
        return shlex.split(self.argv)

    def outcome(self) -> dict[str, Any]:
        """What the conversion understands, asks, refuses or writes; the same of each command that it suggests."""
        self.prepared()
        outcome = {"command": self.argv, **self._converted(self.argv)}
        if "commands" in outcome:
            outcome["commands"] = {
                command: _short(self._suggested(command)) for command in outcome["commands"]
            }
            for command, suggested in outcome["commands"].items():
                assert not {"questions", "error"} & suggested.keys(), (
                    f"{command} leads to {suggested}"
                )
        if self.every_file:
            outcome["files"] = _files()
        return outcome

    def _suggested(self, command: str) -> dict[str, Any]:
        shutil.rmtree("out", ignore_errors=True)
        return self._converted(command)

    def _converted(self, command: str) -> dict[str, Any]:
        argv = shlex.split(command)
        return converted(argv, stable=self.stable, runs=self.runs, in_words=self.in_words)


def row(argv: str, *trees: Tree, **options: bool) -> Row:
    """A conversion of the files of several trees, of which a later one replaces those of an earlier one."""
    return Row(argv, {name: text for tree in trees for name, text in tree.items()}, **options)


def converted(
    argv: list[str], *, stable: bool, runs: bool = True, in_words: bool = False
) -> dict[str, Any]:
    """What becomes of a command's options."""
    outcome: dict[str, Any] = {}
    with (
        contextlib.redirect_stdout(io.StringIO()) as out,
        contextlib.redirect_stderr(io.StringIO()),
    ):
        argv = on_runner(argv)
        try:
            config, reason = _config_and_reason(argv)
            outcome.update(
                _understanding_in_words(config, reason) if in_words else _understanding(config)
            )
            if not runs:
                check_questions(config)
                return outcome
            cli._run(["convert", *argv, *_ALWAYS])
        except QuestionError as error:
            assert not os.path.exists("out") or os.listdir("out") == []
            message = str(error)
            reasons = {"reasons": _reasons(message) or [_here(message)]}
            reasons = {} if runs and not in_words else reasons
            return {**outcome, "questions": list(error.ids), **reasons, **_commands(str(error))}
        except ConversionError as error:
            if not in_words:
                return {**outcome, "error": ", ".join(error.ids)}
            left = {"left": sorted(os.listdir("out"))} if os.path.exists("out") else {}
            return {**outcome, "error": _here(str(error)), **left}
    written = _written(stable=stable, shown=12 if in_words else 3)
    return {**outcome, **written, **(_in_words(out.getvalue()) if in_words else {})}


def _here(text: str) -> str:
    """A text without the name of the working folder, and the words of Python's parser of JSON, which change."""
    return re.sub(
        r"(Expecting|Illegal|Extra data)[^|]*\(char \d+\)", "...", text.replace(os.getcwd(), ".")
    )


def _in_words(printed: str) -> dict[str, Any]:
    """The notes that a conversion printed, its dead letters, and what it counted."""
    letters = [
        f"{each['key']} | {each['reason']} | {each.get('file', '')}:{each.get('line', '')} | {each['message']}"
        for each in dead_letters_of("out")
    ]
    counts = {k: n for k, n in manifest_of("out")["counts"].items() if n}
    return {
        "said": [line.strip() for line in _here(printed).splitlines() if "note: " in line],
        "letters": sorted(map(_here, letters)),
        "counts": counts,
    }


def _files() -> dict[str, str]:
    """File -> SHA-256, of those beside the shards.

    Left out are the dead letters, which name the folder, the schema, which is younger, and of the manifest the
    figures of images, the roles and the checksums; with compressed shards, what contains their sizes.
    """
    left_out = {"dead_letters.jsonl", SCHEMA_NAME}
    if any(name.endswith(".gz") for name in os.listdir("out")):
        left_out |= {MANIFEST_NAME, "dataset_info.json"}
    digests = {}
    for path in sorted(Path("out").iterdir()):
        if path.is_file() and ".tfrecord-" not in path.name and path.name not in left_out:
            data = path.read_bytes()
            if path.name == MANIFEST_NAME:
                manifest = json.loads(data)
                for entry in ("images", ROLES_ENTRY, CHECKSUM_ENTRY, LINES_ENTRY):
                    manifest.pop(entry, None)
                data = dump_json(manifest)
            digests[path.name] = hashlib.sha256(data).hexdigest()
    return digests


def _reasons(message: str) -> list[str]:
    return [
        line.removeprefix("- ").replace(os.getcwd(), ".")
        for line in message.splitlines()
        if line.startswith("- ")
    ]


def _commands(message: str) -> dict[str, list[str]]:
    """The options that the commands in a message give, without those of the suite."""
    commands = []
    for line in message.splitlines():
        if line.startswith("    beam-tfrecord convert "):
            argv = shlex.split(line)[2:]
            for option in _ALWAYS:
                if option in argv and option.startswith("--"):
                    at = argv.index(option)
                    del argv[at : at + (1 if option.startswith("--no_") else 2)]
            commands.append(shlex.join(argv).replace(os.getcwd(), "."))
    return {"commands": commands} if commands else {}


def _short(outcome: dict[str, Any]) -> dict[str, Any]:
    """What shows that a suggested command does what was meant."""
    facts = ("layout", "error", "questions", "commands", "splits", "classes", "dead_letters")
    return {fact: outcome[fact] for fact in facts if fact in outcome}


def _config_and_reason(argv: list[str]) -> tuple[ConvertConfig, str]:
    arguments, _ = cli._parser({"convert"}).parse_known_args(["convert", *argv, *_ALWAYS])
    return convert_config(ConvertOptions.from_arguments(arguments))


def config_of(argv: list[str]) -> ConvertConfig:
    """What `convert` makes of options."""
    return _config_and_reason(argv)[0]


def _understanding(config: ConvertConfig) -> dict[str, Any]:
    """The layout, the folders, the columns and all roles, as found before the job."""
    source = config.source
    columns = {
        column.name: f"{'list of ' if column.repeated else ''}{column.kind.value}"
        for column in source.columns
    }
    roots = [os.path.relpath(root.uri) for root in source.roots]
    roles = [f"{row.subject}: {row.role}" for row in source.roles]
    return {"layout": source.layout, "roots": roots, "columns": columns, "roles": roles}


def _understanding_in_words(config: ConvertConfig, reason: str) -> dict[str, Any]:
    """The same with the reason for the layout, examples of the values, known classes and notes."""
    source = config.source
    facts = {
        **_understanding(config),
        "reason": _here(reason),
        "roots": [
            _here(
                " ".join(
                    [root.uri, *root.patterns, *root.within, *(f"not {w}" for w in root.without)]
                )
            )
            for root in source.roots
        ],
        "roles": [f"{row.subject} | {row.values} | {row.role}" for row in source.roles],
        "classes": dict(source.numbering.number([])),
        "notes": [*map(_here, source.notes)],
    }
    return {fact: value for fact, value in facts.items() if value}


def _written(*, stable: bool, shown: int) -> dict[str, Any]:
    manifest = manifest_of("out")
    dead: dict[str, int] = {}
    for letter in dead_letters_of("out"):
        dead[letter["reason"]] = dead.get(letter["reason"], 0) + 1
    records = dict(_records())
    examples = dict(
        _named(Example.FromString(record)) for shard in records.values() for record in shard
    )
    keys = sorted(examples)
    if len(keys) > shown:
        keys = sorted({keys[0], keys[len(keys) // 2], keys[-1]})
    digests = {
        shard: hashlib.sha256(
            _plain_bytes(shard) if stable else b"".join(map(_without_image, contents))
        ).hexdigest()
        for shard, contents in records.items()
    }
    for example in () if stable else map(examples.get, keys):
        for key in _pictures_beside(example):
            del example.features.feature[key]
    return {
        "splits": {name: split["examples"] for name, split in manifest["splits"].items()},
        "classes": {c["name"]: _of_class(c) for c in manifest.get("classes") or ()},
        **({"dead_letters": dict(sorted(dead.items()))} if dead else {}),
        "examples": {key: _labels(examples[key]) for key in keys},
        "shards": digests,
    }


def _of_class(entry: Mapping[str, Any]) -> Any:
    """Its id, with the number of its images if that is known."""
    return [entry["id"], entry["examples"]] if "examples" in entry else entry["id"]


def _named(example: Any) -> tuple[str, Any]:
    """(key, example); without a key, the digest stands for it."""
    keys = example.features.feature["image/source_id"].bytes_list.value
    content = example.SerializeToString(deterministic=True)
    return keys[0].decode() if keys else hashlib.sha256(content).hexdigest()[:16], example


def _records() -> Iterator[tuple[str, list[bytes]]]:
    for name in sorted(os.listdir("out")):
        if ".tfrecord-" in name:
            yield name, list(_contents(_plain_bytes(name)))


def _plain_bytes(name: str) -> bytes:
    """A shard, decompressed: zlib and zlib-ng compress the same bytes differently."""
    data = Path("out", name).read_bytes()
    return gzip.decompress(data) if name.endswith(".gz") else data


def _contents(shard: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(shard):
        (length,) = struct.unpack_from("<Q", shard, at)
        yield shard[at + 12 : at + 12 + length]
        at += length + 16


def _without_image(record: bytes) -> bytes:
    example = Example.FromString(record)
    for key in {"image/encoded", *_pictures_beside(example)} & {*example.features.feature}:
        del example.features.feature[key]
    return bytes(example.SerializeToString(deterministic=True))


def _pictures_beside(example: Any) -> list[str]:
    """The keys of pictures of columns, which a library may have encoded, too."""
    keys = [key for key in example.features.feature if not key.startswith("image/")]
    return [key for key in keys if key.endswith("/encoded") and f"{key[:-8]}/format" in keys]


def _labels(example: Any) -> dict[str, Any]:
    """Feature -> its value or values, of an example, but for those that every image has."""
    features = {}
    for name, feature in sorted(example.features.feature.items()):
        if name not in _OF_THE_IMAGE:
            kind = feature.WhichOneof("kind")
            values = [_plain(value) for value in getattr(feature, kind).value] if kind else []
            features[name.removeprefix("image/")] = values[0] if len(values) == 1 else values
    return features


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        if value.startswith(MAGIC):
            with Image.open(io.BytesIO(value)) as mask:
                if mask.width * mask.height <= _FEW_PIXELS:
                    pixels = memoryview(mask.tobytes()).cast("H" if "16" in mask.mode else "B")
                    return f"{mask.mode} {[*pixels]}"
        text = value.decode("utf-8", "replace")
        return text if len(text) <= 80 else f"sha256 {hashlib.sha256(value).hexdigest()[:16]}"
    return round(value, 6) if isinstance(value, float) else value


def dumped(outcomes: Mapping[str, Any]) -> str:
    """JSON with a line for each fact of a row, so that a change of behaviour is a changed line."""
    rows = []
    for name, outcome in sorted(outcomes.items()):
        facts = []
        for fact, value in outcome.items():
            if isinstance(value, dict) and fact in ("examples", "shards", "commands", "files"):
                inner = ",\n".join(f"   {json.dumps(k)}: {_line(v)}" for k, v in value.items())
                facts.append(f"  {json.dumps(fact)}: {{\n{inner}\n  }}")
            else:
                facts.append(f"  {json.dumps(fact)}: {_line(value)}")
        rows.append(f" {json.dumps(name)}: {{\n" + ",\n".join(facts) + "\n }")
    return "{\n" + ",\n".join(rows) + "\n}\n"


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
