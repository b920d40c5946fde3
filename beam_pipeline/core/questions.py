"""Questions: guesses that are not safe. They stop a run before any image is opened, unless `--yes` accepts them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from beam_pipeline.core import errors, text

LABEL_FILES_IGNORED = "label_files_ignored"
"""The id of questions about files that may contain labels, and that nothing would read."""


class Question(NamedTuple):
    """A guess that is not safe.

    Attributes:
      id: names the kind of question, for programs; it never changes.
      reason: what the input contains and what it looks like, in a sentence.
      advice: what to do, in a sentence; empty if the reason states it.
      answer: option -> value, of the options that do what was probably meant; None if none do.
      others: further answers: (advice, answer) of each.
    """

    id: str
    reason: str
    advice: str = ""
    answer: Mapping[str, Any] | None = None
    others: tuple[tuple[str, Mapping[str, Any]], ...] = ()


def question(name: str, reason: str, advice: str = "", **answer: Any) -> Question:
    """A question whose answer is options: `question("json", "...", labels=("a.csv",))`."""
    return Question(name, reason, advice, answer or None)


class Commands(Protocol):
    """The options of a conversion, as `ConvertOptions` are."""

    def command(self, **changes: Any) -> str:
        """The command line that gives these options with others in their place."""


_OF_COLUMNS = frozenset(
    ["columns", "key_column", "label_column", "list_column", "one_hot", "no_image"]
)


def _with_columns(
    answer: Mapping[str, Any], further: Sequence[Mapping[str, Any]]
) -> Mapping[str, Any]:
    """An answer about columns, with the answers to other questions about them, which would be asked next."""
    combined = dict(answer)
    for options in further:
        if combined.keys() | options.keys() <= _OF_COLUMNS:
            both = {**options.get("columns", {}), **combined.get("columns", {})}
            combined = {**options, **combined, "columns": both}
            both.pop(combined.get("key_column", ""), None)
    return {option: value for option, value in combined.items() if value or option != "columns"}


def question_error(questions: Sequence[Question], options: Commands | None) -> errors.QuestionError:
    """The error that asks, in several lines. Within a line, names from data are escaped.

    Args:
      questions: at least one.
      options: the options given, for the commands that answer; None for no commands.
    """
    lines = ["stopped before any image was read, as a guess about the labels is not safe:"]
    for question in questions:
        lines.append(f"- {question.reason} {question.advice}".rstrip())
        if question.answer and options:
            rest = [other.answer for other in questions if other is not question and other.answer]
            lines.append(f"    {options.command(**_with_columns(question.answer, rest))}")
            for advice, answer in question.others:
                lines += [f"  {advice}", f"    {options.command(**_with_columns(answer, rest))}"]
    lines.append("Correct the command, or accept the guess with --yes.")
    ids = tuple(question.id for question in questions)
    return errors.QuestionError("\n".join(map(text.terminal_line, lines)), ids)
