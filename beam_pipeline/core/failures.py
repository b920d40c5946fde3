"""Failures of a whole run: as values that travel through a job, and what each engine needs of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from beam_pipeline.core.errors import ERRORS, OUTAGE, ConversionError, is_outage

_NUMBER = re.compile(r"([0-9]+)")
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
    ids: Sequence[str] = ()

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
    pieces = _NUMBER.split(refusal.message)  # every other one is a number
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
