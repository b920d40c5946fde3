"""docs/reliability.md lists every promise with the files of its tests."""

from __future__ import annotations

from tests.promises import PAGE, PROMISES, holders, page


def test_every_promise_has_a_test() -> None:
    """No test names a promise that there is not."""
    names = [name for promises in PROMISES.values() for name in promises]
    assert len(set(names)) == len(names)
    assert set(holders()) == set(names)


def test_the_page_lists_the_promises_as_they_are() -> None:
    """Run `python -m tests.promises` to write them there."""
    assert PAGE.read_text(encoding="utf-8") == page()
