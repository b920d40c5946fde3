"""Small label files in a bucket, one per image."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import BinaryIO

import pytest

from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.core.errors import LabelTableError
from beam_pipeline.core.references import LabelRow
from beam_pipeline.work.reading import FilePart, RowsTask
from tests.buckets.proxy import Fault
from tests.buckets.services import Store
from tests.harness import PATIENCE_S

pytestmark = pytest.mark.buckets

AT_ONCE = 20


class _Meeting:
    """A reader that goes on when enough files are being read; the first one comes last."""

    def __init__(self) -> None:
        self._met = threading.Barrier(AT_ONCE)
        self._others = threading.Semaphore(0)

    def read(self, file: BinaryIO, uri: str) -> Iterator[LabelRow | DeadLetter]:
        self._met.wait(PATIENCE_S)
        text = file.read().decode()
        if text == "broken":
            raise LabelTableError(f"{uri} is broken")
        if text == "0":
            assert self._others.acquire(timeout=PATIENCE_S)
        self._others.release()
        yield LabelRow(text, (), "", uri, 0)


@pytest.mark.parametrize("cloud", ["gs"], indirect=True)
def test_small_label_files_are_read_at_once(cloud: Store) -> None:
    """Rows come in the order of the files, and what one file has wrong is said of that file alone."""
    names = [f"{number:02}.txt" for number in range(AT_ONCE + 1)]
    for number, name in enumerate(names):
        cloud.put(name, b"broken" if number == 5 else b"%d" % number)
    cloud.proxy.spoil(Fault("GET", "/o/03.txt", status=403))
    task = RowsTask([FilePart(f"{cloud.uri}/{name}") for name in names], _Meeting())
    outcome = task.run()
    (rows,) = outcome.main
    assert [row.name for row in rows] == [
        str(number) for number in range(AT_ONCE + 1) if number not in (3, 5)
    ]
    (letter,) = outcome.dead_letters
    assert letter.key == f"{cloud.uri}/03.txt"
    assert letter.message.startswith(
        "cannot be read: permission storage.objects.get is missing: 403"
    )
    assert outcome.tally
    assert outcome.tally.label_rows == AT_ONCE
    assert [refusal.message for refusal in outcome.tally.refusals] == [
        f"{cloud.uri}/05.txt is broken"
    ]
