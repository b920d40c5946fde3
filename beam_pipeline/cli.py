"""The command line: from argv to a command, and from its end to an exit code."""

from __future__ import annotations

import argparse
import itertools
import os
import re
import shlex
import sys
from collections.abc import Collection, Sequence

import beam_pipeline
from beam_pipeline.commands import COMMANDS, GROUPS, PROGRAM, Call, load_command, refuse_unknown
from beam_pipeline.core import errors, uris
from beam_pipeline.terminal import complain, draw

EXIT_DONE, EXIT_FAILED, EXIT_USAGE = 0, 1, 2
EXIT_UNREAD = 141
"""Nobody reads the output: the code that shells give to a program that SIGPIPE ends."""
EXIT_OUTAGE = 75
"""Storage or an engine did not answer for minutes: the same command may succeed later (EX_TEMPFAIL of sysexits.h)."""
_WIDEST_HELP = 100  # columns; prose in longer lines is hard to read
_NAME = re.compile("(?<=^--)[^=]+")  # of an option: of `--num-shards=4-a` without the value
_COMPLETING = "_ARGCOMPLETE"
"""A variable that shells set while a person presses the tabulator."""

_SHORT_HELP = f"""\
{PROGRAM} turns images and their labels into shuffled, sharded TFRecords.

Try it on 300 drawings, which takes some seconds:
  {PROGRAM} demo

Convert a folder of images, one folder per class or any other layout:
  {PROGRAM} convert --images photos/ --output tfrecords/

With a table of labels:
  {PROGRAM} convert --images photos/ --labels labels.csv --output tfrecords/

See what was written:
  {PROGRAM} inspect tfrecords/

`{PROGRAM} --help` lists all commands, `{PROGRAM} COMMAND --help` describes one."""
_EXAMPLES = _SHORT_HELP.partition("\n\n")[2].rpartition("\n\n")[0]


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code: 0 done, 1 failed, 2 wrong usage, 75 worth running again later.

    Args:
      argv: the arguments; the process's own if None.
    """
    try:
        sound = _run(list(sys.argv[1:] if argv is None else argv))
    except errors.ConversionError as error:
        text = f"{PROGRAM}: error: {error}"
        # Questions and messages of Dataflow have several lines. Elsewhere a line break comes from data.
        has_lines = isinstance(error, (errors.QuestionError, errors.JobError))
        complain(*(text.split("\n") if has_lines else [text]))
        if errors.is_outage(error):
            return EXIT_OUTAGE
        return EXIT_USAGE if isinstance(error, errors.UsageError) else EXIT_FAILED
    except BrokenPipeError:  # `... | head`: our work may not be done
        return EXIT_UNREAD
    except OSError as error:  # of a file or a service, and no other error tells of it
        complain(f"{PROGRAM}: error: {error.filename or 'a service'}: {error.strerror or error}")
        is_outage = isinstance(error, (TimeoutError, ConnectionError))
        return EXIT_OUTAGE if is_outage else EXIT_FAILED
    return EXIT_DONE if sound else EXIT_FAILED


def _run(argv: list[str]) -> bool:
    if _COMPLETING in os.environ:
        import argcomplete  # writes the completions of a line for the shell, and ends the process

        named = COMMANDS.keys() & set(os.environ.get("COMP_LINE", "").split())
        argcomplete.autocomplete(_parser(named), always_complete_options=False)
    if not argv:
        complain(*_SHORT_HELP.split("\n"))
        raise SystemExit(EXIT_USAGE)
    argv = [_NAME.sub(lambda name: name[0].replace("-", "_"), token) for token in argv]
    if whole := _with_images_named(argv):
        raise errors.UsageError(f"--images names the images: {whole}")
    if "--show_roles" in argv:  # which writes nothing
        argv = [*argv, "--output="]
    loaded = next((token for token in argv if not token.startswith("-")), "")
    parser = _parser({loaded}, every=argv[-2:] == ["--help", "all"])
    arguments, unknown = parser.parse_known_args(argv)
    command = load_command(arguments.command)
    if not command.takes_beam_options:
        refuse_unknown(unknown, ())
    return command.run(Call(arguments, unknown))


def _with_images_named(argv: Sequence[str]) -> str:
    """The whole command for bare paths (`convert photos/`); empty for other commands."""
    named = argv[0] in COMMANDS
    command, rest = (argv[0], argv[1:]) if named else ("convert", argv)
    paths = list(itertools.takewhile(lambda token: not token.startswith("-"), rest))
    options = [token.partition("=")[0] for token in rest]
    if command not in ("convert", "plan") or not paths or {"--images", "--help"} & set(options):
        return ""
    if not (named or uris.is_remote(paths[0]) or os.path.exists(paths[0])):  # a misspelt command
        return ""
    output = [] if "--output" in options else ["--output", "tfrecords/"]
    return shlex.join([PROGRAM, command, "--images", *paths, *rest[len(paths) :], *output])


class _Parser(argparse.ArgumentParser):
    """Words its errors as the rest of the program does."""

    def error(self, message: str) -> None:  # type: ignore[override]
        raise errors.UsageError(f"{message} (see {self.prog} --help)")

    def _print_message(self, message: str, _: object = None) -> None:
        draw(message.rstrip("\n"))  # which does not ignore errors


class _HelpFormatter(argparse.HelpFormatter):
    """Wraps prose paragraph by paragraph, and keeps lines that start with two spaces."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog)
        self._width = min(self._width, _WIDEST_HELP)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        fill = super()._fill_text
        return "\n".join(
            line if line.startswith("  ") else fill(line, width, indent)
            for line in text.splitlines()
        )


