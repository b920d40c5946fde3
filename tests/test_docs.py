"""The documentation: commands, code and figures of its pages are those of the program."""

from __future__ import annotations

import base64
import importlib.util
import io
import math
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PIL import Image

from beam_pipeline.core import packing, references
from beam_pipeline.core.dataset.estimate import (
    Estimate,
    Machines,
    Prices,
    Rates,
    Work,
    estimate,
    read_seconds,
)
from beam_pipeline.core.labels.join import buckets_for
from beam_pipeline.core.listing.folders import SPLIT_NAMES
from beam_pipeline.core.records.formats import record_format
from beam_pipeline.core.records.sharding import ShardDivision, ShardPlan
from beam_pipeline.work.outcome import divide
from tests.harness import REPOSITORY, run_shell
from tests.layouts import data_sets
from tests.pictures import write_pictures
from tests.promises import PAGE, PROMISES, holders, page

# --- docs ------------------------------------------------------------------------------------------

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
@pytest.mark.parametrize("page", ["growing", "inspect"])
def test_every_command_of_a_page_runs(tmp_path: Path, page: str) -> None:
    """In their order, from the demo's data; what the page shows is what they print."""
    run_shell("beam-tfrecord demo", tmp_path)
    text = Path(REPOSITORY, f"docs/{page}.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```(\w*)\n(.*?)```", text, re.DOTALL)
    printed = ""
    for language, block in blocks:
        if language == "bash":
            printed = run_shell(block, tmp_path).stdout.replace(f"{tmp_path}/", "")
        elif not language:
            assert block.rstrip() in printed
    for code in (block for language, block in blocks if language == "python"):
        assert sorted(os.listdir(tmp_path / "sets")) == ["2026-11-24", "latest"]
        more = "beam-tfrecord convert --images beam-tfrecord-demo/images --output more --classes sets/2026-11-24"
        run_shell(f"{more} --labels beam-tfrecord-demo/labels.csv", tmp_path)
        code = f"import beam_pipeline\n{code}print(len(dataset))"
        assert run_shell(f"{sys.executable} - <<'END'\n{code}\nEND\n", tmp_path).stdout == "19\n"


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


# --- readers page ----------------------------------------------------------------------------------

READERS_PAGE = Path(REPOSITORY, "docs/readers.md").read_text(encoding="utf-8")
(READERS_COMMANDS,) = re.findall(r"```bash\n(.*?)```", READERS_PAGE, re.DOTALL)
BLOCKS = [
    (section.partition("\n")[0], code)
    for section in READERS_PAGE.split("\n## ")
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
    data_sets.make("table_boxes", f"{found}/boxes")
    run_shell(READERS_COMMANDS, found)
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
    (call,) = re.findall(r"`(datasets\.load_dataset\(.*?\))`", READERS_PAGE)
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


# --- petabyte --------------------------------------------------------------------------------------

PETABYTE_PAGE = Path(REPOSITORY, "docs", "scale.md").read_text(encoding="utf-8")
OBJECTS, OBJECT_BYTES, PACKED_BYTES, SHARD_BYTES = 10**10, 100_000, 25, 10**9
ROW_BYTES = 41


def found() -> Estimate:
    """The formula's estimate for a petabyte."""
    size = OBJECTS * OBJECT_BYTES
    packed = OBJECTS * PACKED_BYTES
    work = Work(OBJECTS, size, packed, OBJECTS, joined=True, shards=size // SHARD_BYTES)
    return estimate(work, Machines(workers=1000, vcpus=4, memory_gb=16.0), Prices())


def bytes_of_a_reference(shards: int, number: int) -> float:
    """What some references take on average once they are divided among shards."""
    refs = [
        references.SampleRef(
            name, f"gs://my-bucket/photos/{name}", 90_000 + i * 37 % 50_000, "train", (name[:5],)
        )
        for i in range(number)
        for name in [f"c{i % 1000:04d}/img_{i * 7919 % 10**9:09d}.jpg"]
    ]
    plan = ShardPlan("d", (("train", shards),), record_format("none", "tfrecord"))
    parts = divide([packing.pack(refs)], ShardDivision(plan, seed=0)).main
    return sum(len(part) for _, part in parts) / number


def figures() -> Iterator[str]:
    """Time and money by the formula of `plan`; CPU by the rates of reads, bytes and planning, as starting workers costs
    none; quotas of 200 Gbit/s and of reads that double every 20 minutes; parts of the join by the size of label files;
    bytes of a reference in 1,000 parts, and alone in one of 500,000."""
    yield f"{found().seconds / 3600:.1f} h"
    yield f"{found().vcpu_hours:,.0f} vCPU hours"
    yield f"{found().dollars:,.0f} USD"
    yield f"{found().records_dollars:,.0f} USD"
    yield f"{found().class_b / 1000 * Prices().class_b_1000:,.0f} USD"
    yield f"{found().shuffle_bytes / 1e12:.1f} TB"
    yield f"{found().class_a:,}"
    seconds = OBJECTS * (Rates().read_s + OBJECT_BYTES * Rates().byte_s + 2 * Rates().plan_s)
    yield f"{seconds / 3600:,.0f} vCPU hours"
    for size in (OBJECTS * OBJECT_BYTES, 1e14):
        yield f"{size * 8 / 200e9 / 3600:.1f} h"
    for reads in (OBJECTS, 10**9):
        yield f"{read_seconds(reads, math.inf) / 3600:.1f} h"
    parts = buckets_for(OBJECTS * ROW_BYTES)
    yield f"{OBJECTS * ROW_BYTES / 1e9:,.0f} GB"
    yield f"{parts:,}"
    yield f"{OBJECTS / parts / 1000:,.0f},000"
    few, many = bytes_of_a_reference(1000, 1 << 16), bytes_of_a_reference(500_000, 1 << 12)
    yield f"{many:.0f} bytes instead of {few:.0f}"


def test_the_figures_of_a_petabyte_are_those_of_the_formulas() -> None:
    """Each is on the page by itself."""
    expected = list(figures())
    assert [
        f for f in expected if not re.search(rf"(?<![\d.,]){re.escape(f)}(?!\d)", PETABYTE_PAGE)
    ] == []


# --- promises --------------------------------------------------------------------------------------


def test_every_promise_has_a_test() -> None:
    """No test names a promise that there is not."""
    names = [name for promises in PROMISES.values() for name in promises]
    assert len(set(names)) == len(names)
    assert set(holders()) == set(names)


def test_the_page_lists_the_promises_as_they_are() -> None:
    """Run `python -m tests.promises` to write them there."""
    assert PAGE.read_text(encoding="utf-8") == page()
