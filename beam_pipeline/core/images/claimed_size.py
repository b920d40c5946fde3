"""The size of an image as its label file says it, compared with the image's own."""

from __future__ import annotations

from beam_pipeline.core.dead_letters import Reason
from beam_pipeline.core.images.exif import QUARTER_TURNS, UPRIGHT
from beam_pipeline.core.images.geometry import turned_size
from beam_pipeline.core.images.header import BadImageError, ImageHeader
from beam_pipeline.core.references import Size


def measured_header(header: ImageHeader, claimed: Size | None, *, as_shown: bool) -> ImageHeader:
    """The header of the picture on which labels were measured: the stored one, or the one shown.

    The size that a label file claims decides, if EXIF turns the image by a quarter. Where it is of no
    help, most tools for labelling show pictures turned.

    Args:
      header: of the stored image.
      claimed: (width, height); None if the label file says nothing.
      as_shown: whether labels without such a hint were measured on the picture as it is shown.

    Returns: the header; its orientation is 1 if it is that of the picture as shown.
    """
    stored = (header.width, header.height)
    shown = turned_size(stored, header.orientation)
    if stored != shown and claimed in (stored, shown):
        as_shown = claimed == shown
    if not as_shown:
        return header
    return header._replace(width=shown[0], height=shown[1], orientation=UPRIGHT)


def check_claimed_size(claimed: Size | None, header: ImageHeader, *, boxes: bool) -> None:
    """Makes sure that an image has the size that its label file says.

    Boxes in pixels of another size would lie in the wrong places. Width and height may be swapped
    where the label file has no boxes, or where EXIF says that a viewer turns the image.

    Args:
      claimed: (width, height); None if the label file says nothing, and many tools write 0.
      header: of the image.
      boxes: whether the labels have boxes.

    Raises:
      BadImageError: it has another size.
    """
    size = (header.width, header.height)
    if claimed is None or claimed == size or min(claimed) <= 0:
        return
    swapped = claimed == size[::-1]
    if swapped and (not boxes or header.orientation in QUARTER_TURNS):
        return
    hint = "; width and height are swapped, and no EXIF orientation says so" if swapped else ""
    raise BadImageError(
        Reason.SIZE_MISMATCH,
        f"the label file is for an image of {claimed[0]} x {claimed[1]} pixels, this one has "
        f"{header.width} x {header.height}{hint}; take the image that was labelled, or correct the "
        "size and the boxes in the label file",
    )