def _parser(
    loaded: Collection[str] = tuple(COMMANDS), *, every: bool = True
) -> argparse.ArgumentParser:
    """The parser of the whole command line.

    Args:
      loaded: names of commands to import and add the arguments of; by default all.
      every: whether help shows every option; otherwise only the common ones.
    """
    lines = ["Turns images and their labels into shuffled, sharded TFRecords."]
    for heading, commands in GROUPS.items():
        entries = [f"  {name:<10}{text}" for name, (_, text) in commands.items()]
        lines += ["", f"{heading}:", *entries]
    parser = _Parser(
        prog=PROGRAM,
        usage=f"{PROGRAM} COMMAND [OPTION...]",
        description="\n".join(lines),
        epilog=f"examples:\n\n{_EXAMPLES}\n\n`{PROGRAM} COMMAND --help` describes a command and its "
        "options. Option names accept dashes or underscores: --num-shards is --num_shards.",
        allow_abbrev=False,
        formatter_class=_HelpFormatter,
    )
    parser.add_argument("--version", action="version", version=beam_pipeline.__version__)
    subparsers = parser.add_subparsers(
        prog=PROGRAM, dest="command", required=True, metavar="COMMAND", help=argparse.SUPPRESS
    )
    for name, (_, text) in COMMANDS.items():
        subparser = subparsers.add_parser(
            name, allow_abbrev=False, help=text, formatter_class=_HelpFormatter
        )
        if name in loaded:
            _describe(subparser, name, every=every)
    return parser


def _describe(parser: argparse.ArgumentParser, name: str, *, every: bool) -> None:
    """Adds the arguments and the help of a command."""
    command = load_command(name)
    parser.description = command.description
    parser.usage = f"{PROGRAM} {name} {command.usage}" if command.usage else None
    epilog = [f"examples:\n\n{command.examples}"] if command.examples else []
    command.add_arguments(parser)
    rare = [action for action in parser._actions if not getattr(action, "common", True)]
    if rare and not every:
        more = f"`{PROGRAM} {name} --help all` describes {len(rare)} further options."
        epilog = [more, *epilog]
        for action in rare:
            action.help = argparse.SUPPRESS
    parser.epilog = "\n\n".join(epilog) or None
