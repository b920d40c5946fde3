from __future__ import annotations

from pathlib import Path

import pytest

from beam_pipeline.core.listing.filters import ImageRoot
from beam_pipeline.core.references import LabelRow
from beam_pipeline.layouts.local_copy import LocalCopy, find_copies
from tests.pictures import write_files


@pytest.fixture
def root(tmp_path: Path) -> ImageRoot:
    """A folder of images, copied from somewhere."""
    write_files(str(tmp_path), {"flowers/rose/1.jpg": "x", "flowers/tulip/1.jpg": "x", "2.jpg": ""})
    return ImageRoot(str(tmp_path))


def test_a_copy_is_found_by_the_longest_path(root: ImageRoot) -> None:
    """What stands before the path of the first copy that is there stands before all."""
    names = ["gs://b/gone.jpg", "gs://b/flowers/rose/1.jpg", "gs://b/flowers/gone/9.jpg"]
    copies = find_copies(names, [root])
    assert copies == LocalCopy(("gs://b/",))
    assert [copies.name(name) for name in (*names, "gs://c/1.jpg", "a.jpg")] == [
        "gone.jpg",
        "flowers/rose/1.jpg",
        "flowers/gone/9.jpg",
        "gs://c/1.jpg",
        "a.jpg",
    ]
    assert copies.notes == (
        "rows name images in gs://b/; taken are their copies of the same path in --images",
    )


def test_a_copy_may_be_of_a_folder_of_the_bucket(root: ImageRoot) -> None:
    """Of each place in a bucket that has copies here."""
    copies = find_copies(
        ["gs://b/2021/flowers/rose/1.jpg", "s3://c/deep/2.jpg", "gs://b/2021/2.jpg"], [root]
    )
    assert copies == LocalCopy(("gs://b/2021/", "s3://c/deep/"))
    assert copies.name("s3://c/deep/x/3.jpg") == "x/3.jpg"
    assert copies.name("s3://c/2.jpg") == "s3://c/2.jpg"


def test_a_folder_in_a_copied_one_is_not_copied_on_its_own(root: ImageRoot) -> None:
    """A file of the same name, found first, does not stand for one that was left out of the copy."""
    copies = find_copies(["gs://b/gone/2.jpg", "gs://b/flowers/rose/1.jpg"], [root])
    assert copies == LocalCopy(("gs://b/",))
    assert copies.name("gs://b/gone/2.jpg") == "gone/2.jpg"


def test_copies_that_lie_otherwise_are_known_by_their_file_names(root: ImageRoot) -> None:
    """Only if not one has the path that it has in the bucket."""
    copies = find_copies(["gs://b/1.jpg", "gs://b/x/3.jpg"], [root])
    assert copies == LocalCopy(by_file_name=True)
    assert copies.name("gs://b/x/1.jpg") == "1.jpg"
    assert copies.notes == (
        "rows name images by URIs, and none of the first ones has a copy of the same path in "
        "--images; rows and images are matched by their bare file names",
    )


def test_the_search_is_given_up_after_a_thousand_images_without_copy(root: ImageRoot) -> None:
    """So that a table of images that are all elsewhere costs no more than that."""
    gone = [f"gs://b/gone/x{number}.jpg" for number in range(1000)]
    assert find_copies([*gone[1:], "gs://b/2.jpg"], [root]) == LocalCopy(("gs://b/",))
    assert find_copies([*gone, "gs://b/2.jpg"], [root]) == LocalCopy(by_file_name=True)


def test_nothing_is_looked_for_where_names_or_images_are_no_matter_of_copies(
    root: ImageRoot,
) -> None:
    """Local names stay as they are, and so do URIs where images are listed in a bucket."""
    assert find_copies(["a.jpg", "gs://b/2.jpg"], [root]) == LocalCopy()
    assert find_copies([], [root]) == LocalCopy()
    assert find_copies(["gs://b/2.jpg"], [root, ImageRoot("gs://b")]) == LocalCopy()
    assert LocalCopy().name("gs://b/2.jpg") == "gs://b/2.jpg"
    rows = iter([LabelRow("gs://b/2.jpg", (), "", "f", 1)])
    assert LocalCopy().rename(rows) is rows


