"""Opens the input of a conversion: by the layout named, or by the first that recognises it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from beam_pipeline.core.errors import ConversionError, UsageError
from beam_pipeline.core.labels.schema import LIST_FORMS, POINT_KIND
from beam_pipeline.core.questions import LABEL_FILES_IGNORED, Question
from beam_pipeline.layouts import nearby, roles, tree
from beam_pipeline.layouts.layout import Layout, Source, SourceOptions
from beam_pipeline.layouts.paths import archive_notes, archive_questions, expanded
from beam_pipeline.layouts.registry import AUTO, all_layouts, layout_named

_DEFAULT_LAYOUT = "class_folders"
_MOST_ANSWERS = 3  # that one command gives
_DEFAULTS = SourceOptions(images=())
_ANY_LAYOUT = ("images", "labels", "unlabelled", "split_by")
"""Fields that mean something for every layout; the others do where it names them."""


def open_source(name: str, options: SourceOptions) -> tuple[Source, str]:
    """Finds images and labels by the layout of that name, or by the first that recognises them.

    Returns: the source, and why this layout was taken; empty if the user named it.

    Raises:
      UsageError: the layout does not exist, or a path or option cannot be used.
    """
    with tree.remembered():
        return _open(name, options)


def _open(name: str, options: SourceOptions) -> tuple[Source, str]:
    options = dataclasses.replace(options, images=expanded(options.images))
    layout, why = _recognise(options) if name == AUTO else (layout_named(name), "")
    guessed = name == AUTO and layout.name == _DEFAULT_LAYOUT
    alternative = nearby.certain_alternative(options) if guessed else None
    notes: tuple[str, ...] = ()
    if alternative:
        typed, (options, layout, why) = options, alternative
        labels = f" --labels {' '.join(options.labels)}" if options.labels else ""
        notes = (
            f"--images {' '.join(options.images)}{labels} was taken for --images {' '.join(typed.images)}; "
            f"--layout {_DEFAULT_LAYOUT} takes the names of its folders as classes",
        )
    _check_options(options, layout, why)
    source = layout.open(options)
    doubts: list[Question] = []
    if guessed and layout.name == _DEFAULT_LAYOUT:
        asked = nearby.class_doubts(options) or nearby.archive_doubts(source.roots)
        doubts = [_with_working_command(question, options) for question in asked]
    ignored = doubts or [q for q in source.questions if q.id == LABEL_FILES_IGNORED]
    archives = any(root.archive for root in source.roots)
    return dataclasses.replace(
        source,
        notes=(*notes, *archive_notes(source.roots), *source.notes),
        questions=(*source.questions, *doubts, *archive_questions(source.roots)),
        unseen=guessed and not ignored and (archives or not nearby.only_folder(options)),
        roles=roles.roles_of(source),
    ), why


def _check_options(options: SourceOptions, layout: Layout, why: str) -> None:
    """Raises UsageError for an option that means nothing for the layout."""
    if options.labels and not getattr(layout, "reads_labels", True):
        raise UsageError(
            f"--layout {layout.name} takes labels from where the images are; leave out --labels"
        )
    for field, value in vars(options).items():
        used = field in (*_ANY_LAYOUT, *layout.option_names)
        if not used and value != getattr(_DEFAULTS, field):
            users = [user.name for user in all_layouts() if field in user.option_names]
            raise UsageError(
                f"--{field} means nothing for "
                f"the layout {layout.name}{f' ({why})' if why else ''}; it is for {', '.join(users)}"
            )
    for name, kind in options.columns.items():
        if kind in (POINT_KIND, *LIST_FORMS) and "label_column" not in layout.option_names:
            raise UsageError(
                f"--columns {name}:{kind} is for columns of numbers, which the layout {layout.name} does not have"
            )


def _with_working_command(question: Question, options: SourceOptions) -> Question:
    """A question whose command also answers what would be asked next; without one that would be refused."""
    if not question.answer:
        return question
    answer, further = dict(question.answer), ""
    named = {name: value for name, value in answer.items() if name != "layout"} or answer
    values = {name: [v] if isinstance(v, str) else v for name, v in named.items()}
    given = " ".join(f"--{name} {' '.join(value)}" for name, value in values.items())
    for _ in range(_MOST_ANSWERS):
        changes: dict[str, Any] = {
            name: {**getattr(options, name), **value} if isinstance(value, Mapping) else value
            for name, value in answer.items()
            if hasattr(options, name)
        }
        try:
            there = dataclasses.replace(options, **changes)
            questions = _open(str(answer.get("layout", AUTO)), there)[0].questions
        except ConversionError as error:
            further = f"With {given}: {error}"
            break
        if not questions:
            advice = f"{question.advice} {further}".strip()
            return question._replace(advice=advice, answer=answer)
        following = questions[0]
        further = f"With {given}: {following.reason}"
        if not following.answer:
            break
        further += f" {following.advice}"
        answer |= following.answer
    return question._replace(advice=f"{question.advice} {further}".strip(), answer=None)


def _recognise(options: SourceOptions) -> tuple[Layout, str]:
    able = (
        layout
        for layout in all_layouts()
        if (not options.masks or "masks" in layout.option_names)
        and (not options.labels or getattr(layout, "reads_labels", True))
    )
    reasons = ((layout, layout.recognise(options)) for layout in able)
    return next((layout, why) for layout, why in reasons if why)  # the last ones take anything
