r"""Text from data, such as the names of classes, made safe for Markdown and for YAML.

A class may be called `<script>` or `a | b`, and a column `x: [`. In a table's cell,

    >>> print(markdown("<b> *x* | y"))
    \<b\> \*x\* \| y

and as a YAML scalar,

    >>> print(yaml("say: \"hi\"\n"))
    "say: \"hi\"\n"
"""

from __future__ import annotations

import json
import re

from beam_pipeline.core.text import terminal_line

_MARKUP = re.compile(r"[\\`*_{}\[\]<>#!|&~:@$]")
_BARE_LINK = re.compile(r"(?i)(?<=www)\.")  # "www.example.org" becomes a link in GitHub's Markdown

# YAML wants these as escapes; json.dumps escapes those below U+0020.
_NOT_IN_YAML = re.compile("[\x7f-\xa0\u2028\u2029\ufeff\ufffe\uffff]")


def markdown(text: str) -> str:
    """Returns one line of Markdown that shows a text as it is.

    Control characters and direction marks are shown as escapes, very long texts are shortened, and
    spaces at the ends are left out.
    """
    return _BARE_LINK.sub(r"\\.", _MARKUP.sub(r"\\\g<0>", terminal_line(text).strip()))


def code(text: str) -> str:
    """Returns a code span for a table's cell; Markdown's escapes where a span could not show the text."""
    line = terminal_line(text)
    if not line or set(line) & set("`|\\") or line != line.strip():
        return markdown(text)
    return f"`{line}`"


def yaml(text: str) -> str:
    """Returns a double-quoted YAML scalar on one line."""
    quoted = json.dumps(text, ensure_ascii=False)
    return _NOT_IN_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted)
