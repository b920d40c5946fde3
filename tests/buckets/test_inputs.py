"""What a job reads from a bucket beside images: archives, label files, lists, digests."""

from __future__ import annotations

import json
import shlex
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pytest

from beam_pipeline.core import errors, references
from beam_pipeline.core.dead_letters import DeadLetter
from beam_pipeline.work.file_parts import FilePart
from beam_pipeline.work.labels import RowsTask
from tests import harness
from tests.archives import make_tar, make_zip
from tests.buckets import proxy
from tests.buckets.services import Store
from tests.pictures import picture, write_pictures

pytestmark = pytest.mark.buckets

SPLIT = [f"{split}/{'ab'[i % 2]}/{i}.jpg" for split in ("train", "test") for i in range(10)]


CLASSES = {f"{'ab'[i % 2]}/{i}.jpg": picture(i) for i in range(12)}
SAMPLES = {
    name: content
    for i in range(6)
    for name, content in ((f"{i:03d}.jpg", picture(i)), (f"{i:03d}.cls", str(i % 3).encode()))
}


@pytest.fixture
def archives(tmp_path: Path, cloud: Store) -> Path:
    """The same archives on this machine, in in/, and in the bucket."""
    folder = tmp_path / "in"
    make_zip(folder / "photos.zip", CLASSES)
    make_tar(folder / "photos.tar", CLASSES)
    make_tar(folder / "set" / "s-train-0.tar", SAMPLES)
    make_tar(folder / "set" / "s-val-0.tar", SAMPLES)
    cloud.put_folder(folder, "in")
    return folder


def _shards(folder: Path) -> dict[str, str]:
    return {name: digest for name, digest in harness.digests(folder).items() if ".tfrecord" in name}


@pytest.mark.parametrize(
    ("cloud", "name"),
    [
        ("gs", "photos.zip"),
        ("gs", "photos.tar"),
        ("gs", "set/s-*-0.tar"),
        ("gs", "set/s-{train,val}-0.tar"),
        ("s3", "photos.zip"),
        ("az", "set/s-*-0.tar"),
    ],
    indirect=["cloud"],
)
def test_archives_in_a_bucket_give_the_bytes_of_local_ones(
    name: str, archives: Path, tmp_path: Path, cloud: Store
) -> None:
    """Found by name, glob or braces; the classes of folders, and those beside the images."""
    for images, out in ((archives / name, "here"), (f"{cloud.uri}/in/{name}", "there")):
        argv = (
            "--images",
            str(images),
            "--output",
            str(tmp_path / out),
            "--name=x",
            harness.NONE_BAD,
        )
        assert harness.convert(*argv) == 0
    assert _shards(tmp_path / "there") == _shards(tmp_path / "here") != {}


@pytest.mark.parametrize("cloud", ["gs"], indirect=True)
def test_a_replaced_archive_is_noticed(archives: Path, tmp_path: Path, cloud: Store) -> None:
    """By its generation where a run is resumed."""
    argv = ["--images", f"{cloud.uri}/in/photos.zip", "--output", str(tmp_path / "out")]
    assert harness.convert(*argv) == 0
    cloud.put("in/photos.zip", (archives / "photos.zip").read_bytes())
    assert harness.convert(*argv, "--resume") == 1


