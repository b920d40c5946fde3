"""Reads and writes receipts, which list the inputs of each shard, in the output folder."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from beam_pipeline.core.dataset.names import RECEIPTS_FOLDER
from beam_pipeline.core.dataset.receipts import (
    Receipt,
    ShardInputs,
    parse_if_same,
    parse_receipt,
    parse_record_sizes,
    receipt_name,
)
from beam_pipeline.core.errors import ConversionError
from beam_pipeline.storage import files


def read_receipt(folder: str, shard: str, expected: ShardInputs | None = None) -> Receipt | None:
    """The receipt of a shard; None if there is none.

    Args:
      folder: the output folder.
      shard: file name of the shard.
      expected: the inputs that the receipt probably has; if so, it holds these themselves.

    Raises:
      ConversionError: it is damaged, cannot be read, or is another shard's.
    """
    uri, data = _read(folder, shard)
    if data is None:
        return None
    same = parse_if_same(data, expected) if expected else None
    receipt = same or parse_receipt(data, uri)
    found = receipt.inputs.spec.file_name
    if found != shard:
        raise ConversionError(
            f"{uri} is damaged: it is of {found!r}, not of {shard}; remove it by hand"
        )
    return receipt


def read_record_sizes(folder: str, shard: str) -> Sequence[int]:
    """The bytes of each record of a shard, by its receipt; none if that does not say.

    Raises:
      ConversionError: the receipt is damaged, or cannot be read.
    """
    uri, data = _read(folder, shard)
    return () if data is None else parse_record_sizes(data, uri)


def _read(folder: str, shard: str) -> tuple[str, bytes | None]:
    """The URI and the content of a receipt; None if there is none. Raises ConversionError."""
    uri = files.join(folder, receipt_name(shard))
    try:
        return uri, files.read_if_there(uri)
    except OSError as error:
        raise ConversionError(f"{uri} cannot be read: {error.strerror or error}") from error


def write_receipt(folder: str, receipt: Receipt, *, new: bool = False) -> None:
    """Writes the receipt of a shard that has just been written.

    Args:
      folder: the output folder.
      receipt: the receipt.
      new: as `files.open_output` has it, so that the receipt of another job's shard stays.
    """
    files.make_folder(files.join(folder, RECEIPTS_FOLDER))
    name = receipt_name(receipt.inputs.spec.file_name)
    files.write_bytes(files.join(folder, name), receipt.to_bytes(), new=new)


def receipts_there(folder: str) -> set[str]:
    """Paths of all receipts in the output folder."""
    names = files.list_folder(files.join(folder, RECEIPTS_FOLDER))
    return {f"{RECEIPTS_FOLDER}/{name}" for name in names}


def delete_receipts(folder: str, receipts: Iterable[str]) -> None:
    """Deletes receipts, and their folder if it is empty then.

    Args:
      folder: the output folder.
      receipts: their paths in it.
    """
    files.delete(folder, sorted(receipts))
    files.remove_folder(files.join(folder, RECEIPTS_FOLDER))
