"""Duplicates: images of the same bytes, and where they matter most.

Two copies of an image in one split weigh it double. Copies with different labels contradict each
other. Copies in two splits are a leak: a model is tested on what it was trained on.

`compared_images` and `duplicate_search` find them; here is what is known of them, and its file.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from beam_pipeline.core.errors import ConversionError
from beam_pipeline.core.text import counted

DUPLICATES_NAME = "duplicates.json"
DUPLICATES_FORMAT = "beam-tfrecord-duplicates"
DUPLICATES_VERSION = 1

POLICIES = ("keep", "first", "error")
"""Values of --duplicates; the first is the default."""

_MOST_EXAMPLES = 20


class DuplicateGroup(NamedTuple):
    """Images of the same bytes.

    Attributes:
      images: how many.
      splits: (split, images in it), sorted.
      relabelled: they have different labels.
      shown: (split, key) of some: the first of each split, then the first of all, by key.
    """

    images: int
    splits: tuple[tuple[str, int], ...]
    relabelled: bool
    shown: tuple[tuple[str, str], ...]

    @property
    def is_leak(self) -> bool:
        """True if they are in several splits."""
        return len(self.splits) > 1


class Duplicates(NamedTuple):
    """The duplicates among some images.

    Attributes:
      compared: how many were compared; images in shards of older versions are not.
      images: images of the same bytes as another.
      groups: groups of images with the same bytes.
      leaks: groups that are in several splits.
      relabelled: groups with different labels.
      examples: some groups, leaks first, then those with different labels.
    """

    compared: int = 0
    images: int = 0
    groups: int = 0
    leaks: int = 0
    relabelled: int = 0
    examples: tuple[DuplicateGroup, ...] = ()

    @property
    def copies(self) -> int:
        """The images that are not the one of their group to keep."""
        return self.images - self.groups

    @classmethod
    def of(cls, groups: Iterable[DuplicateGroup], compared: int) -> Duplicates:
        """The figures of some groups, which are not held in memory."""
        images = number = leaks = relabelled = 0
        examples: list[DuplicateGroup] = []
        for group in groups:
            images += group.images
            number += 1
            leaks += group.is_leak
            relabelled += group.relabelled
            examples.append(group)
            if len(examples) > 2 * _MOST_EXAMPLES:
                examples = _worst(examples)
        return cls(compared, images, number, leaks, relabelled, tuple(_worst(examples)))

    @classmethod
    def sum_of(cls, parts: Iterable[Duplicates]) -> Duplicates:
        """All figures together; no group is in two parts."""
        total = cls()
        for part in parts:
            total = cls(
                compared=total.compared + part.compared,
                images=total.images + part.images,
                groups=total.groups + part.groups,
                leaks=total.leaks + part.leaks,
                relabelled=total.relabelled + part.relabelled,
                examples=tuple(_worst([*total.examples, *part.examples])),
            )
        return total

    def to_json(self) -> dict[str, Any]:
        """The content of `duplicates.json`."""
        return {
            "format": DUPLICATES_FORMAT,
            "format_version": DUPLICATES_VERSION,
            "images_compared": self.compared,
            "images": self.images,
            "groups": self.groups,
            "copies": self.copies,
            "groups_across_splits": self.leaks,
            "groups_with_different_labels": self.relabelled,
            "examples": [
                {
                    "images": group.images,
                    "splits": dict(group.splits),
                    "different_labels": group.relabelled,
                    "shown": [{"split": split, "key": key} for split, key in group.shown],
                }
                for group in self.examples
            ],
        }

    def to_figures(self) -> dict[str, int | list[str]]:
        """The counts and some examples, as the report shows them; empty if there are none."""
        if not self.groups:
            return {}
        return {
            "images compared": self.compared,
            "images that occur several times": self.images,
            "groups of the same bytes": self.groups,
            "groups across splits": self.leaks,
            "groups with different labels": self.relabelled,
            "examples": [
                ", ".join(f"{key} ({split})" for split, key in group.shown)
                for group in self.examples
            ],
        }


NO_DUPLICATES = Duplicates()


def parse_duplicates(data: bytes, uri: str) -> Duplicates:
    """Reads `duplicates.json` back.

    Raises:
      ConversionError: it is another program's file, or damaged.
    """
    try:
        content: dict[str, Any] = json.loads(data)
        if (
            content["format"] != DUPLICATES_FORMAT
            or content["format_version"] != DUPLICATES_VERSION
        ):
            raise ValueError(f"its format is {content['format']!r}")
        return Duplicates(
            compared=int(content["images_compared"]),
            images=int(content["images"]),
            groups=int(content["groups"]),
            leaks=int(content["groups_across_splits"]),
            relabelled=int(content["groups_with_different_labels"]),
            examples=tuple(_parse_group(group) for group in content["examples"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ConversionError(
            f"{uri} does not list the duplicates of a data set: {error!r}"
        ) from error


def _parse_group(group: Mapping[str, Any]) -> DuplicateGroup:
    return DuplicateGroup(
        images=int(group["images"]),
        splits=tuple((str(split), int(count)) for split, count in group["splits"].items()),
        relabelled=bool(group["different_labels"]),
        shown=tuple((str(one["split"]), str(one["key"])) for one in group["shown"]),
    )


def _worst(groups: Iterable[DuplicateGroup]) -> list[DuplicateGroup]:
    """The groups to show: leaks first, then those with different labels, then by key."""
    return heapq.nsmallest(_MOST_EXAMPLES, groups, key=_order)


def _order(group: DuplicateGroup) -> tuple[bool, bool, str, str]:
    split, key = group.shown[0]
    return not group.is_leak, not group.relabelled, key, split


def described(found: Duplicates) -> Iterator[str]:
    """The duplicates, for people, a line each; none if there are none."""
    if found.groups:
        yield (
            f"{counted(found.images, 'image')} in {counted(found.groups, 'group')} of the same bytes"
            f"{_such_as(found.examples[0])}"
        )
    if found.leaks:
        leak = next(group for group in found.examples if group.is_leak)
        splits = " and ".join(split for split, _ in leak.splits)
        yield (
            f"{counted(found.leaks, 'group')} across splits (such as {splits}): a model would be "
            "tested on what it was trained on"
        )
    if found.relabelled:
        differ = next((group for group in found.examples if group.relabelled), None)
        yield (
            f"{counted(found.relabelled, 'group')} with different labels"
            f"{_such_as(differ) if differ and differ != found.examples[0] else ''}"
        )


def _such_as(group: DuplicateGroup) -> str:
    keys = " and ".join(
        f"{key} ({split})" if group.is_leak else key for split, key in group.shown[:2]
    )
    return f", such as {keys}"