@pytest.mark.parametrize("cloud", ["gs"], indirect=True)
def test_a_missing_archive_is_named(
    archives: Path, tmp_path: Path, cloud: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a range of names, each has to be there."""
    images = f"{cloud.uri}/in/set/s-{{train,val,test}}-0.tar"
    assert (
        harness.convert("--images", images, "--output", str(tmp_path / "out"), harness.ALL_BAD) != 0
    )
    assert f"{cloud.uri}/in/set/s-test-0.tar cannot be read" in capsys.readouterr().err


NAMES = [f"{'ab'[i % 2]}/{i}.jpg" for i in range(12)]
TABLE = "filename,label\n" + "".join(f"{name},{'xyz'[i % 3]}\n" for i, name in enumerate(NAMES))


def _put(cloud: Store, **others: bytes) -> None:
    for i, name in enumerate(NAMES):
        cloud.put(f"in/{name}", picture(i))
    for name, content in others.items():
        cloud.put(f"in/{name}", content)


@pytest.mark.parametrize("cloud", ["gs"], indirect=True)
def test_a_table_among_the_images_is_a_question_that_its_command_answers(
    tmp_path: Path, cloud: Store
) -> None:
    """Its beginning is read once, to see whether it names images; --yes goes on by folders, and is recorded."""
    _put(cloud, **{"labels.csv": TABLE.encode()})
    argv = ["--images", f"{cloud.uri}/in", "--output", str(tmp_path / "out")]
    cloud.proxy.take_log()
    printed = harness.run_asking(*argv, code=2)
    requests = [request for request in cloud.proxy.take_log() if "labels.csv" in request.path]
    assert len(requests) == 1, requests
    *_, question, command, _ = printed.err.strip().splitlines()
    reason = "1 .csv file (labels.csv) would be ignored."
    assert question.startswith(f"- {reason}")
    answer = shlex.split(command)[2:]
    assert answer[2:4] == ["--labels", f"{cloud.uri}/in/labels.csv"]
    assert harness.convert_asking(*answer) == 0
    assert {row["image/class/text"][0] for row in harness.read_all(tmp_path / "out").values()} == {
        b"x",
        b"y",
        b"z",
    }
    assert harness.convert(*argv, "--overwrite") == 0
    assert harness.manifest_of(tmp_path / "out")["questions"] == [reason]


AT_ONCE = 20


class _Meeting:
    """A reader that goes on when enough files are being read; the first one comes last."""

    def __init__(self) -> None:
        self._met = threading.Barrier(AT_ONCE)
        self._others = threading.Semaphore(0)

    def read(self, file: BinaryIO, uri: str) -> Iterator[references.LabelRow | DeadLetter]:
        self._met.wait(harness.PATIENCE_S)
        text = file.read().decode()
        if text == "broken":
            raise errors.LabelTableError(f"{uri} is broken")
        if text == "0":
            assert self._others.acquire(timeout=harness.PATIENCE_S)
        self._others.release()
        yield references.LabelRow(text, (), "", uri, 0)


@pytest.mark.parametrize("cloud", ["gs"], indirect=True)
def test_small_label_files_are_read_at_once(cloud: Store) -> None:
    """Rows come in the order of the files, and what one file has wrong is said of that file alone."""
    names = [f"{number:02}.txt" for number in range(AT_ONCE + 1)]
    for number, name in enumerate(names):
        cloud.put(name, b"broken" if number == 5 else b"%d" % number)
    cloud.proxy.spoil(proxy.Fault("GET", "/o/03.txt", status=403))
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


@pytest.mark.parametrize("cloud", ["gs"], indirect=True)
def test_the_listing_tells_which_images_are_copies(cloud: Store, tmp_path: Path) -> None:
    """`plan` reports them and reads no image; a conversion reads each that it writes once."""
    contents = write_pictures(str(tmp_path / "photos"), SPLIT)
    cloud.put_folder(tmp_path / "photos", "photos")
    cloud.put("photos/train/a/copy.jpg", contents["test/a/0.jpg"])
    argv = ["--images", f"{cloud.uri}/photos", "--output", f"{cloud.uri}/set", "--name", "x"]
    cloud.proxy.take_log()
    planned = harness.run("plan", *argv, "--yes")
    assert "duplicates: 2 images in 1 group of the same bytes" in planned.out
    assert "such as test/a/0.jpg (test) and train/a/copy.jpg (train)" in planned.out
    assert not [r for r in cloud.proxy.take_log() if r.query.get("alt") == "media"]
    assert harness.convert(*argv, "--duplicates", "first") == 0
    reads = [r.path for r in cloud.proxy.take_log() if r.path.endswith(".jpg")]
    assert len(reads) == len(set(reads)) == len(SPLIT)
    manifest = json.loads(cloud.get("set/manifest.json"))
    assert manifest["dead_letters"] == {"duplicate": 1}
    assert manifest["counts"]["examples"] == len(SPLIT)


@pytest.mark.parametrize("cloud", ["gs", "s3"], indirect=True)
def test_files_in_cells_are_those_of_the_bucket(cloud: Store, tmp_path: Path) -> None:
    """The same shards as from the disk; a file that is missing there is named."""
    write_pictures(
        str(tmp_path / "in"), [f"{s}/{i}.png" for s in ("left", "right") for i in range(6)]
    )
    rows = "".join(f"left/{i}.png,right/{i or 9}.png\n" for i in range(6))
    (tmp_path / "in/pairs.csv").write_text(f"image,right\n{rows}")
    cloud.put_folder(tmp_path / "in", "in")
    for folder, name in ((cloud.uri, "there"), (str(tmp_path), "here")):
        images, out = f"{folder}/in/left", str(tmp_path / name)
        argv = ["--images", images, "--labels", f"{folder}/in/pairs.csv", "--name", "x"]
        argv += ["--file_columns", "right", harness.ALL_BAD]
        assert harness.convert(*argv, "--output", out) == 0
        assert harness.sources_of(out) == {"0.png": ("missing_file", f"{images}/right/9.png", 0)}
    assert _shards(tmp_path / "here") == _shards(tmp_path / "there") != {}
