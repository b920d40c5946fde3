"""The code of docs/readers.md runs as it stands, each block where its package is installed."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness import REPOSITORY, run_shell
from tests.layouts import make_table_boxes

PAGE = Path(REPOSITORY, "docs/readers.md").read_text(encoding="utf-8")
(COMMANDS,) = re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)
BLOCKS = [
    (section.partition("\n")[0], code)
    for section in PAGE.split("\n## ")
    for code in re.findall(r"```python\n(.*?)```", section, re.DOTALL)
]

EXPECTED = {
    "shuffle_files=True": r"\d+ \['circle', 'square', 'triangle'\]\n(\(\d+, \d+, 3\) [012]\n){2}",
    "SkipDecoding": r"",
    "tfds.load": r"30\n",
    "classification_input": r"\(4, 64, 64, 3\) <dtype: 'int32'>\n",
    "retinanet_input": (
        r"\(128, 128, 3\) \['anchor_boxes', .*\]\n\(128, 128, 3\) \[.*'groundtruths'.*\]\n"
    ),
    "nvidia.dali": r"\[32, 64, 64, 3\] 300\n",
    "InterleaveIterDataset": r"300 \{0, 1, 2\}\n",
    "from_generator": (
        r"Dataset\(\{.*num_rows: 300\n\}\) \(\d+, \d+\) \['circle', 'square', 'triangle'\]\n"
    ),
    "ReadFromTFRecord": r"300\n",
    "validate_statistics": r"11 \{\}\n",
    "schema_as_feature_spec": r"11 300\n",
}
"""What is in a block -> what it prints, at the end."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the page's commands ran."""
    found = tmp_path_factory.mktemp("readers")
    make_table_boxes.make(f"{found}/boxes")
    run_shell(COMMANDS, found)
    return found


def test_every_block_is_tested() -> None:
    """Each has one expectation."""
    for _, code in BLOCKS:
        assert sum(name in code for name in EXPECTED) == 1, code
    assert len(BLOCKS) == len(EXPECTED)


APART = {
    "official": "BEAM_TFRECORD_MODEL_GARDEN",
    "tensorflow_data_validation": "BEAM_TFRECORD_TFDV",
    "tensorflow_transform": "BEAM_TFRECORD_TFT",
}
"""Module that needs other versions than ours -> the variable that names a Python which has it."""


def _interpreter(code: str) -> str:
    """The Python that has the packages of a block."""
    modules = re.findall(r"^ *(?:import|from) ([\w.]+)", code, re.MULTILINE)
    for module in modules:
        if variable := APART.get(module.partition(".")[0]):
            if not os.environ.get(variable):
                pytest.skip(f"{variable} names no Python with {module}")
            return os.environ[variable]
    for module in modules:
        try:  # `nvidia` is there with PyTorch, too, without DALI
            found = importlib.util.find_spec(module)
        except ModuleNotFoundError:
            found = None
        if found is None:
            pytest.skip(f"needs {module}")
    return sys.executable


@pytest.mark.readers
@pytest.mark.parametrize("name", EXPECTED)
def test_a_block_runs(name: str, folder: Path) -> None:
    """In a process of its own, and prints what is expected."""
    (code,) = (code for _, code in BLOCKS if name in code)
    done = subprocess.run(
        [_interpreter(code), "-c", code],
        cwd=folder,
        env={**os.environ, "MPLBACKEND": "Agg", "HF_HOME": str(folder / "hf")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(f"(?s:{EXPECTED[name]})\\Z", done.stdout), done.stdout


@pytest.mark.readers
def test_hugging_face_loads_a_webdataset(folder: Path) -> None:
    """By its own loader: images, classes and features."""
    pytest.importorskip("datasets")
    images = "--images beam-tfrecord-demo/images --labels beam-tfrecord-demo/labels.csv"
    run_shell(f"beam-tfrecord convert {images} --format webdataset --output out/webdataset", folder)
    (call,) = re.findall(r"`(datasets\.load_dataset\(.*?\))`", PAGE)
    code = f"import datasets; found = {call}['train'][0]; print(found['png'].mode, found['cls'])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**os.environ, "HF_HOME": str(folder / "hf")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"RGB [012]\n", done.stdout)
