"""Entry point of the Flex Template's launcher: turns parameters, which are strings, into a command line.

A parameter arrives as `--name=value`, among the options that Dataflow adds. Flags are `true` or
`false`. A repeatable option takes one value, or several as a JSON list of strings, because paths may
contain commas and spaces. A parameter that was not set may arrive as an empty string. The body of a
schedule is fixed, so `{date}` in `output` stands for the day of the launch, in UTC.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone

from beam_pipeline.cli import EXIT_USAGE, PROGRAM, main
from beam_pipeline.commands import convert
from beam_pipeline.core.errors import UsageError

IMAGE_VARIABLE = "BEAM_TFRECORD_IMAGE"  # build_image.sh sets it, to a name with a digest

_DATE = "{date}"

# Dataflow passes labels of the job as `--labels`, in JSON or as `key=value`; ours are files.
_LABELS_OF_THE_JOB = re.compile(r"\s*\{|[a-z][\w-]*=")


def command_line(argv: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Translates the launcher's arguments into those of `beam-tfrecord`.

    The program must end once the job is submitted, or the job does not start
    (https://cloud.google.com/dataflow/docs/guides/templates/configuring-flex-templates).
    Workers run in the image that the launcher's was made from, unless an argument names another.

    Raises:
      UsageError: a value is not a boolean, or not a list of strings.
    """
    out = ["convert", *_translated(argv), "--no_wait"]
    given = {token.partition("=")[0] for token in out}
    if "--runner" not in given:
        out.append("--runner=DataflowRunner")
    if "--sdk_container_image" not in given and environment.get(IMAGE_VARIABLE):
        out.append(f"--sdk_container_image={environment[IMAGE_VARIABLE]}")
    if "--sdk_location" not in given:
        out.append("--sdk_location=container")
    return out


def _translated(argv: Sequence[str]) -> Iterator[str]:
    options = {option.flag: option for option in convert.options()}
    for token in argv:
        name, equals, value = token.partition("=")
        option = options.get(name)
        if option is None or not equals:
            yield token
        elif not value:
            continue
        elif option.is_switch:
            if _is_true(name, value):
                yield name
        elif name == "--labels" and _LABELS_OF_THE_JOB.match(value):
            yield f"--label={value}"
        elif name == "--output":
            today = datetime.now(timezone.utc).date().isoformat()
            yield f"{name}={value.replace(_DATE, today)}"
        elif option.kind.repeated:
            yield from (f"{name}={item}" for item in _values(name, value))
        else:
            yield token


def _is_true(name: str, value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise UsageError(f"{name[2:]} is {value!r}; expected true or false")
    return value.lower() == "true"


def _values(name: str, value: str) -> list[str]:
    if not value.startswith("["):
        return [value]
    try:
        values = json.loads(value)
    except ValueError as error:
        raise UsageError(f"{name[2:]} is {value!r}, which is no JSON: {error}") from error
    if not values or not all(isinstance(item, str) for item in values):
        raise UsageError(f"{name[2:]} is {value!r}; expected a JSON list of strings, at least one")
    return list(values)


def run(argv: Sequence[str]) -> int:
    """Submits the job and returns the exit code."""
    try:
        translated = command_line(argv, os.environ)
    except UsageError as error:
        print(f"{PROGRAM}: error: {error}", file=sys.stderr)
        return EXIT_USAGE
    return main(translated)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
