"""Writes metadata.json, the parameters of the Flex Template, from the options of `convert`.

    python deploy/dataflow/make_metadata.py [--check]

The format is TemplateMetadata of
https://cloud.google.com/dataflow/docs/reference/rest/v1b3/TemplateMetadata.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from beam_pipeline.commands import PROGRAM, convert
from beam_pipeline.options.group import Option, parse_size

METADATA = Path(__file__).with_name("metadata.json")

# Options that are not parameters, and why.
LEFT_OUT = {
    "writers": "processes on the machine of the command, which here only submits the job",
    "show_roles": "prints a table, and converts nothing",
    "no_wait": "a launcher never waits; main.py says so itself",
}

_PICKERS = {
    "images": "GCS_READ_FOLDER",
    "labels": "GCS_READ_FILE",
    "masks": "GCS_READ_FOLDER",
    "mask_colors": "GCS_READ_FILE",
    "inventory": "GCS_READ_FILE",
    "exclude": "GCS_READ_FILE",
    "output": "GCS_WRITE_FOLDER",
}
_URI = r"gs://[^\n\r]+"
_LIST = r"\[.*\]"
_INTEGER = r"^-?[0-9]+$"
_NUMBER = r"^[0-9]*\.?[0-9]+([eE]-?[0-9]+)?$"
_SIZE = r"^[0-9]+(\.[0-9]+)?\s*[A-Za-z]*$"


def metadata() -> dict[str, Any]:
    """The template's metadata as it goes into its specification file."""
    options = [option for option in convert.options() if option.name not in LEFT_OUT]
    return {
        "name": PROGRAM,
        "description": "Turns images and their labels into shuffled TFRecords.",
        "streaming": False,
        "parameters": [_parameter(option) for option in options],
    }


def _parameter(option: Option) -> dict[str, Any]:
    name = option.name
    parameter: dict[str, Any] = {
        "name": name,
        "label": name.replace("_", " ").capitalize(),
        "helpText": _help_text(option),
        "isOptional": not option.required,
        "paramType": _type(option),
    }
    if _is_enum(option):
        parameter["enumOptions"] = [{"value": c, "label": c} for c in option.choices]
    regex = _regex(option)
    if regex:
        parameter["regexes"] = [regex]
    return parameter


def _is_enum(option: Option) -> bool:
    """Whether the values are a closed list of words; --label_base is a number, 0 or 1."""
    return all(isinstance(choice, str) for choice in option.choices) and bool(option.choices)


def _help_text(option: Option) -> str:
    text = option.help % {"default": option.default}
    if option.is_switch:
        return f"{text}; true or false (default: false)"
    metavar = option.kind.metavar
    if metavar and not metavar.isupper():  # PATH or N says nothing here
        text += f"; written as {metavar}"
    if option.kind.repeated:
        text += '; several as a JSON list, ["...", "..."]'
    return text


def _type(option: Option) -> str:
    if option.is_switch:
        return "BOOLEAN"
    if _is_enum(option):
        return "ENUM"
    if option.kind.parse in (int, float):
        return "NUMBER"
    return _PICKERS.get(option.name, "TEXT")


def _regex(option: Option) -> str | None:
    if option.is_switch:
        return "^(true|false)$"
    if option.name in _PICKERS:
        return f"^({_URI}|{_LIST})$" if option.kind.repeated else f"^{_URI}$"
    return {int: _INTEGER, float: _NUMBER, parse_size: _SIZE}.get(option.kind.parse)


def main(argv: list[str]) -> int:
    """Writes the file, or with --check compares it."""
    text = json.dumps(metadata(), indent=2) + "\n"
    if argv == ["--check"]:
        if METADATA.read_text(encoding="utf-8") == text:
            return 0
        print(f"{METADATA} is not that of the options of convert; run {__file__}", file=sys.stderr)
        return 1
    if argv:
        print(f"usage: {__file__} [--check], found {' '.join(argv)}", file=sys.stderr)
        return 2
    METADATA.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
