"""Samples left out, each with its reason. The list of reasons is closed and documented here."""

from __future__ import annotations

import enum
import json
from typing import NamedTuple

from beam_pipeline.core.uris import uri_without_secrets, without_secrets


class Stage(str, enum.Enum):
    """The stage of the dataflow that left a sample out."""

    LIST = "list"
    LABELS = "labels"
    JOIN = "join"
    READ = "read"
    CHECK = "check"


class Reason(str, enum.Enum):
    """Why a sample was left out: the closed list that `dead_letters.jsonl` draws from."""

    # list
    NAME_NOT_UTF8 = "name_not_utf8"
    NOT_A_FILE = "not_a_file"
    UNUSABLE_MEMBER = "unusable_member"
    # labels
    BAD_ROW = "bad_row"
    BAD_LABEL_VALUE = "bad_label_value"
    UNKNOWN_CLASS = "unknown_class"
    # join
    UNLABELLED = "unlabelled"
    MISSING_IMAGE = "missing_image"
    MISSING_FILE = "missing_file"
    AMBIGUOUS_KEY = "ambiguous_key"
    CONFLICTING_LABELS = "conflicting_labels"
    DUPLICATE_KEY = "duplicate_key"
    EXCLUDED = "excluded"
    DUPLICATE = "duplicate"
    # read
    UNREADABLE = "unreadable"
    EMPTY_FILE = "empty_file"
    CHANGED_SINCE_LISTING = "changed_since_listing"
    TOO_LARGE = "too_large"
    # check
    NOT_AN_IMAGE = "not_an_image"
    UNSUPPORTED_FORMAT = "unsupported_format"
    CORRUPT_IMAGE = "corrupt_image"
    DECOMPRESSION_BOMB = "decompression_bomb"
    SIZE_MISMATCH = "size_mismatch"
    NOT_UPRIGHT = "not_upright"
    BAD_BOX = "bad_box"
    EMPTY_BOX = "empty_box"
    SMALL_BOX = "small_box"
    BAD_MASK = "bad_mask"
    # check, by an option: not bad
    FILTERED_MIN_SIDE = "filtered_min_side"
    FILTERED_MAX_ASPECT = "filtered_max_aspect"
    FILTERED_MAX_PIXELS = "filtered_max_pixels"
    FILTERED_MAX_IMAGE_BYTES = "filtered_max_image_bytes"


EXPLANATIONS: dict[str, str] = {
    Reason.NAME_NOT_UTF8: "the file's name is not valid UTF-8, so no feature can contain it",
    Reason.NOT_A_FILE: "the name belongs to a socket, pipe or device, not to a file",
    Reason.UNUSABLE_MEMBER: "a link, a device, encrypted, compressed in another way than by deflate, or with a "
    "name or bytes outside of its archive",
    Reason.BAD_ROW: "the row cannot be split into the columns of its header",
    Reason.BAD_LABEL_VALUE: "a value is empty where one is needed or is not of its column's type",
    Reason.UNKNOWN_CLASS: "the class, or that of an object, is not among those of --classes",
    Reason.UNLABELLED: "the image lacks a label row (or, without --labels, a class folder)",
    Reason.MISSING_IMAGE: "the row names an image that was not listed",
    Reason.MISSING_FILE: "a cell of the row names a file that does not exist",
    Reason.AMBIGUOUS_KEY: "the row could mean two or more images",
    Reason.CONFLICTING_LABELS: "two rows name this image and disagree",
    Reason.DUPLICATE_KEY: "two roots, or an archive twice, contain an image of this relative path",
    Reason.EXCLUDED: "--exclude names the image",
    Reason.DUPLICATE: "another image has the same bytes, and --duplicates is first",
    Reason.UNREADABLE: "the file is gone or cannot be opened or read",
    Reason.EMPTY_FILE: "the file is empty",
    Reason.CHANGED_SINCE_LISTING: "the file is not of the size that was listed, or no longer a file",
    Reason.TOO_LARGE: "the example would not fit a protocol buffer (2 GiB)",
    Reason.NOT_AN_IMAGE: "the bytes are of no image format",
    Reason.UNSUPPORTED_FORMAT: "an image, but not a JPEG, JPEG XL, PNG, GIF, BMP or WebP that TensorFlow decodes",
    Reason.CORRUPT_IMAGE: "the header is broken, the end is missing, or (--image_check=full) decoding fails",
    Reason.DECOMPRESSION_BOMB: "more pixels, frames or scans than is believable, for a decoder to choke on",
    Reason.SIZE_MISMATCH: "the image is not of the size in its label file",
    Reason.NOT_UPRIGHT: "EXIF turns the image, and --orientation is refuse",
    Reason.BAD_BOX: "a bounding box is inverted or outside its image",
    Reason.EMPTY_BOX: "a bounding box has no area: its object is left out, its image is not",
    Reason.SMALL_BOX: "the box to crop (--crop_boxes) has no area, or is smaller than --crop_min_side",
    Reason.BAD_MASK: "the mask does not contain ids: it is lossy, in colours without --mask_colors, or has others",
    Reason.FILTERED_MIN_SIDE: "a side is shorter than --min_side",
    Reason.FILTERED_MAX_ASPECT: "the longer side is more than --max_aspect times the shorter",
    Reason.FILTERED_MAX_PIXELS: "the image has more pixels than --max_pixels",
    Reason.FILTERED_MAX_IMAGE_BYTES: "the file has more bytes than --max_image_bytes; it is not read",
}


class DeadLetter(NamedTuple):
    """One image or label row that became no example, or an object that is in none.

    Attributes:
      stage: a `Stage` value.
      key: what identifies the sample: the path relative to the root, or the row's own key.
      uri: where the image is; empty for a label row without one.
      reason: a `Reason` value.
      message: what was found, what was expected and what to do.
      file: the label file that tells what is wrong; empty for an image.
      line: the line in that file, from 1; 0 for an image, or a file without lines.
    """

    stage: str
    key: str
    uri: str
    reason: str
    message: str
    file: str = ""
    line: int = 0

    @property
    def of_object(self) -> bool:
        """True if only an object of the sample is left out."""
        return self.reason == Reason.EMPTY_BOX.value

    def to_json(self) -> str:
        """Returns one line of `dead_letters.jsonl`, without the line's end.

        The text is exact, except for signed queries and passwords in URLs.
        """
        fields = self._asdict() | {"message": without_secrets(self.message)}
        for name in ("key", "uri", "file"):
            fields[name] = uri_without_secrets(fields[name])
        given = {name: v for name, v in fields.items() if v or name not in ("file", "line")}
        return json.dumps(given, ensure_ascii=False)


def image_dead_letter(
    stage: Stage, key: str, uri: str, reason: Reason, message: str, file: str = "", line: int = 0
) -> DeadLetter:
    """A dead letter for a listed image, its reason given as the enum member."""
    return DeadLetter(stage.value, key, uri, reason.value, message, file, line)


def row_dead_letter(
    stage: Stage, key: str, reason: Reason, message: str, file: str, line: int
) -> DeadLetter:
    """A dead letter for a label row, its reason given as the enum member."""
    return image_dead_letter(stage, key, "", reason, message, file, line)
