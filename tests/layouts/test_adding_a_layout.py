"""The worked example of beam_pipeline/layouts/README.md works as it stands."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

import pytest

from beam_pipeline.cli import main
from beam_pipeline.layouts import registry
from tests.harness import REPOSITORY, convert, dead_letters_of, manifest_of, read_all
from tests.pictures import write_files, write_pictures

PAGE = Path(REPOSITORY, "beam_pipeline/layouts/README.md").read_text(encoding="utf-8")
MODULE = "beam_pipeline.layouts.sidecar"


@pytest.fixture
def with_the_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's file as a module, and its line in the registry."""
    code, line = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    module = types.ModuleType(MODULE)
    monkeypatch.setitem(sys.modules, MODULE, module)
    exec(compile(code, "sidecar.py", "exec"), module.__dict__)
    names = {"LAYOUTS": registry.LAYOUTS}
    exec(line, names)
    monkeypatch.setattr(registry, "LAYOUTS", names["LAYOUTS"])


@pytest.mark.usefixtures("with_the_layout")
def test_the_worked_example_converts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Recognised by itself; labels in the examples; a broken file is a dead letter with its place."""
    cameras = tmp_path / "cameras"
    names = [f"cam{i}/000{j}.jpg" for i in (1, 2) for j in (1, 2)]
    write_pictures(str(cameras), names)
    (labels,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    write_files(
        str(cameras),
        {
            "cam1/0001.json": labels,
            "cam1/0002.json": '{"weather": "sun", "temperature": 21}',
            "cam2/0001.json": '{"weather": "sun"}',
        },
    )
    output = tmp_path / "out"
    assert (
        convert(
            "--images",
            str(cameras),
            "--output",
            str(output),
            "--max_bad_fraction",
            "0.5",
            "--writers",
            "0",
        )
        == 0
    )
    assert f"Layout sidecar: 0001.json beside 0001.jpg in {cameras}/cam" in capsys.readouterr().out
    found = {
        key: (f["image/class/label"], f["image/class/text"], f["label/temperature"])
        for key, f in read_all(output).items()
    }
    assert found == {
        "cam1/0001.jpg": ([0], [b"rain"], [7.5]),
        "cam1/0002.jpg": ([1], [b"sun"], [21.0]),
    }
    assert dead_letters_of(output) == [
        {
            "stage": "join",
            "key": "cam2/0002.jpg",
            "uri": f"{cameras}/cam2/0002.jpg",
            "reason": "unlabelled",
            "message": "no label row names this image",
        },
        {
            "stage": "labels",
            "key": "cam2/0001.jpg",
            "uri": f"{cameras}/cam2/0001.jpg",
            "reason": "bad_label_value",
            "message": "expected an object with weather and temperature: KeyError('temperature')",
            "file": f"{cameras}/cam2/0001.json",
            "line": 1,
        },
    ]
    assert manifest_of(output)["options"]["layout"] == "sidecar"
    assert main(["verify", str(output)]) == 0