# --- paths of another place -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "beginning"),
    [
        (["/home/bob/data/flowers/rose/1.jpg", "/home/bob/data/2.jpg"], "/home/bob/data/"),
        (["C:\\data\\2.jpg", "C:\\data\\flowers\\tulip\\1.jpg"], "C:/data/"),
        (["images/2.jpg", "images/flowers/rose/1.jpg", "images/gone.jpg"], "images/"),
        (["../old/2.jpg"], "../old/"),
        (["images/2", "images/flowers/rose/1"], "images/"),
        (["//server/share/2.jpg"], "//server/share/"),
    ],
)
def test_a_path_of_another_place_is_found_by_its_tail(
    root: ImageRoot, names: list[str], beginning: str
) -> None:
    """What stands before the tail of those that are there is removed from all, and said."""
    copies = find_copies(names, [root])
    assert copies == LocalCopy((beginning,))
    assert copies.name(f"{beginning}x/9.jpg") == "x/9.jpg"
    assert copies.name(f"{beginning}x/9.jpg".replace("/", "\\")) == "x/9.jpg"
    assert copies.name("9.jpg") == "9.jpg"
    assert copies.notes == (
        f"rows name images in {beginning}; taken are their copies of the same path in --images",
    )


def test_several_places_are_found(root: ImageRoot) -> None:
    """As two people add to one table; names without a folder stay."""
    names = ["5.jpg", "/home/bob/2.jpg", "D:\\pics\\flowers\\rose\\1.jpg"]
    copies = find_copies(names, [root])
    assert copies == LocalCopy(("/home/bob/", "D:/pics/"))
    assert [copies.name(name) for name in names] == ["5.jpg", "2.jpg", "flowers/rose/1.jpg"]


@pytest.mark.parametrize(
    "names",
    [
        ["flowers/rose/1.jpg", "flowers/tulip/1.jpg"],  # as they are
        ["flowers/2.jpg", "flowers/rose/1.jpg"],  # the second is there as it stands
        ["train/2.jpg", "test/2.jpg"],  # two paths, one image
        ["x/2.jpg", "x/flowers/2.jpg", "x/y/flowers/rose/1.jpg"],  # one place in another
        ["gone/8.jpg", "gone/9.jpg"],  # a relative path is not matched by its file name
        ["/old/a/8.jpg", "/old/b/8.jpg"],  # file names that do not tell images apart
        ["2.jpg", "5.jpg"],
        ["x/2.jpg", "gs://b/2.jpg"],
        [""],
    ],
)
def test_an_ambiguous_path_stays_as_it_stands(root: ImageRoot, names: list[str]) -> None:
    """No row is guessed: its dead letter says what was not found."""
    assert find_copies(names, [root]) == LocalCopy()


def test_a_path_from_the_label_files_folder_stays(root: ImageRoot) -> None:
    """The join finds it; and a path below the root as it stands."""
    images, folder = root.uri, root.uri.rpartition("/")[2]
    label_file = f"{images.rpartition('/')[0]}/labels.csv"
    names = [f"{folder}/2.jpg"]
    assert find_copies(names, [root], [label_file]) == LocalCopy()
    assert find_copies(names, [root]) == LocalCopy((f"{folder}/",))
    assert find_copies([f"{images}/2.jpg"], [root]) == LocalCopy()


def test_a_backslash_may_be_part_of_a_name(root: ImageRoot) -> None:
    """A file that is called so is the one that is meant."""
    write_files(root.uri, {"x\\2.jpg": "x"})
    assert find_copies(["x\\2.jpg"], [root]) == LocalCopy()


def test_folders_that_are_gone_leave_file_names(root: ImageRoot) -> None:
    """Paths whose folders were all left behind are matched by their file names, if these differ."""
    many = [f"patient{number}/{number}.jpg" for number in range(20)]
    write_files(root.uri, {f"{number}.jpg": "x" for number in range(20)})
    copies = find_copies(many, [root])
    assert copies == LocalCopy(paths_by_file_name=True)
    assert copies.name("patient77/77.jpg") == "77.jpg"
    assert copies.name("a\\b\\77.jpg") == "77.jpg"
    assert copies.name("gs://b/77.jpg") == "gs://b/77.jpg"
    deeper = find_copies(["/old/x/8_deep.jpg", "/old/y/9_deep.jpg"], [root])
    assert deeper == LocalCopy(paths_by_file_name=True)
    assert deeper.notes == (
        "rows name images by paths of another place, whose folders are not those in --images; rows "
        "and images are matched by their bare file names",
    )
    assert find_copies([*many, "0.jpg", "x/0.jpg"], [root]) == LocalCopy()
