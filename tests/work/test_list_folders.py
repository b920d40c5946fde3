"""Local folders, listed here and in writer processes."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from beam_pipeline.core.dataset.tally import Tally
from beam_pipeline.core.listing.filters import ImageRoot
from beam_pipeline.work.listing import list_folders
from beam_pipeline.work.writer_process import writer_processes
from tests.pictures import write_files
from tests.transforms.listings import found_in, make_tree, whole


@pytest.fixture(params=[0, 2])
def writers(request: pytest.FixtureRequest) -> Iterator[int]:
    """Some writer processes."""
    count: int = request.param
    with writer_processes(count):
        yield count


@pytest.mark.usefixtures("writers")
def test_a_folder_is_listed_wherever_its_parts_are(tmp_path: Path) -> None:
    """Images, dead letters and counts are those of listing it at once."""
    make_tree(tmp_path)
    for patterns in ((), ("**/*.png",)):
        root = ImageRoot(str(tmp_path), patterns)
        for here, most in ((0, 1), (0, 5), (30, 7), (1000, 1000)):
            assert found_in(list_folders(root, here, most)) == whole(root)


@pytest.mark.usefixtures("writers")
def test_a_flat_folder_is_listed_in_parts(tmp_path: Path) -> None:
    """Its files are handed on while it is read."""
    write_files(str(tmp_path), {f"{i}.jpg": b"x" for i in range(50)})
    root = ImageRoot(str(tmp_path))
    outcomes = list(list_folders(root, 10, 4))
    assert found_in(outcomes) == whole(root)
    assert max(len(batch) for outcome in outcomes for batch in outcome.main) <= 4 * 4


@pytest.mark.usefixtures("writers")
def test_an_empty_folder_has_no_batch(tmp_path: Path) -> None:
    """Only counts, of nothing."""
    assert [(list(o.main), o.tally) for o in list_folders(ImageRoot(str(tmp_path)))] == [
        ([], Tally())
    ]


@pytest.mark.usefixtures("writers")
@pytest.mark.promise("unlisted_folder")
def test_a_folder_that_cannot_be_listed_is_the_last_outcomes_refusal(tmp_path: Path) -> None:
    """The message is the same whichever process finds it."""
    write_files(str(tmp_path), {f"{i}/{j}.jpg": b"x" for i in range(9) for j in range(3)})
    outcomes = list_folders(ImageRoot(str(tmp_path)), 12, 3)
    next(outcomes)
    if os.geteuid():
        for folder in range(9):
            os.chmod(tmp_path / str(folder), 0o000)
    else:  # whom no mode keeps out
        shutil.rmtree(tmp_path)
    refused = found_in(outcomes).tally.refusals
    assert [refusal.error for refusal in refused] == ["ListingError"]
    reason = "Permission denied" if os.geteuid() else "No such file or directory"
    expected = rf"{re.escape(str(tmp_path))}/\d cannot be listed \({reason}\), so its images would"
    assert re.match(expected, refused[0].message)


@pytest.mark.usefixtures("writers")
def test_many_folders_that_link_to_each_other_are_refused(tmp_path: Path) -> None:
    """Whichever process follows the links, they count together."""
    folders = 9
    for number in range(folders):
        write_files(str(tmp_path), {f"f{number}/a.jpg": b"x"})
        for other in range(folders):
            if other != number:
                os.symlink(f"../f{other}", tmp_path / f"f{number}" / f"to{other}")
    (refused,) = found_in(list_folders(ImageRoot(str(tmp_path)), 10, 100)).tally.refusals
    assert re.match(
        r"links .* lead to the same folders more than 2000 times, .*/f\d/.*/to\d+; remove",
        refused.message,
    )
