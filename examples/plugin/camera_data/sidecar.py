"""Sidecar: a JSON object beside each image, with the image's name."""

from __future__ import annotations

import json
import posixpath
from dataclasses import dataclass

from beam_pipeline.core.labels.schema import (
    Column,
    ColumnKind,
    further_column,
    label_column,
)
from beam_pipeline.core.listing.filters import ImageRoot
from beam_pipeline.core.records.example_source import LabelledImages
from beam_pipeline.layouts.label_files import (
    BadLabelError,
    ImageLabels,
    LabelFileReader,
    LabelFormat,
)
from beam_pipeline.layouts.layout import FileLabels, Source, SourceOptions
from beam_pipeline.layouts.paths import image_roots
from beam_pipeline.layouts.tree import files_of, names_in, subfolders
from beam_pipeline.storage import files


@dataclass(frozen=True)
class SidecarFormat(LabelFormat):
    """The labels of one image."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """The class, and the temperature."""
        return (
            label_column("weather", ColumnKind.BYTES),
            further_column("temperature", ColumnKind.FLOAT),
        )

    def parse(self, data: bytes, uri: str) -> ImageLabels:
        """Parses a file; a fault becomes a dead letter of its image, with the line."""
        try:
            fields = json.loads(data)
            return ImageLabels((str(fields["weather"]), float(fields["temperature"])))
        except (ValueError, KeyError, TypeError) as error:
            problem = f"expected an object with weather and temperature: {error!r}"
            raise BadLabelError(problem, line=1) from error


class Sidecar:
    """A JSON object beside each image."""

    name = "sidecar"
    option_names = frozenset({"label_base", "label_order"})

    def recognise(self, options: SourceOptions) -> str:
        """Looks for a .json beside a .jpg of the same name."""
        if options.labels or len(options.images) != 1:
            return ""
        root = files.canonical(options.images[0])
        for folder in (root, *subfolders(root)):
            for uri in files_of(folder, ".json"):
                name = posixpath.basename(uri)
                image = name.replace(".json", ".jpg")
                if image in names_in(folder).images:
                    return f"{name} beside {image} in {folder}"
        return ""

    def open(self, options: SourceOptions) -> Source:
        """Lists images and sidecar files below the same folders."""
        roots = image_roots(options.images)
        sidecars = tuple(ImageRoot(root.uri, ("**/*.json",)) for root in roots)
        return Source(
            layout=self.name,
            roots=roots,
            labels=FileLabels(LabelFileReader(SidecarFormat(), ()), folders=sidecars),
            examples=LabelledImages(SidecarFormat().columns),
            numbering=options.numbering(),
        )
