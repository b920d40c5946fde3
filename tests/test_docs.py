"""Every command of the README runs, and every list in README and docs is complete."""

from __future__ import annotations

import base64
import importlib.util
import io
import os
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PIL import Image

from beam_pipeline.core.listing.folders import SPLIT_NAMES
from tests.harness import REPOSITORY, run_shell
from tests.pictures import write_pictures

SVG = "{http://www.w3.org/2000/svg}"
README = Path(REPOSITORY, "README.md").read_text(encoding="utf-8")
SETUP_COMMANDS = re.findall(r"```bash\n(python3 -m venv .*?)\n```", README)
COMMANDS = [
    command
    for command in re.findall(r"```bash\n(.*?)```", README, re.DOTALL)
    if not command.startswith("python3 -m venv")
]


@pytest.fixture(scope="module")
def beside_the_demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the README's commands read: the demo, photos/ and labels.csv."""
    folder = tmp_path_factory.mktemp("readme")
    run_shell("beam-tfrecord demo", folder)
    write_pictures(str(folder / "photos"), ["train/cat/1.jpg", "test/dog/2.png"])
    (folder / "labels.csv").write_text("filename,label\n1.jpg,cat\n2.png,dog\n")
    return folder


@pytest.mark.slow
def test_the_picture_of_the_readme_is_drawn_from_what_the_demo_prints() -> None:
    """By the script that drew the one that is there; without a browser, it leaves out the report."""
    path = Path(REPOSITORY, "docs/terminal_picture.py")
    spec = importlib.util.spec_from_file_location("terminal_picture", path)
    assert spec
    assert spec.loader
    script = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = script
    spec.loader.exec_module(script)
    stored = path.with_name("first_minute.svg").read_text(encoding="utf-8")
    for drawn, has_report in ((stored, True), (script.picture(), bool(script.browser()))):
        root = ElementTree.fromstring(drawn)
        texts = [element.text for element in root.iter(f"{SVG}text")]
        assert texts[0] == "$ beam-tfrecord demo"
        assert "Wrote 300 examples, 228.3 kB, to beam-tfrecord-demo/tfrecords" in texts
        assert "image sizes: 96 wide, 96 high; 300 png" in texts
        assert {"image/class/text", "triangle"} <= set(texts)
        colours = {element.get("fill") for element in root.iter(f"{SVG}rect")}
        assert len(colours) > 20, "the images are drawn"
        reports = [element.attrib for element in root.iter(f"{SVG}image")]
        assert len(reports) == has_report
        for report in reports:
            kind, _, data = report["href"].partition(",")
            assert kind == "data:image/png;base64"
            with Image.open(io.BytesIO(base64.b64decode(data))) as image:
                shape = image.width / image.height
                shades = image.convert("RGB").getcolors(1 << 24)
            assert shape == pytest.approx(int(report["width"]) / int(report["height"]), rel=0.01)
            assert len(shades) > 100, "text and images are drawn"
    assert len(stored) < 300_000


def test_the_readme_has_the_two_commands() -> None:
    """One runs the demo, the other the tests; CI runs both as they stand."""
    demo, tests = SETUP_COMMANDS
    assert "tensorflow" not in demo
    assert demo.endswith("/beam-tfrecord demo")
    assert "-m pytest" in tests


@pytest.mark.slow
def test_every_command_of_the_readme_runs(beside_the_demo: Path) -> None:
    """Run in their order in one folder, each exits with 0."""
    assert COMMANDS
    for command in COMMANDS:
        done = run_shell(command, beside_the_demo)
        assert done.stdout
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    done = run_shell(f"{sys.executable} - <<'END'\n{code}\nEND\n", beside_the_demo)
    assert "Epoch 2/2" in done.stdout
    assert re.search(r" accuracy: 0\.\d+ - loss: ", done.stdout)


