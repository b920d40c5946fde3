"""List images: roots in, batches of references out. No image is opened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import apache_beam as beam
from apache_beam.pvalue import TaggedOutput

from transforms import files
from transforms.batches import BATCH_SIZE, DEAD_LETTERS, TALLY, DeadLetterBatch, ImageBatch
from transforms.core.errors import ListingError
from transforms.core.listing import ImageRoot, Listed, ListingFilter, is_remote, list_local_root
from transforms.core.plan import Refusal, Tally
from transforms.core.references import ImageRef
from transforms.google_storage import RemoteFile


def list_root(root: ImageRoot, batch_size: int = BATCH_SIZE) -> Iterator[Listed]:
    """Lists one root in batches.

    Raises:
      ListingError: something in it cannot be listed.
    """
    if is_remote(root.uri):
        return _list_remote_root(root, batch_size)
    return list_local_root(root, batch_size)


def _list_remote_root(root: ImageRoot, batch_size: int) -> Iterator[Listed]:
    rules = ListingFilter(root)
    images: list[ImageRef] = []
    for key, size, version in _found_in(root):
        *folders, name = key.split("/")
        uri = files.join(root.uri, key)
        if name and all(map(rules.enters, folders)) and rules.lists(key, uri):
            images.append(ImageRef(key, uri, size, version))
        if len(images) >= batch_size:
            yield Listed(images, [], Counter())
            images = []
    yield Listed(images, [], rules.ignored)


def _found_in(root: ImageRoot) -> Iterator[RemoteFile]:
    try:
        yield from files.list_remote(root.uri)
    except Exception as error:  # each filesystem of Beam's raises its own client's errors
        raise ListingError(f"{root.uri} cannot be listed: {error}") from error


class _ListRoot(beam.DoFn):
    def process(self, root: ImageRoot) -> Iterator[ImageBatch | TaggedOutput]:
        tally = Tally()
        for listed in self._list(root, tally):
            tally.listed += len(listed.images) + len(listed.dead_letters)
            tally.ignored.update(listed.ignored)
            if listed.images:
                yield ImageBatch(listed.images)
            if listed.dead_letters:
                tally.add_dead_letters(listed.dead_letters)
                yield TaggedOutput(DEAD_LETTERS, DeadLetterBatch(listed.dead_letters))
        yield TaggedOutput(TALLY, tally)

    @staticmethod
    def _list(root: ImageRoot, tally: Tally) -> Iterator[Listed]:
        try:
            yield from list_root(root)
        except ListingError as error:
            tally.refusals.append(Refusal(ListingError.__name__, str(error)))


@dataclass(kw_only=True)
class ListImages(beam.PTransform):
    """Lists the images of every root.

    Attributes:
      roots: where to look.

    Returns (tagged): main, `ImageBatch`es; "dead_letters", `DeadLetterBatch`es; "tally", `Tally`s.
    """

    roots: tuple[ImageRoot, ...]

    def expand(self, pipeline: beam.Pipeline) -> beam.pvalue.DoOutputsTuple:
        return (
            pipeline
            | "Roots" >> beam.Create(self.roots, reshuffle=False)
            | "ListRoot"
            >> beam.ParDo(_ListRoot())
            .with_output_types(ImageBatch)
            .with_outputs(DEAD_LETTERS, TALLY, main="images")
        )
