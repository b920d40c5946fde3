"""Options that place samples, check, store and name the output, and control the work."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields

from beam_pipeline.core.dataset.duplicates import POLICIES
from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.images import geometry, preparation
from beam_pipeline.core.labels.boxes import BAD_BOXES
from beam_pipeline.core.records.formats import COMPRESSIONS, DEFAULT_FORMAT, FORMATS
from beam_pipeline.core.records.sharding import DEFAULT_SHARD_BYTES, ShardConfig, SplitFractions
from beam_pipeline.options.group import (
    NUMBER,
    SIZE,
    Kind,
    OptionGroup,
    option,
    parse_features,
    parse_num_shards,
    parse_side_lengths,
    parse_splits,
    parse_truth,
)
from beam_pipeline.storage.read_ahead import DEFAULT_MAX_BYTES, REMOTE_READS


@dataclass(frozen=True)
class ImageOptions(OptionGroup):
    """Image checks, filters and encoding, and how many bad images to accept."""

    title = "images"

    image_check: str = option(
        "header reads the header and the end of each file; full also decodes it",
        choices=preparation.IMAGE_CHECKS,
    )
    image_encoding: str | None = option(
        "encoding of images stored as bare pixels, as in CIFAR (default: png)",
        None,
        choices=preparation.IMAGE_ENCODINGS,
    )
    orientation: str | None = option(
        "images with an EXIF rotation: keep them as stored, apply the rotation to pixels and labels, or "
        "refuse them (default: apply if labels have boxes, masks or points, or if images are encoded "
        "anyway; otherwise keep)",
        None,
        choices=geometry.ORIENTATIONS,
    )
    resize: str | None = option(
        "scale images with their boxes, masks and points: 256, or WIDTHxHEIGHT such as 320x240 "
        "(default: no scaling)",
        kind=Kind("SIZE", parse_side_lengths),
    )
    resize_mode: str = option(
        "shortest (cover the size), longest (fit into it), exact (stretch), pad (fit, then fill the "
        "rest), or crop (cover, then trim)",
        choices=geometry.RESIZE_MODES,
        needs=("resize",),
    )
    never_enlarge: bool = option(
        "do not enlarge images that are smaller than --resize (default: true)",
        True,
        Kind("true|false", parse_truth),
        choices=(True, False),
        needs=("resize",),
    )
    image_format: str = option("format of all images", choices=geometry.IMAGE_FORMATS)
    quality: int = option(
        "quality of JPEG and WebP images that are encoded",
        geometry.QUALITY,
        Kind("N", int, 1, 100),
    )
    reencode: str | None = option(
        "re-encode images: never, auto (those that readers cannot decode or show wrongly: TIFF, AVIF, "
        "HEIC, JPEG 2000, CMYK, transparent palettes), or always (default: auto with --resize or "
        "--image_format, otherwise never)",
        None,
        choices=geometry.REENCODE,
    )
    image_codec: str = option(
        "library that scales, rotates and encodes; opencv is faster for JPEGs, and pillow still "
        "handles other formats",
        choices=preparation.IMAGE_CODECS,
    )
    color_profile: str = option(
        "convert re-encoded images to sRGB, or keep their ICC profile",
        choices=geometry.COLOR_PROFILES,
    )
    animated: str = option(
        "re-encode the first frame of an animation, or refuse animations",
        choices=geometry.ANIMATED,
    )
    clip_boxes: bool = option(
        "clip boxes at the edge of their image (default: leave the image out)", False
    )
    bad_boxes: str = option(
        "what a box without an area leaves out: its object, or its whole image", choices=BAD_BOXES
    )
    max_bad_fraction: float = option(
        "fail if more than this fraction of the listed images is bad",
        0.01,
        Kind("FRACTION", float, 0, 1),
    )
    duplicates: str = option(
        "byte-identical images: keep all and warn; first: keep one per group (drops the train copy "
        "if another split has one); error: fail",
        choices=POLICIES,
    )
    min_side: int | None = option(
        "leave out images with a shorter side (default: none)", kind=Kind("PIXELS", int, 1)
    )
    max_aspect: float | None = option(
        "leave out images whose longer side is more than RATIO times the shorter (default: none)",
        kind=Kind("RATIO", float, 1, 10**9),
    )
    max_pixels: int | None = option(
        "leave out images with more pixels than width x height = N (default: none)",
        kind=Kind("N", int, 1),
    )
    max_image_bytes: int | None = option(
        "leave out larger files, such as 20MB, without reading them (default: none)",
        kind=SIZE,
    )

    @property
    def filters(self) -> dict[str, float]:
        """The filters given: option -> its value, in the order of `FILTER_NAMES`."""
        values = {name: getattr(self, name) for name in preparation.FILTER_NAMES}
        return {name: value for name, value in values.items() if value is not None}

    @property
    def changes(self) -> geometry.ImageChanges:
        """The changes to images, without the codec that makes them."""
        sides = tuple(map(int, self.resize.split("x"))) if self.resize else ()
        encodes = self.resize is not None or self.image_format != geometry.IMAGE_FORMATS[0]
        changes = {
            **vars(self),
            "orientation": self.orientation or "",
            "resize": (sides[0], sides[-1]) if sides else None,
            "reencode": self.reencode or ("auto" if encodes else "never"),
        }
        names = {field.name for field in fields(geometry.ImageChanges)} & changes.keys()
        return geometry.ImageChanges(**{name: changes[name] for name in names})


@dataclass(frozen=True)
class SplitOptions(OptionGroup):
    """Splits, shards per split, and the shuffle seed."""

    title = "splits and shards"

    splits: SplitFractions | str | None = option(
        "divide by a hash of the key; label_files: the file name of each table determines the split, "
        "as in val.csv (default: folders named train, validation or test, or the column split, "
        "otherwise train)",
        kind=Kind("train=0.9,validation=0.1|label_files", parse_splits),
    )
    split_by: str = option(
        "with --splits: keep images with the same value of a label column, such as patient, or "
        "in the same folder, in one split",
        kind="COLUMN|folder",
    )
    stratify: bool = option("with --splits: divide each class in the same proportions", False)
    num_shards: int | Mapping[str, int] | None = option(
        "shards per split (default: derived from --shard_size)",
        kind=Kind("N|train=128,test=8", parse_num_shards),
    )
    shard_size: int = option(
        "target shard size, such as 128MiB (default: 200MB)", DEFAULT_SHARD_BYTES, SIZE
    )
    seed: int = option("shuffle seed", 0, NUMBER)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("split_by", "stratify"):
            if name in self.given and self.fractions is None:
                raise UsageError(
                    f"--{name} needs --splits with the split sizes, such as --splits train=0.9,test=0.1"
                )

    @property
    def shards(self) -> ShardConfig:
        """Number or target size of shards."""
        return ShardConfig(self.num_shards, self.shard_size)

    @property
    def fractions(self) -> SplitFractions | None:
        """The shares of the splits; None if samples are not divided."""
        return self.splits if isinstance(self.splits, SplitFractions) else None

    @property
    def split_names(self) -> tuple[str, ...]:
        """Splits that must exist even if no sample falls into them."""
        return tuple(name for name, _ in self.fractions.fractions) if self.fractions else ()


@dataclass(frozen=True)
class OutputOptions(OptionGroup):
    """The output folder as typed, and the treatment of a data set that is already there."""

    title = "output"

    output: str = option("output folder, created if missing", kind="DIR", required=True)
    name: str = option("prefix of file names (default: the output folder's name)", kind="NAME")
    overwrite: bool = option(
        "replace the data set that an earlier run wrote to --output, and nothing else", False
    )
    reuse: str = option(
        "earlier data set whose unchanged shards are linked or copied instead of written; "
        "latest:FOLDER takes the newest complete one in a folder, whose file `latest` then names this one",
        kind="DIR",
    )
    resume: bool = option(
        "continue an interrupted run, or check that its data set is up to date",
        False,
        excludes={"overwrite": "keeps what --overwrite removes; give only one of the two"},
    )
    no_report: bool = option("do not write report.html", False)
    compression: str = option("shard compression", choices=COMPRESSIONS, choices_checked=False)
    format: str = option(
        "container of the examples", DEFAULT_FORMAT, choices=FORMATS, choices_checked=False
    )
    features: Mapping[str, str] = option(
        "write a feature or label column under another key, such as image/source_id=label",
        kind=Kind("KEY=WHAT", parse_features, empty={}),
    )
    no_card: bool = option(
        "write no data card (README.md and croissant.json) beside the shards", False
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.name and (not re.fullmatch(r"[\w.-]+", self.name) or self.name.startswith(".")):
            raise UsageError(
                f"--name {self.name!r} cannot start a file name; use letters, digits, '_', '-' and '.'"
            )
        if self.reuse.startswith("latest:") and not self.reuse.removeprefix("latest:").strip():
            raise UsageError("--reuse latest: names no folder; expected latest:FOLDER")


SHUFFLES = ("references", "records")


@dataclass(frozen=True)
class EngineOptions(OptionGroup):
    """Shuffling, writing and reading. These options do not change the samples."""

    title = "engine"

    shuffle: str = option(
        "shuffle references to images, or encoded records",
        choices=SHUFFLES,
        excludes={
            name: f"records writes no receipts, which --{name} needs; leave out one of the two"
            for name in ("resume", "reuse")
        },
    )
    writers: int | None = option(
        "writer processes on this machine; 0 leaves writing to the engine's workers (default: "
        "one per core, and none for a few hundred images; 0 with --runner or --direct_...)",
        kind=Kind("N", int, 0, 1000),
    )
    read_ahead: int | None = option(
        f"images each writer reads at once (default: {REMOTE_READS} from a bucket; 1 from local "
        "files, with the next ones prefetched by the system)",
        kind=Kind("N", int, 1, 1000),
    )
    read_ahead_size: int = option(
        "memory per writer for images read ahead (default: 128MB)", DEFAULT_MAX_BYTES, SIZE
    )


@dataclass(frozen=True)
class WaitOptions(OptionGroup):
    """Options of `convert` only: `plan` always waits for its job."""

    title = EngineOptions.title

    no_wait: bool = option("on Dataflow or a Flink cluster: exit once the job is submitted", False)
