"""`beam-tfrecord diff`: which samples differ, from receipts alone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from beam_pipeline.cli import main
from tests.harness import ALL_BAD, convert, shard_names
from tests.pictures import picture, write_files


def test_every_kind_of_change_is_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With other shards, too; shards are not read, so they may be gone. Dead letters are no samples."""
    images = {f"{i}.bmp": picture(i, file_format="BMP") for i in range(9)}
    write_files(f"{tmp_path}/images", {**images, "bad.bmp": "no image"})
    argv = ["--images", f"{tmp_path}/images", "--labels", f"{tmp_path}/labels.csv", ALL_BAD]

    def label(**labels: str) -> None:
        rows = [f"{i},{labels.get(f'n{i}', 'cat')}" for i in (*range(10), "bad")]
        write_files(str(tmp_path), {"labels.csv": "\n".join(["id,label", *rows])})

    old, new = f"{tmp_path}/old", f"{tmp_path}/new"
    label()
    assert convert(*argv, "--output", old, "--num_shards", "3") == 0
    label(n1="dog", n2="dog")
    (tmp_path / "images/0.bmp").unlink()
    write_files(
        f"{tmp_path}/images", {"9.bmp": picture(9), "2.bmp": picture(5), "3.bmp": picture(6)}
    )
    assert convert(*argv, "--output", new, "--num_shards", "2") == 0
    for name in shard_names(old):
        (tmp_path / "old" / name).unlink()
    capsys.readouterr()
    assert main(["diff", old, new]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "added 9.bmp",
        "removed 0.bmp",
        "changed 2.bmp",
        "changed 3.bmp",
        "relabelled 1.bmp",
        "relabelled 2.bmp",
        f"{old} and {new}: 1 added, 1 removed, 2 changed, 2 relabelled",
        "option num_shards was 3, is 2",
    ]
    assert main(["diff", new, new]) == 0
    assert capsys.readouterr().out == f"{new} and {new}: no changes\n"
    shutil.rmtree(tmp_path / "old" / ".receipts")
    assert main(["diff", old, new]) == 1
    assert "has no receipt" in capsys.readouterr().err
    assert main(["diff", f"{tmp_path}/images", new]) == 1
    assert "does not contain a complete data set" in capsys.readouterr().err
