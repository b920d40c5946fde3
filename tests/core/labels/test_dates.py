"""Which folders are dates, and which lie below dates."""

from __future__ import annotations

import pytest

from beam_pipeline.core.labels.dates import folders_of_dates, have_classes_below


@pytest.mark.parametrize(
    "name",
    [
        "2021-05-03",
        "2021/5/3",
        "20210503",
        "2021.12.31",
        "2011_09_26/2011_09_26_drive_0001_sync/image_02/data",
        "session_2021-05",
        "1999/11",
        "camera 3/2021-05-03 08h",
    ],
)
def test_a_day_or_a_month_is_a_date(name: str) -> None:
    """Between marks that are no letters or digits, anywhere in a path."""
    assert folders_of_dates([name]) == [name]


@pytest.mark.parametrize(
    "name",
    [
        "2021",
        "1990s",
        "2008_000008",
        "2021-13-01",
        "2021-00-03",
        "120210503",
        "20211303",
        "1921/1950",
    ],
)
def test_other_numbers_are_no_dates(name: str) -> None:
    """Years alone, ids, and months or days that are not in the calendar."""
    assert folders_of_dates([name]) == []


def test_more_than_half_must_be_dates() -> None:
    """A single one may be a class for what is left over."""
    assert folders_of_dates(["cat", "2021-05-03"]) == []
    assert folders_of_dates(["cat", "2021-05-04", "2021-05-03"]) == ["2021-05-03", "2021-05-04"]


@pytest.mark.parametrize(
    ("folders", "below"),
    [
        (["2021-05-03/cat", "2021-05-04/dog"], True),
        (["2021/05/03/0", "2021/05/03/1"], True),
        (["2021/05/03", "2021/05/04"], False),
        (["2021-05-03/big", "2021-05-04/big"], False),
        (["2021-05-03/cat", "2021-05-04"], False),
    ],
)
def test_folders_below_dates_may_be_classes(folders: list[str], below: bool) -> None:
    """If they differ."""
    assert have_classes_below(folders) is below
