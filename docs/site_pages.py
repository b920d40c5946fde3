"""What the site makes itself: the reference of the command line, and `llms.txt`.

    ```{commands}
    ```

lists every command with its options, from the parsers that the program itself uses.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.addnodes import toctree
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from beam_pipeline.cli import _parser
from beam_pipeline.commands import COMMANDS, PROGRAM

_HEADLINE = re.compile(r"^# (.+)$", re.MULTILINE)
_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_SENTENCE_END = re.compile(r"(?<=[.:?]) (?=[A-Z`0-9])")
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


class Commands(SphinxDirective):
    """Lists the commands, each with its options as `--help` has them."""

    def run(self) -> list[nodes.Node]:
        """Returns a section for each command."""
        return self.parse_text_to_nodes(_commands(), allow_section_headings=True)


def _commands() -> str:
    """Every command, as Markdown."""
    (subparsers,) = (a for a in _parser()._actions if isinstance(a, argparse._SubParsersAction))
    return "\n".join(line for name in COMMANDS for line in _command(name, subparsers.choices[name]))


def _command(name: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    yield f"## {name}"
    yield ""
    yield from _paragraphs(parser.description or "")
    if parser.epilog:
        yield from ["```bash", *_examples(parser.epilog), "```", ""]
    for group in parser._action_groups:
        actions = [one for one in group._group_actions if not isinstance(one, argparse._HelpAction)]
        if not actions:
            continue
        yield f"### {name}: {group.title}"
        yield ""
        yield from ["| argument | effect |", "|---|---|"]
        yield from (f"| {_invocation(one)} | {_cell(_help(one))} |" for one in actions)
        yield ""


def _paragraphs(text: str) -> Iterator[str]:
    """Prose; lines with two spaces before them are shown as they are."""
    for paragraph in text.split("\n\n"):
        if paragraph.startswith("  "):
            yield from ["```text", *(line[2:] for line in paragraph.splitlines()), "```", ""]
        else:
            yield from [_escaped(paragraph), ""]


def _examples(epilog: str) -> list[str]:
    lines = epilog.partition("\n\n")[2].splitlines()
    return [line.removeprefix("  ") for line in lines]


def _invocation(action: argparse.Action) -> str:
    names = action.option_strings or [action.metavar or action.dest]
    value = "" if action.nargs == 0 or not action.option_strings else f" {action.metavar or ''}"
    return "`" + f"{', '.join(map(str, names))}{value}".rstrip().replace("|", " / ") + "`"


def _help(action: argparse.Action) -> str:
    default = {**vars(action), "prog": PROGRAM}
    return (action.help or "") % default


def _cell(text: str) -> str:
    return _escaped(" ".join(text.split())).replace("|", r"\|")


def _escaped(text: str) -> str:
    return re.sub(r"([<>*_`\[\]])", r"\\\1", text)


def _write_llms_txt(app: Sphinx, error: Exception | None) -> None:
    """Writes `llms.txt` and, beside each page, its Markdown, which `llms.txt` lists."""
    if error or app.builder.name != "html":
        return
    out, source = Path(app.outdir), Path(app.srcdir)
    lines = ["# beam-tfrecord", "", f"> {_lead(source / 'docs' / 'index.md')}", ""]
    for title, pages in _by_part(app):
        lines += [f"## {title}", ""]
        for page in pages:
            markdown = source / f"{page}.md"
            text = markdown.read_text(encoding="utf-8").replace("```{commands}\n```", _commands())
            (out / f"{page}.md").write_text(text, encoding="utf-8")
            name = _HEADLINE.search(text)
            lines.append(f"- [{name[1] if name else page}]({page}.md): {_lead(markdown)}")
        lines.append("")
    (out / "llms.txt").write_text("\n".join(lines), encoding="utf-8")


def _by_part(app: Sphinx) -> Iterator[tuple[str, list[str]]]:
    """(caption, pages) of every table of contents on the first page."""
    for tree in app.env.get_doctree(app.config.root_doc).findall(toctree):
        pages = list(tree["includefiles"])
        deeper = [below for page in pages for below in app.env.toctree_includes.get(page, [])]
        yield tree.get("caption") or "Pages", [*pages, *deeper]


def _lead(markdown: Path) -> str:
    """The first sentence of a page's prose, on one line and without links."""
    text = _FENCED.sub("", markdown.read_text(encoding="utf-8"))
    for paragraph in text.split("\n\n"):
        if paragraph.strip() and paragraph.lstrip()[0] not in "#|-:>":
            line = _LINK.sub(r"\1", " ".join(paragraph.split()))
            return _SENTENCE_END.split(line)[0].rstrip(":")
    return ""


def _mark_code(
    _app: Sphinx, _what: str, _name: str, _object: Any, _options: Any, lines: list[str]
) -> None:
    """Marks an indented block after a colon as code, which docstrings here show as Markdown does."""
    for number, line in enumerate(lines[:-2]):
        after = lines[number + 2]
        is_code = not lines[number + 1].strip() and _indent(after) >= _indent(line) + 4
        if line.endswith(":") and not line.endswith("::") and after.strip() and is_code:
            lines[number] = f"{line}:"


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def setup(app: Sphinx) -> dict[str, Any]:
    """Registers both with Sphinx."""
    app.add_directive("commands", Commands)
    app.connect("autodoc-process-docstring", _mark_code, priority=400)  # before napoleon
    app.connect("build-finished", _write_llms_txt)
    return {"parallel_read_safe": True}
