"""Errors that end a whole run. A single bad sample is a `DeadLetter`, never one of these.

ConversionError
├── UsageError               the command cannot be carried out; nothing was started
│   ├── QuestionError        a guess about the labels is not safe; --yes continues
│   ├── CredentialsError     a bucket's service does not know who is asking
│   ├── LabelTableError      a label file is unusable as a whole
│   ├── InventoryError       an inventory of images is unusable as a whole
│   └── OutputNotEmptyError  the output folder contains files that must not be touched
├── BucketError              a bucket does not exist, or a permission on it is missing
├── ContainerError           a file that contains many samples is broken
├── ListingError             part of the input cannot be listed, so samples would be lost unnoticed
├── NothingJoinedError       no image has a label
├── NothingLeftError         every image is left out by a filter
├── UnknownClassError        a class is not in --classes, with --classes_only
├── DuplicateImagesError     images have the same bytes, with --duplicates error
├── TooManyBadSamplesError   more bad samples than --max_bad_fraction allows
├── LostSamplesError         samples do not add up: a fault of the program or the runner
├── OutputError              a shard cannot be written: no space, no permission
│   └── AnotherJobError      another job writes to the output folder
├── ChangedInputsError       the inputs differ from those that an earlier run began with
├── CodecError               other versions of libraries encode images than those that began
├── WriterProcessError       a writer process died
├── JobError                 a remote engine rejected a job, or the job failed there
├── SampleError              a value given from Python cannot become a feature
└── DamagedRecordError       a TFRecord file is damaged

OSError
└── ChangedFileError         a file has changed since it was listed; its sample becomes a dead letter

Within a job an error travels as a `Refusal`; a `FailurePolicy` is what an engine needs of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from beam_pipeline.core.uris import without_secrets

OUTAGE = "outage"
"""The id of an error of storage or an engine that gave no answer for a while; the same run may succeed later."""


class ConversionError(Exception):
    """Base of every error whose message is written for the user of the command.

    The message shows no secret of a URL in it, wherever it goes: a log, a notebook, a file.

    Args:
      message: the message.
      given_ids: names of what the error is about, for programs, such as the ids of questions.
    """

    # Without an `__init__`, as TensorFlow raises only such errors again under their own class.

    @property
    def given_ids(self) -> tuple[str, ...]:
        """The names that were given."""
        return tuple(self.args[1]) if len(self.args) > 1 else ()

    @property
    def ids(self) -> tuple[str, ...]:
        """Names of the error for programs, which never change: those given, or one from its class."""
        name = type(self).__name__.removesuffix("Error")
        return self.given_ids or (re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower(),)

    def __str__(self) -> str:
        return without_secrets(str(self.args[0]) if self.args else "")


class UsageError(ConversionError):
    """The command line or its inputs cannot be used; found before anything was written."""


class QuestionError(UsageError):
    """A guess about the labels is not safe; tells what was found, and how to correct or accept it.

    Its message may have several lines. Names from data in it are escaped already, so that a line break
    is one of ours.
    """


class CredentialsError(UsageError):
    """Credentials for a bucket are missing, or are not accepted."""


class LabelTableError(UsageError):
    """A label file is unusable as a whole: no header, no key column, not text."""


class InventoryError(UsageError):
    """An --inventory file is unusable as a whole: other columns, or a row that names no file."""


class OutputNotEmptyError(UsageError):
    """The output folder contains files that this run may not touch."""


class BucketError(ConversionError):
    """A bucket does not exist, or a permission on it is missing."""


class ListingError(ConversionError):
    """A folder cannot be listed, so the samples that would be missing are unknown."""


class ContainerError(ConversionError):
    """A file that contains many samples cannot be read, so those that would be missing are unknown."""


class NothingJoinedError(ConversionError):
    """No image has a label, so there is nothing to write."""


class NothingLeftError(ConversionError):
    """Filters such as --min_side leave out every image, so there is nothing to write."""


class UnknownClassError(ConversionError):
    """A class is not in --classes, and --classes_only allows no other."""


class DuplicateImagesError(ConversionError):
    """Images have the same bytes, and --duplicates is error."""


class TooManyBadSamplesError(ConversionError):
    """The share of bad samples exceeds --max_bad_fraction."""


class LostSamplesError(ConversionError):
    """Listed images and label rows do not add up to examples and dead letters."""


class OutputError(ConversionError):
    """A file of the data set cannot be written."""


class AnotherJobError(OutputError):
    """Another job writes to the same output folder at the same time."""


class WriterProcessError(ConversionError):
    """A writer process died, for instance because the system ran out of memory."""


class JobError(ConversionError):
    """A remote engine rejected a job, or the job failed there.

    Its message may have several lines, such as the traceback that the engine shows.
    """


class SampleError(ConversionError):
    """A sample given from Python contains a value that no feature can contain."""


class ChangedInputsError(ConversionError):
    """The inputs or options differ from those that an earlier run began with."""


class CodecError(ConversionError):
    """Other versions of libraries encode images than those that began the data set."""


class ChangedFileError(OSError):
    """A file has changed since it was listed, or the listing was wrong."""

    @classmethod
    def of_sizes(cls, size: int, listed: int) -> ChangedFileError:
        """The error for a file of another size."""
        return cls(f"{size} bytes, listed with {listed}; list it again, when nothing writes to it")


class DamagedRecordError(ConversionError):
    """The framing, a checksum or the payload of a TFRecord file is broken."""


def is_outage(error: BaseException | None) -> bool:
    """True for an error of storage or an engine that did not answer, also where another was raised from it."""
    while error is not None:
        if isinstance(error, (TimeoutError, ConnectionError, WriterProcessError)):
            return True
        if isinstance(error, ConversionError) and OUTAGE in error.given_ids:
            return True
        error = error.__cause__
    return False


ERRORS: tuple[type[ConversionError], ...] = tuple(
    error
    for error in list(globals().values())
    if isinstance(error, type) and issubclass(error, ConversionError)
)
"""The whole tree."""

_BY_NAME = {error.__name__: error for error in ERRORS}


class Refusal(NamedTuple):
    """The reason why a run writes no data set.

    It travels as a value to the end of the job: raised where it was found, it would be retried and
    buried under the tracebacks of every worker. It is also what the output folder keeps as JSON.

    Attributes:
      error: the name of a class in `errors`.
      message: its message.
      ids: the ids given to it.
    """

    error: str
    message: str
    ids: tuple[str, ...] = ()

    @classmethod
    def from_error(cls, error: ConversionError, cause: Exception | None = None) -> Refusal:
        """The refusal that represents an error, or for the nearest class above it in `errors`.

        Args:
          error: the error.
          cause: the error that it tells of, if it was not raised from it.
        """
        name = next(base.__name__ for base in type(error).__mro__ if base in ERRORS)
        outage = is_outage(error) or is_outage(cause)
        return cls(name, str(error), (*error.ids, OUTAGE) if outage else error.given_ids)

    def to_error(self) -> ConversionError:
        """The error; a plain `ConversionError` if this version lacks a class of that name."""
        return _BY_NAME.get(self.error, ConversionError)(self.message, tuple(self.ids))


def refusal_order(
    refusal: Refusal,
) -> tuple[str, Sequence[str | tuple[int, str]], Sequence[str]]:
    """A key for sorting: of two messages that differ in a number, the one with the lower comes first."""
    pieces = re.split("([0-9]+)", refusal.message)  # every other one is a number
    message = [(len(p), p) if n % 2 else p for n, p in enumerate(pieces)]
    return refusal.error, message, tuple(refusal.ids)


@dataclass(frozen=True)
class FailurePolicy:
    """The way in which a job reports that it cannot continue, which depends on its engine.

    Attributes:
      retries: the engine runs failed work again. Then a shard that cannot be written fails its bundle,
        and a retried bundle keeps the shards that it wrote before. Otherwise the failure becomes a
        `Refusal`, which the launcher reports without tracebacks.
      raises_refusals: a job that leaves no data set has to fail for the engine to know. Otherwise the
        launcher reads the refusal when the job has ended, and raising it would only add tracebacks.
      job: 32 hex digits, by which the launcher tells its job's refusal from that of another job that
        writes to the same folder; empty for a job without a launcher.
      reword: turns a message that names options of the command into one that names arguments, where
        these are what its reader gave; None where the command runs the job.
    """

    retries: bool = True
    raises_refusals: bool = True
    job: str = ""
    reword: Callable[[str], str] | None = None

    def reworded(self, error: ConversionError) -> ConversionError:
        """An error that speaks of options as its reader gives them."""
        return type(error)(self.reword(str(error)), error.given_ids) if self.reword else error


DEFAULT_POLICY = FailurePolicy()
"""For any engine: the job fails where an error is found, and may be retried."""


def reason_of(error: Exception) -> str:
    """What went wrong, in words that are the same in each version of Python."""
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    return getattr(error, "strerror", None) or str(error)
