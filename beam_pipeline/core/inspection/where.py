"""Conditions on examples, as `--where` takes them: `image/width<200 and image/format=png`.

    CONDITION [and CONDITION ...]
    CONDITION: FEATURE OPERATOR VALUE
    OPERATOR:  =  ==  !=  <  <=  >  >=

A feature or value that holds spaces, quotes or operators stands in quotes: `'label/colour' = "light
blue"`. Nothing is evaluated but these comparisons.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.inspection.examples import Features
from beam_pipeline.core.text import shown

_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "=": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_MOST_CHARACTERS = 10_000
_QUOTED = r"'[^']*'|\"[^\"]*\""
_TOKEN = re.compile(rf"\s*(?:({_QUOTED})|([=!<>]=?)|([^\s=!<>'\"]+))")
_AND = "and"


@dataclass(frozen=True)
class Condition:
    """A comparison of a feature's values with one value.

    Attributes:
      feature: the key of the feature.
      operator: as written.
      value: as written, without quotes.
    """

    feature: str
    operator: str
    value: str

    def holds(self, features: Features) -> bool:
        """Tells whether one of the feature's values compares so; for `!=`, whether all of them do.

        An example without the feature, or without values of it, meets no condition.

        Raises:
          UsageError: the feature holds numbers and the value is none.
        """
        found = features.get(self.feature)
        if found is None or not len(found.values):
            return False
        compare = _OPERATORS[self.operator]
        expected: str | float = self.value
        values: Any = found.texts
        if found.kind != "bytes":
            expected, values = self._number(found.kind), found.values
        compared = (compare(value, expected) for value in values)
        return all(compared) if self.operator == "!=" else any(compared)

    def _number(self, kind: str) -> float:
        """The value as a number: an int as long as it is one, since a float has 53 bits."""
        for number in (int, float):
            try:
                return number(self.value)
            except ValueError:
                continue
        raise UsageError(
            f"--where: {self.feature} holds {kind} values; {self.value!r} is not a number"
        )


def parse_conditions(text: str) -> tuple[Condition, ...]:
    """Reads a where-expression; all of its conditions have to hold.

    Raises:
      UsageError: it is none; says what was found and what was expected.
    """
    tokens = _tokens(text)
    conditions = []
    for start in range(0, len(tokens), 4):
        part = tokens[start : start + 4]
        kinds = [kind for kind, _ in part]
        if kinds[:3] != ["word", "operator", "word"] or len(tokens) == start + 4:
            raise _unreadable(text, tokens, start)
        if len(part) == 4 and part[3] != ("word", _AND):
            raise _unreadable(text, tokens, start)
        conditions.append(Condition(part[0][1], part[1][1], part[2][1]))
    if not conditions:
        raise _unreadable(text, tokens, 0)
    return tuple(conditions)


def _tokens(text: str) -> list[tuple[str, str]]:
    """(kind, text) of each token: "word" or "operator"."""
    if len(text) > _MOST_CHARACTERS:
        raise UsageError(f"--where has {len(text)} characters; expected {_MOST_CHARACTERS} at most")
    tokens, at, text = [], 0, text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if not match or match[2] == "!":
            raise UsageError(f"--where {shown(text)}: {shown(text[at:].lstrip())} cannot be read")
        quoted, sign, word = match.groups()
        tokens.append(("operator", sign) if sign else ("word", word or quoted[1:-1]))
        at = match.end()
    return tokens


def _unreadable(text: str, tokens: Sequence[tuple[str, str]], start: int) -> UsageError:
    part = " ".join(token for _, token in tokens[start : start + 4])
    return UsageError(
        f"--where {shown(text)}: found {shown(part)}, expected FEATURE OPERATOR VALUE, such as "
        "'image/width<200 and image/format=png'"
    )
