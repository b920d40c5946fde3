"""Writes options.md from the options of `convert`: `python docs/make_options.py`."""

from __future__ import annotations

from pathlib import Path

from beam_pipeline.commands import convert
from beam_pipeline.options import ConvertOptions, RolesOptions, WaitOptions
from beam_pipeline.options.group import Option

PAGE = Path(__file__).with_name("options.md")
HEAD = """\
# Options of `convert`

`plan` takes the same options, except for `--no_wait`. Sizes are written as `200MB` or `128MiB`. Option
names accept dashes or underscores. All other options are passed to Apache Beam. `beam-tfrecord convert
--help all` prints this list.

For tab completion, add this line to `~/.bashrc` or `~/.zshrc`, with `register-python-argcomplete` in
`PATH`:

```
eval "$(register-python-argcomplete beam-tfrecord)"
```
"""


def page() -> str:
    """The content of options.md."""
    lines = [HEAD]
    for group in ConvertOptions.groups().values():
        options = [*group.options()]
        for of_commands in (RolesOptions, WaitOptions):
            options += of_commands.options() if group.title == of_commands.title else ()
        lines += [f"## {group.title.capitalize()}", "", "| option | effect |", "|---|---|"]
        lines += [f"| `{_typed(option)}` | {_cell(option.help_text)} |" for option in options]
        lines.append("")
    assert len(convert.options()) == sum(line.startswith("| `--") for line in lines)
    return "\n".join(lines)


def _typed(option: Option) -> str:
    value = option.metavar or "/".join(map(str, option.choices))
    return option.flag if option.is_switch else f"{option.flag} {value}".replace("|", "/")


def _cell(text: str) -> str:
    return text.replace("|", r"\|").replace("<", r"\<").replace("*", r"\*")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
