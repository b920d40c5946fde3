"""Samples that are left out by their keys (`--exclude`) or for another reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from beam_pipeline.core.dead_letters import DeadLetter, Reason, Stage, image_dead_letter
from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.references import SampleRef


class SampleFilter(Protocol):
    """Leaves samples out once they have their labels."""

    def apply(self, samples: Iterable[SampleRef]) -> tuple[list[SampleRef], list[DeadLetter]]:
        """Splits the samples that stay from those that are left out."""


@dataclass(frozen=True)
class SampleFilters:
    """Several filters, one after the other.

    Attributes:
      filters: in their order.
    """

    filters: tuple[SampleFilter, ...]

    def apply(self, samples: Iterable[SampleRef]) -> tuple[list[SampleRef], list[DeadLetter]]:
        """Leaves out what one of them leaves out."""
        remaining, dead_letters = list(samples), []
        for sample_filter in self.filters:
            remaining, letters = sample_filter.apply(remaining)
            dead_letters += letters
        return remaining, dead_letters


@dataclass(frozen=True)
class Exclusion:
    """Keys of samples to leave out. It travels to the workers with its keys.

    Attributes:
      uri: the file that lists them, for messages.
      lines: key -> its line in the file, from 1.
    """

    uri: str
    lines: Mapping[str, int]

    @classmethod
    def parse(cls, data: bytes, uri: str) -> Exclusion:
        """Reads a file with a key a line, in UTF-8. Empty lines do not count.

        Raises:
          UsageError: it is no text.
        """
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise UsageError(
                f"--exclude {uri} is not UTF-8 ({error.reason}); expected a key a line"
            ) from error
        lines: dict[str, int] = {}
        for number, line in enumerate(text.split("\n"), 1):
            key = line.removesuffix("\r")
            if key:
                lines.setdefault(key, number)
        return cls(uri, lines)

    def apply(self, samples: Iterable[SampleRef]) -> tuple[list[SampleRef], list[DeadLetter]]:
        """Splits the listed samples from all others."""
        remaining, dead_letters = [], []
        for sample in samples:
            line = self.lines.get(sample.key)
            if line is None:
                remaining.append(sample)
            else:
                dead_letters.append(self._dead_letter(sample, line))
        return remaining, dead_letters

    def _dead_letter(self, sample: SampleRef, line: int) -> DeadLetter:
        message = "left out, as --exclude asks for"
        letter = image_dead_letter(Stage.JOIN, sample.key, sample.uri, Reason.EXCLUDED, message)
        return letter._replace(file=self.uri, line=line)

    def not_met(self, keys: Iterable[str]) -> list[str]:
        """The listed keys that are not among those of the samples that were left out."""
        return sorted(self.lines.keys() - set(keys))
