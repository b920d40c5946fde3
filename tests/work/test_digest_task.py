"""Reading images for their digests: what cannot be read is left to the writer of its shard."""

from __future__ import annotations

import errno
import hashlib
from pathlib import Path

import pytest

from beam_pipeline.core.images.preparation import digest_of
from beam_pipeline.core.references import SampleRef
from beam_pipeline.storage import files
from beam_pipeline.storage.read_ahead import ONE_BY_ONE, ReadOptions
from beam_pipeline.work.outcome import Outcome
from beam_pipeline.work.planning import DigestSource, with_digests


def refs(folder: Path) -> list[SampleRef]:
    """A file, one that is gone, one of another size, an empty one, and part of a file."""
    for name, content in {"a": b"image", "c": b"longer than listed", "d": b""}.items():
        (folder / name).write_bytes(content)
    whole = [
        SampleRef(name, str(folder / name), size, "train", ())
        for name, size in (("a", 5), ("b", 5), ("c", 5), ("d", 0))
    ]
    return [*whole, SampleRef("e", str(folder / "a"), 3, "train", (), offset=1)]


def digests(outcome: Outcome) -> dict[str, bytes]:
    """Key -> digest; main are those without one."""
    without = [ref for batch in outcome.main for ref in batch]
    digested = [ref for _, batch in outcome.tagged for ref in batch]
    assert not any(ref.digest for ref in without)
    assert all(ref.digest for ref in digested)
    return {ref.key: ref.digest for ref in [*without, *digested]}


@pytest.mark.parametrize("reading", [ONE_BY_ONE, ReadOptions(prefetched=2), ReadOptions(4)])
def test_images_are_read_for_their_digests(tmp_path: Path, reading: ReadOptions) -> None:
    """Those that cannot be read, or are not as listed, have none."""
    found = digests(with_digests(refs(tmp_path), reading))
    assert found == {"a": digest_of(b"image"), "b": b"", "c": b"", "d": b"", "e": digest_of(b"mag")}


def test_beside_a_bucket_digests_are_those_of_its_listing(tmp_path: Path) -> None:
    """MD5, so that images that are read meet those that are not."""
    found = digests(with_digests(refs(tmp_path)[:1], ONE_BY_ONE, md5=True))
    assert found == {"a": hashlib.md5(b"image").digest()}


def test_a_fault_of_the_machine_is_no_image_without_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It fails, to be tried again; else a copy would be kept today that was left out yesterday."""

    def fails(*_: object) -> bytes:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(files, "read_image", fails)
    with pytest.raises(OSError, match="Too many open files"):
        with_digests(refs(tmp_path), ONE_BY_ONE)


def test_what_its_writer_would_not_read_is_not_read() -> None:
    """Images above the limits, and any where only the listing is asked."""
    ref = SampleRef("a", "/a", 100, "train", ())
    readable = [
        DigestSource(
            listed=False, reads=reads, reading=ONE_BY_ONE, filters=filters, largest=largest
        ).is_readable(ref)
        for reads, filters, largest in [
            (True, {}, 100),
            (False, {}, 100),
            (True, {"max_image_bytes": 99}, 100),
            (True, {}, 99),
        ]
    ]
    assert readable == [True, False, False, False]
