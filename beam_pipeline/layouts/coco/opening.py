"""COCO's JSON files, opened with errors that name them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import BinaryIO

from beam_pipeline.core.errors import LabelTableError
from beam_pipeline.layouts.coco.instances import broken_json
from beam_pipeline.layouts.coco.json_file import JsonFileError
from beam_pipeline.storage import files


@contextlib.contextmanager
def opened(uri: str) -> Iterator[BinaryIO]:
    """Opens a file of --labels at its beginning.

    Raises:
      LabelTableError: the file cannot be read, or what the block reads of it is no JSON.
    """
    try:
        with files.open_input(uri) as file:
            yield file
    except JsonFileError as error:
        raise broken_json(uri, error) from error
    except OSError as error:
        raise LabelTableError(
            f"--labels {uri} cannot be read: {error.strerror or error}"
        ) from error
