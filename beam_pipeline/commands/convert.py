"""`beam-tfrecord convert`: images and labels to TFRecords."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from beam_pipeline.commands.command import Call, Command, refuse_unknown
from beam_pipeline.config import ConvertConfig
from beam_pipeline.core.uris import is_remote
from beam_pipeline.inputs import check_buckets, check_questions, convert_config
from beam_pipeline.layouts.opening import open_source
from beam_pipeline.layouts.roles import understanding
from beam_pipeline.options import ConvertOptions, RolesOptions, WaitOptions
from beam_pipeline.options.group import Option
from beam_pipeline.startup import importing_beam
from beam_pipeline.terminal import say


def options() -> Sequence[Option]:
    """Every option of the command, for generated files such as a template's list of parameters."""
    return [*ConvertOptions.options(), *RolesOptions.options(), *WaitOptions.options()]


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    ConvertOptions.add_arguments(parser)
    RolesOptions.add_arguments(parser)
    WaitOptions.add_arguments(parser)


def _run(call: Call) -> bool:
    options = ConvertOptions.from_arguments(call.arguments)
    if not shows_roles(options, call):
        wait = not WaitOptions.from_arguments(call.arguments).no_wait
        run_convert(options, call, wait=wait)
    return True


COMMAND = Command(
    "Lists images, joins them with labels, and writes shuffled, sharded TFRecords.\n\n"
    "Options that are not listed here, such as --runner, are passed to Apache Beam. "
    "--help all lists every option.",
    _run,
    _add_arguments,
    usage="--images PATH... --output DIR [OPTION...]",
    examples="""\
One folder per class, or any other layout that is detected:
  beam-tfrecord convert --images photos/ --output tfrecords/

Labels in a table, and a split for validation:
  beam-tfrecord convert --images photos/ --labels labels.csv \\
      --splits train=0.9,validation=0.1 --output split/

Continue after an interruption, or bring a data set up to date:
  beam-tfrecord convert --images photos/ --output tfrecords/ --resume

On Dataflow, between buckets:
  beam-tfrecord convert --images gs://my-photos/ --output gs://my-sets/pets \\
      --runner=DataflowRunner --project=my-project --region=europe-west4
""",
    takes_beam_options=True,
)


def run_convert(options: ConvertOptions, call: Call, *, wait: bool = True) -> None:
    """Converts with progress on the terminal and a summary at the end.

    Raises:
      ConversionError: the job wrote no complete data set; the message gives the reason.
    """
    config = start(options, call, writes=True)
    from beam_pipeline.launch import Run

    Run(config, call.beam_argv, wait=wait).as_program()


def shows_roles(options: ConvertOptions, call: Call) -> bool:
    """Prints the table of roles with --show_roles; returns False otherwise.

    Raises:
      UsageError: an option cannot be used.
    """
    if not RolesOptions.from_arguments(call.arguments).show_roles:
        return False
    say(*understanding(*open_source(options.inputs.layout, options.source)))
    return True


def start(options: ConvertOptions, call: Call, *, writes: bool) -> ConvertConfig:
    """Resolves the options, prints how they were understood, and imports Beam.

    Importing Beam takes a second, so every check that does not need it comes first.

    Args:
      options: options of the conversion.
      call: the command, with Beam's options.
      writes: False for a job that does not touch the output folder.

    Raises:
      UsageError: an option cannot be used, or a guess about the labels is not safe.
      ConversionError: a bucket cannot be reached.
    """
    config, why = convert_config(options)
    check_buckets(config, writes=writes)
    say(*understanding(config.source, why))
    check_questions(config)
    local = not call.beam_argv and not any(map(is_remote, config.uris))
    with importing_beam(lean=local):
        from beam_pipeline.engines.registry import import_engine
        from beam_pipeline.launch import beam_parser

        if local:
            import_engine(None)
    if call.beam_argv:
        parser = beam_parser(call.beam_argv)
        known = (option.flag for option in ConvertOptions.options())
        unknown = parser.parse_known_args(call.beam_argv)[1]
        refuse_unknown(unknown, (*known, *parser._option_string_actions))
    return config