@pytest.mark.slow
def test_the_crontab_of_the_page_on_growing_runs(beside_the_demo: Path) -> None:
    """It runs three times; the second night links every shard, and a repeated run writes nothing."""
    text = Path(REPOSITORY, "docs/growing.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^0 2 \* \* \* cd /data && (.*)$", text, re.MULTILINE)
    command = command.replace(".venv/bin/", "")
    command = command.replace("\\%", "%")  # a crontab takes a bare one for the end of the line
    first = run_shell(command.replace("$(date +%F)", "2026-11-21"), beside_the_demo)
    assert "does not contain a complete data set yet" in first.stdout
    second = run_shell(command, beside_the_demo)
    assert "2 shards reused" in second.stdout
    assert " is up to date: " in run_shell(command, beside_the_demo).stdout


@pytest.mark.slow
def test_every_command_of_the_page_on_growing_runs(tmp_path: Path) -> None:
    """In their order, from the demo's data; what the page shows is what they print."""
    run_shell("beam-tfrecord demo", tmp_path)
    text = Path(REPOSITORY, "docs/growing.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```(\w*)\n(.*?)```", text, re.DOTALL)
    printed = ""
    for language, block in blocks:
        if language == "bash":
            printed = run_shell(block, tmp_path).stdout.replace(f"{tmp_path}/", "")
        elif not language:
            assert block in printed
    assert sorted(os.listdir(tmp_path / "sets")) == ["2026-11-24", "latest"]
    (code,) = (block for language, block in blocks if language == "python")
    more = "beam-tfrecord convert --images beam-tfrecord-demo/images --output more"
    run_shell(f"{more} --labels beam-tfrecord-demo/labels.csv --classes sets/2026-11-24", tmp_path)
    code = f"import beam_pipeline\n{code}print(len(dataset))"
    assert run_shell(f"{sys.executable} - <<'END'\n{code}\nEND\n", tmp_path).stdout == "19\n"


@pytest.mark.slow
def test_every_command_of_the_page_on_inspect_runs(tmp_path: Path) -> None:
    """In their order, from the demo's data; what the page shows is what they print."""
    run_shell("beam-tfrecord demo", tmp_path)
    text = Path(REPOSITORY, "docs/inspect.md").read_text(encoding="utf-8")
    printed = ""
    for language, block in re.findall(r"```(\w*)\n(.*?)```", text, re.DOTALL):
        if language == "bash":
            printed = run_shell(block, tmp_path).stdout.replace(f"{tmp_path}/", "")
            assert printed
        else:
            assert block.rstrip() in printed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "output"),
    [("start.md", "first"), ("ko/start.md", "first"), ("own_csv.md", "repaired")],
)
def test_a_tutorial_runs(tmp_path: Path, page: str, output: str) -> None:
    """Every command of the page, in order, then its training, which prints its epochs."""
    text = Path(REPOSITORY, "docs", page).read_text(encoding="utf-8")
    commands = re.findall(r"```bash\n(.*?)```", text, re.DOTALL)
    printed = "".join(run_shell(command, tmp_path).stdout for command in commands)
    for block in re.findall(r"```\n(  .*?)```", text, re.DOTALL):
        assert block in printed.replace(f"{tmp_path}/", "")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    done = run_shell(f"{sys.executable} - <<'END'\n{code}\nEND\n", tmp_path)
    assert "Epoch 3/3" in done.stdout
    assert {"README.md", "manifest.json"} <= set(os.listdir(tmp_path / "out" / output))


def test_every_split_name_is_documented() -> None:
    """docs/labels.md lists the other names of train, validation and test."""
    text = Path(REPOSITORY, "docs/labels.md").read_text(encoding="utf-8")
    assert {name for name in SPLIT_NAMES if f"`{name}`" not in text} == set()


def test_no_recipe_imports_a_private_path() -> None:
    """What `import beam_pipeline` offers is enough; modules are for those who add a layout."""
    pages = [Path(REPOSITORY, "README.md"), *Path(REPOSITORY, "docs").rglob("*.md")]
    private = [
        f"{page.name}: {line}"
        for page in pages
        for line in page.read_text(encoding="utf-8").splitlines()
        if re.match(r"\s*(from|import) beam_pipeline\.(?!transforms\b)", line)
    ]
    assert private == []
