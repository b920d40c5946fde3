"""Runs a row: its files in the working folder, its command in this process, its outcome as plain data."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import json
import os
import shlex
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beam_pipeline import cli
from beam_pipeline.commands.convert import ConvertOptions
from beam_pipeline.core.errors import ConversionError, QuestionError
from beam_pipeline.core.records.example_proto import Example
from beam_pipeline.inputs import convert_config
from tests.conformance.trees import Tree
from tests.harness import dead_letters_of, manifest_of, on_runner
from tests.pictures import write_files

_ALWAYS = ("--name", "d", "--no_card", "--no_report", "--output", "out")
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
      files: its input, or what writes it into the working folder.
      stable: False if a library encodes the images, so that the shards' bytes change with its release;
        then the digests are of everything else in the examples.
    """

    argv: str
    files: Tree | Callable[[], object]
    stable: bool = True

    def write(self) -> None:
        """Writes the input into the working folder."""
        if callable(self.files):
            self.files()
        else:
            write_files(".", self.files)

    def outcome(self) -> dict[str, Any]:
        """What the conversion understands, asks, refuses or writes."""
        self.write()
        return {"command": self.argv, **converted(shlex.split(self.argv), stable=self.stable)}


def converted(argv: list[str], *, stable: bool) -> dict[str, Any]:
    outcome: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        argv = ["convert", *on_runner(argv, ("--writers=0",)), *_ALWAYS]
        try:
            outcome.update(_understanding(argv))
            cli._run(argv)
        except QuestionError as error:
            return {**outcome, "question": str(error)}
        except ConversionError as error:
            return {**outcome, "error": type(error).__name__}
    return {**outcome, **_written(stable=stable)}


def _understanding(argv: list[str]) -> dict[str, Any]:
    """The layout, the folders and the columns, as found before the job."""
    arguments, _ = cli._parser({"convert"}).parse_known_args(argv)
    source = convert_config(ConvertOptions.from_arguments(arguments))[0].source
    columns = {
        column.name: f"{'list of ' if column.repeated else ''}{column.kind.value}"
        for column in source.columns
    }
    roots = [os.path.relpath(root.uri) for root in source.roots]
    return {"layout": source.layout, "roots": roots, "columns": columns}


def _written(*, stable: bool) -> dict[str, Any]:
    manifest = manifest_of("out")
    dead: dict[str, int] = {}
    for letter in dead_letters_of("out"):
        dead[letter["reason"]] = dead.get(letter["reason"], 0) + 1
    records = dict(_records())
    examples = dict(
        _named(Example.FromString(record)) for shard in records.values() for record in shard
    )
    keys = sorted(examples)
    shown = sorted({keys[0], keys[len(keys) // 2], keys[-1]}) if keys else []
    digests = {
        shard: hashlib.sha256(
            Path("out", shard).read_bytes() if stable else b"".join(map(_without_image, contents))
        ).hexdigest()
        for shard, contents in records.items()
    }
    return {
        "splits": {name: split["examples"] for name, split in manifest["splits"].items()},
        "classes": {c["name"]: _of_class(c) for c in manifest.get("classes") or ()},
        **({"dead_letters": dict(sorted(dead.items()))} if dead else {}),
        "examples": {key: _labels(examples[key]) for key in shown},
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
            data = Path("out", name).read_bytes()
            yield name, list(_contents(gzip.decompress(data) if name.endswith(".gz") else data))


def _contents(shard: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(shard):
        (length,) = struct.unpack_from("<Q", shard, at)
        yield shard[at + 12 : at + 12 + length]
        at += length + 16


def _without_image(record: bytes) -> bytes:
    example = Example.FromString(record)
    del example.features.feature["image/encoded"]
    return bytes(example.SerializeToString(deterministic=True))


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
        text = value.decode("utf-8", "replace")
        return text if len(text) <= 80 else f"sha256 {hashlib.sha256(value).hexdigest()[:16]}"
    return round(value, 6) if isinstance(value, float) else value


def dumped(outcomes: Mapping[str, Any]) -> str:
    """JSON with a line for each fact of a row, so that a change of behaviour is a changed line."""
    rows = []
    for name, outcome in sorted(outcomes.items()):
        facts = []
        for fact, value in outcome.items():
            if isinstance(value, dict) and fact in ("examples", "shards", "answers"):
                inner = ",\n".join(f"   {json.dumps(k)}: {_line(v)}" for k, v in value.items())
                facts.append(f"  {json.dumps(fact)}: {{\n{inner}\n  }}")
            else:
                facts.append(f"  {json.dumps(fact)}: {_line(value)}")
        rows.append(f" {json.dumps(name)}: {{\n" + ",\n".join(facts) + "\n }")
    return "{\n" + ",\n".join(rows) + "\n}\n"


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
