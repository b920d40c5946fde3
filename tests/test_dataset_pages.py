"""Every command of docs/datasets runs as it stands; every result trains a model."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conformance.pages import make_data
from tests.harness import REPOSITORY, float32, read_all, run_shell, split_of_each
from tests.layouts import data_sets
from tests.training import train

FOLDER = Path(REPOSITORY, "docs/datasets")
PAGES = sorted(path.stem for path in FOLDER.glob("*.md") if path.stem != "README")


def _blocks(page: str) -> list[tuple[str, str]]:
    """(language, code) of every block of commands or Python on a page."""
    text = (FOLDER / f"{page}.md").read_text(encoding="utf-8")
    return re.findall(r"```(bash|python)\n(.*?)```", text, re.DOTALL)


@pytest.mark.slow  # TensorFlow's start, and a training for each data set
@pytest.mark.parametrize("page", PAGES)
def test_a_page_runs_from_disk_to_training(page: str, tmp_path: Path) -> None:
    """Commands and code run in their order, on data as the page describes; each result trains a model."""
    make_data(page, str(tmp_path))
    script = []
    for language, code in _blocks(page):
        if language == "bash":
            run_shell(code, tmp_path)
        else:
            script.append(code)
    if script:
        subprocess.run([sys.executable, "-c", "\n".join(script)], cwd=tmp_path, check=True)
        return  # the page trains itself
    results = sorted(path.parent for path in (tmp_path / "out").glob("*/manifest.json"))
    assert results
    for result in results:
        train(str(result))


@pytest.mark.parametrize("library", ["grain", "torch.utils.data"])
def test_loaders_batch_conversations(
    library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page's expressions give each example once, with any number of images."""
    module = pytest.importorskip(library)
    monkeypatch.chdir(tmp_path)
    make_data("conversations", ".")
    code = dict(_blocks("conversations")[::-1])
    run_shell(code["bash"], tmp_path)
    names = {"grain": module, "DataLoader": getattr(module, "DataLoader", None)}
    exec(code["python"], names)
    page = (FOLDER / "conversations.md").read_text(encoding="utf-8")
    start = "grain.MapDataset" if library == "grain" else "DataLoader"
    (expression,) = re.findall(rf"`({re.escape(start)}\([^`]+|{re.escape(start)}\.[^`]+)`", page)
    counts = [len(talk["images"]) for batch in eval(expression, names) for talk in batch]
    assert sorted(counts) == [0, 1, 1, 1, 1, 1, 1, 2]


def test_every_layout_has_a_page_that_the_overview_names() -> None:
    """docs/datasets/README.md links to each page."""
    overview = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"\]\((\w+)\.md\)", overview)) == PAGES


def test_the_code_that_reads_files_of_matlab_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On files with the variables of the real ones, where SciPy is installed."""
    savemat = pytest.importorskip("scipy.io").savemat
    numpy = pytest.importorskip("numpy")
    monkeypatch.chdir(tmp_path)
    savemat("imagelabels.mat", {"labels": numpy.array([[5, 7, 5]], "uint8")})
    savemat("setid.mat", {"trnid": [[3]], "valid": [[1]], "tstid": [[2]]})
    page = (FOLDER / "official_lists.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```py\n(.*?)```", page, re.DOTALL)
    subprocess.run([sys.executable, "-c", code], check=True)
    rows = "image_00003.jpg,5,train\nimage_00001.jpg,5,validation\nimage_00002.jpg,7,test\n"
    assert Path("flowers.csv").read_text(encoding="utf-8") == f"filename,label,split\n{rows}"


@pytest.mark.slow  # eight conversions
def test_the_commands_for_public_data_sets_give_their_classes(tmp_path: Path) -> None:
    """Of several folders, of a list of findings, of boxes and of names: the very values."""
    data_sets.make("official_lists", str(tmp_path))
    for language, code in _blocks("official_lists"):
        if language == "bash" and re.search("chest|WIDER|HAM10000|UTKFace", code):
            run_shell(code, tmp_path)
    chest = read_all(tmp_path / "out/chest")
    findings = [[b"Cardiomegaly", b"Emphysema"], [b"No Finding"], [b"Cardiomegaly"]]
    assert [chest[key]["image/class/text"] for key in sorted(chest)] == [
        findings[i % 3] for i in range(10)
    ]
    splits = split_of_each(tmp_path / "out/chest")
    assert [splits[key] for key in sorted(splits)] == ["train"] * 7 + ["test"] * 3
    faces = read_all(tmp_path / "out/faces")
    assert [faces[key].get("image/object/bbox/xmax", []) for key in sorted(faces)] == [
        float32([6 / 9]),
        float32([6 / 9]),
        [],
    ]
    ham = read_all(tmp_path / "out/ham")
    assert {
        features["label/lesion_id"][0]: features["image/class/text"] for features in ham.values()
    } == {f"HAM_{i:07d}".encode(): [(b"nv", b"mel")[i % 2]] for i in range(10)}
    lesions = split_of_each(tmp_path / "out/ham")
    assert len(lesions) == 20
    assert len({(ham[key]["label/lesion_id"][0], split) for key, split in lesions.items()}) == 10
    gtsrb = read_all(tmp_path / "out/gtsrb")
    assert [gtsrb[key]["image/class/text"] for key in sorted(gtsrb)] == [[b"0"]] * 6 + [[b"1"]] * 6
    people = read_all(tmp_path / "out/utk").values()
    assert sorted((row["label/age"], row["image/class/text"]) for row in people) == [
        ([20 + i], [str(i % 2).encode()]) for i in range(8)
    ]
