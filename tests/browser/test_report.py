"""Reports in a real browser: they load nothing, complain of nothing, and can be used by anybody."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from beam_pipeline.commands.demo import make_demo
from beam_pipeline.core.report.page import Report, report_page
from tests import harness, pictures
from tests.core.report.test_page import full, manifest_of, statistics_of

pytestmark = pytest.mark.browser

EVIL = ("<script>throw 1</script>", '"><img src=x onerror="throw 2">', "</table></style>")
SIZES = {"wide": (1200, 900), "phone": (360, 740)}


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Name -> report of a data set."""
    folder = tmp_path_factory.mktemp("reports")
    classes = {**{f"class {i:04d}": i for i in range(1000)}, **dict.fromkeys(EVIL, 7)}
    pages = {
        "1,000 classes": Report(
            manifest=manifest_of({"train": 2000, "test": 0}, classes),
            statistics=statistics_of(400, boxes=3),
        ),
        "everything": full(40, 9, '<&">', boxes=5),
        "empty": Report(manifest=manifest_of({"train": 0})),
    }
    found = {}
    for name, report in pages.items():
        found[name] = folder / f"{name}.html"
        found[name].write_bytes(report_page(report))
    demo = make_demo(str(folder / "demo"), 60)
    options = ("--name=shapes", "--splits=train=0.8,test=0.2")
    inputs = ("--images", *demo.inputs.images, "--labels", *demo.inputs.labels)
    argv = (*inputs, "--output", demo.output.output)
    assert harness.convert(*argv, *options) == 0
    found["demo"] = Path(demo.output.output, "report.html")
    sizes = ("--label_column=size", "--columns=size:float", "--num_shards=3")
    assert harness.convert(*argv[:-1], f"{folder}/sizes", *sizes) == 0
    found["regression"] = folder / "sizes/report.html"
    pictures.write_pictures(str(folder / "bare"), [f"{i}.jpg" for i in range(9)])
    kept = ("--images", f"{folder}/bare", "--output", f"{folder}/kept", "--unlabelled=keep")
    assert harness.convert(*kept) == 0
    found["unlabelled"] = folder / "kept/report.html"
    return found


NAMES = ("1,000 classes", "everything", "empty", "demo", "regression", "unlabelled")


@pytest.fixture
def opened(browser: Any, reports: dict[str, Path]) -> Iterator[Callable[..., Any]]:
    """Opens a report; whatever the page complains of or asks for fails the test."""
    contexts, complaints, requests = [], [], []

    def open_report(name: str, size: str = "wide", **options: Any) -> Any:
        width, height = SIZES[size]
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(reports[name].as_uri())
        return page

    yield open_report
    for context in contexts:
        context.close()
    assert complaints == []
    assert [url for url in requests if not url.startswith(("file:", "data:"))] == []
    assert len([url for url in requests if url.startswith("file:")]) == len(contexts)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", NAMES)
def test_a_report_fits_the_screen(
    opened: Callable[..., Any], name: str, size: str, scheme: str
) -> None:
    """Only tables scroll sideways. The background follows the scheme of the system."""
    page = opened(name, size, color_scheme=scheme)
    wide, window = page.evaluate(
        "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    )
    assert wide <= window
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert colour == {"light": "rgb(255, 255, 255)", "dark": "rgb(18, 23, 29)"}[scheme]
    broken = "[...document.images].filter(image => !image.naturalWidth).map(image => image.src)"
    assert [src for src in page.evaluate(broken) if not src.endswith("aaaa")] == []


def classes(page: Any) -> list[str]:
    """The names of the classes that are shown, from top to bottom."""
    shown = "[...document.querySelectorAll('[data-table] tbody tr')].filter(row => !row.hidden)"
    found: list[str] = page.evaluate(f"{shown}.map(row => row.cells[0].textContent)")
    return found


def test_classes_are_found_and_sorted_with_the_keyboard(opened: Callable[..., Any]) -> None:
    """Tab reaches the field and the headings of columns; what happened is said."""
    page = opened("1,000 classes")
    assert classes(page)[:2] == ["class 0999", "class 0998"]
    search = page.get_by_label("Find a class")
    search.focus()
    page.keyboard.type("CLASS 002")
    assert sorted(classes(page)) == [f"class 002{i}" for i in range(10)]
    assert page.locator("[role=status]").text_content() == "10 found"
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Class"
    page.keyboard.press("Enter")
    assert classes(page) == [f"class 002{i}" for i in range(10)]
    page.keyboard.press("Space")
    assert classes(page) == [f"class 002{i}" for i in reversed(range(10))]
    assert page.locator("th[aria-sort=descending]").text_content() == "Class"
    search.fill("")
    assert len(classes(page)) == 1000 + len(EVIL)
    page.get_by_role("button", name="Samples").click()
    page.get_by_role("button", name="Samples").click()
    assert classes(page)[0] == "class 0000"


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ["everything", "demo", "unlabelled"])
def test_rows_of_samples_are_full(opened: Callable[..., Any], name: str, size: str) -> None:
    """Every row of a grid has as many tiles as the first; those with boxes are large."""
    page = opened(name, size)
    rows = page.evaluate("""[...document.querySelectorAll('#samples ~ .tiles')].map(grid => {
        const tops = [...grid.children].map(tile => tile.offsetTop);
        return [...new Set(tops)].map(top => tops.filter(other => other === top).length);
    })""")
    assert rows
    assert all(len(set(counts)) == 1 for counts in rows)
    if name == "everything":
        widths = page.evaluate(
            "[...document.querySelectorAll('.large img')].map(i => i.offsetWidth)"
        )
        assert min(widths) > 250


def test_text_from_data_stays_text(opened: Callable[..., Any]) -> None:
    """Markup in the names of classes is read, not run."""
    page = opened("1,000 classes")
    assert set(EVIL) <= set(classes(page))
    assert page.evaluate("document.scripts.length") == 1
    assert page.evaluate("document.querySelectorAll('img[onerror]').length") == 0


def test_without_scripts_all_is_there(opened: Callable[..., Any]) -> None:
    """Sorted by size; there is no field that does nothing."""
    page = opened("1,000 classes", java_script_enabled=False)
    assert page.locator("[data-table] tbody tr").count() == 1000 + len(EVIL)
    assert not page.get_by_label("Find a class").is_visible()


def test_long_tables_scroll_with_the_keyboard(opened: Callable[..., Any]) -> None:
    """Each is a group with a name, so that a screen reader tells which one it is."""
    page = opened("1,000 classes")
    table = page.get_by_role("group", name="Class", exact=True)
    table.focus()
    page.keyboard.press("End")
    page.wait_for_function("document.activeElement.scrollTop > 0")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", NAMES)
def test_axe_finds_no_fault(opened: Callable[..., Any], name: str, scheme: str) -> None:
    """Contrast, names, roles and structure, by the rules of axe-core."""
    script = os.environ.get("BEAM_TFRECORD_AXE", "")
    if not os.path.exists(script):
        pytest.skip("needs axe-core: its axe.min.js as BEAM_TFRECORD_AXE")
    page = opened(name, color_scheme=scheme)
    page.evaluate(Path(script).read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    assert [(fault["id"], fault["nodes"][0]["html"]) for fault in found["violations"]] == []
