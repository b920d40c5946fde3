"""Changes an image before it is written, and moves its labels with it.

A reader of examples finds the picture, its size and all places in it in agreement, whatever was
changed, and whichever way round the picture was when the places were measured:

    stored pixels --turn, crop, scale, pad--> pixels that are written
         ^                                              ^
         '---- places, measured as stored or as shown --'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from beam_pipeline.core import dead_letters, references
from beam_pipeline.core.images import geometry, masks, preparation
from beam_pipeline.core.images.geometry import Affine, Geometry, ImageChanges, Rectangle
from beam_pipeline.core.images.header import UPRIGHT, BadImageError, ImageHeader, unsupported
from beam_pipeline.core.labels.boxes import Move, is_located, move_labels
from beam_pipeline.core.labels.schema import Column, ColumnKind

_JPEG_XL = "jxl"  # readers decode it, and Pillow only with a library more


ENCODED, LEFT_TURNED, OBJECTS_OUTSIDE = "encoded", "left_turned", "objects_outside"

EVENT_PHRASES = {
    "unchanged": "written as they were",
    ENCODED: "re-encoded",
    "resized": "resized",
    "turned": "turned upright",
    LEFT_TURNED: "not upright, and not turned",
    "first_frame": "first frames of animations",
    OBJECTS_OUTSIDE: "objects left out, outside of what a crop keeps",
    "taken_as_shown": "pictures of turned images taken as upright, as EXIF does not turn them",
}
"""Each change to an image that the manifest counts -> its name for people, after a number of images."""


Labels = tuple[references.LabelValue, ...]
"""A value for each column of a sample."""


class Altered(NamedTuple):
    """An image as it is written.

    Attributes:
      image: its bytes.
      header: their header.
      geometry: how its pixels changed.
      events: what happened.
    """

    image: bytes
    header: ImageHeader
    geometry: Geometry
    events: tuple[str, ...]


@dataclass(frozen=True)
class Alteration:
    """The changes to the images of a data set.

    Attributes:
      changes: as they were asked for.
      columns: the label columns.
    """

    changes: ImageChanges = field(default_factory=ImageChanges)
    columns: Sequence[Column] = ()

    @cached_property
    def orientation(self) -> str:
        """One of `ORIENTATIONS`.

        By default images are turned where labels locate objects, as tools for labelling show
        them turned, and where images are encoded anyway.
        """
        turns = self.changes.encodes or any(is_located(column.kind) for column in self.columns)
        return self.changes.orientation or ("apply" if turns else "keep")

    def measured(self, header: ImageHeader, claimed: references.Size | None) -> ImageHeader:
        """The header of the picture that the labels were measured on: the stored or the rotated one.

        The size that a label file claims decides, if EXIF turns the image by a quarter. Where it is of no
        help, it is the picture as shown if images are turned, because most tools for labelling show it so.

        Args:
          header: of the stored image.
          claimed: (width, height) by its label file; None if that gives none.

        Returns: the header; its orientation is 1 if it describes the picture as shown.

        Raises:
          BadImageError: the image is not upright, and such images are refused.
        """
        self._check_upright(header)
        as_shown, size = self.orientation == "apply", header.size
        turned = geometry.turned_size(size, header.orientation)
        if size != turned and claimed in (size, turned):
            as_shown = claimed == turned
        if not as_shown:
            return header
        return header._replace(width=turned[0], height=turned[1], orientation=UPRIGHT)

    def _check_upright(self, header: ImageHeader) -> None:
        if self.orientation == "refuse" and header.orientation != UPRIGHT:
            raise BadImageError(
                dead_letters.Reason.NOT_UPRIGHT,
                f"EXIF turns the image (orientation {header.orientation}); turn it, "
                "or give --orientation apply or keep",
            )

    def reading_hint(self, measured: ImageHeader) -> str:
        """Says how places in the labels of an image that is not upright were read."""
        taken, remedy = "stored", "--orientation apply, as shown"
        if measured.orientation == UPRIGHT:
            taken, remedy = "shown", "--orientation keep takes them as stored"
        return f"EXIF turns the image, and boxes were taken as measured on the picture as {taken} ({remedy})"

    def alter(self, image: bytes, header: ImageHeader, window: Rectangle | None = None) -> Altered:
        """Changes an image, or returns it as it is.

        Args:
          image: the file.
          header: its header.
          window: see `plan_geometry`.

        Raises:
          BadImageError: it has to be changed, and cannot be decoded or encoded.
        """
        changes, opened = self.changes, None
        applied = header.orientation if self.orientation == "apply" else UPRIGHT
        needed = changes.image_format not in ("keep", header.format) or changes.reencode == "always"
        size = header.size
        if changes.encodes and header.format != _JPEG_XL:
            opened = preparation.opened(image)
            if changes.animated == "refuse" and opened.animated:
                raise unsupported(
                    "an animation; --animated first_frame takes the first frame of those that are "
                    "re-encoded",
                )
            unreadable = opened.unreadable or opened.image.size != size  # of a GIF, the screen
            needed = needed or (unreadable and changes.reencode == "auto")
        plan = geometry.plan_geometry(size, applied, changes, window)
        events: list[str] = []
        if not needed and plan.is_identity:
            if opened and opened.animated and (header.format, changes.reencode) == ("png", "auto"):
                from beam_pipeline.core.images.pillow_header import check_agreement

                check_agreement(opened.header, image)  # Pillow may refuse what TensorFlow ignores
            events += ["unchanged"] * changes.encodes
            events += [LEFT_TURNED] * (header.orientation != UPRIGHT)
            return Altered(image, header, plan, tuple(events))
        opened = opened or preparation.opened(image)
        if opened.image.size != size:  # a GIF's screen, where the header is of the largest frame
            plan = geometry.plan_geometry(opened.image.size, applied, changes, window)
        rewrite = preparation.load_codec(changes.image_codec).rewrite
        opened = opened._replace(header=opened.header._replace(orientation=header.orientation))
        image, header = rewrite(opened, plan, changes)
        events.append(ENCODED)
        in_place = geometry.plan_geometry(plan.stored, plan.orientation, None, window)
        events += ["resized"] * (plan != in_place)
        events += ["turned"] * (plan.orientation != UPRIGHT)
        events += [LEFT_TURNED] * (header.orientation != UPRIGHT)
        events += ["first_frame"] * opened.animated
        return Altered(image, header, plan, tuple(events))

    def beside(self, picture: bytes, own: ImageHeader, image: ImageHeader) -> Altered:
        """A further picture of a sample: changed as the image is if it has its size, else as it is.

        Without EXIF, it is as stored where its sides tell that, else as shown; the latter is counted. One of 16 bits and one channel, such as of depths, gets the nearest original values, as masks do.

        Args:
          picture: its bytes.
          own: its header.
          image: the header of the sample's image, as stored.

        Raises:
          BadImageError: it has to be changed, and cannot be decoded or encoded.
        """
        self._check_upright(own)
        size, of_image = own.size, image.size
        applies = self.orientation == "apply"
        differ = own.orientation == UPRIGHT and image.orientation != UPRIGHT
        events: tuple[str, ...] = ()
        if applies and differ and size == of_image:
            if size != geometry.turned_size(of_image, image.orientation):
                own = own._replace(orientation=image.orientation)  # measured on the stored image
            else:
                events = ("taken_as_shown",)
        turns = (own.orientation, image.orientation) if applies else (UPRIGHT, UPRIGHT)
        if geometry.turned_size(size, turns[0]) != geometry.turned_size(of_image, turns[1]):
            return Altered(picture, own, geometry.plan_geometry(size, UPRIGHT, None), ())
        if not masks.is_deep_grey(picture):
            altered = self.alter(picture, own)
            return altered._replace(events=(*altered.events, *events))
        plan = geometry.plan_geometry(size, turns[0], self.changes)
        if plan.is_identity:
            return Altered(picture, own, plan, events)
        width, height = plan.size
        moved = masks.moved_png(picture, plan.affine, plan.size)
        return Altered(moved, own._replace(width=width, height=height), plan, events)

    def window(
        self, labels: Labels, stored: ImageHeader, measured: ImageHeader
    ) -> Rectangle | None:
        """The part of the picture that is cut out: the box of the only object; None for all of it.

        Args:
          labels: of the sample.
          stored: the header of the stored image.
          measured: the header of the picture that they were measured on.

        Raises:
          BadImageError: the box is too small.
        """
        if not self.changes.crop:
            return None
        index = [column.kind for column in self.columns].index(ColumnKind.BOX)
        boxes: Any = labels[index]
        ((xmin, ymin, xmax, ymax, _),) = boxes
        width, height = (1, 1) if self.columns[index].pixels else measured.size
        applied = stored.orientation if self.orientation == "apply" else UPRIGHT
        turned = _to_stored(stored, measured).then(geometry.orienting(stored.size, applied))
        box = turned.box((xmin * width, ymin * height, xmax * width, ymax * height))
        return self.changes.crop.window(box, geometry.turned_size(stored.size, applied))

    def labels(
        self, labels: Labels, stored: ImageHeader, measured: ImageHeader, plan: Geometry
    ) -> tuple[Labels, int]:
        """Moves labels to where they belong in the image that is written.

        Args:
          labels: of the sample.
          stored: the header of the stored image.
          measured: the header of the picture that they were measured on.
          plan: how the pixels change.

        Returns: the labels, and the number of objects that are outside now.

        Raises:
          BadImageError: a mask is of another size than the picture.
        """
        if not any(is_located(column.kind) for column in self.columns):
            return labels, 0
        affine = _to_stored(stored, measured).then(plan.affine)
        if affine == Affine() and plan.size == measured.size:
            return labels, 0
        return move_labels(labels, self.columns, Move(measured.size, affine, plan.size))


def _to_stored(stored: ImageHeader, measured: ImageHeader) -> Affine:
    """The map from places in the picture that labels were measured on to those in the stored image."""
    if measured.orientation == stored.orientation:
        return Affine()
    return geometry.orienting(stored.size, stored.orientation).inverse()
