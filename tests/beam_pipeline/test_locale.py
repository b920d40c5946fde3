"""The bytes of names decide, whatever the locale says that they are."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from beam_pipeline.core.listing.filters import ImageRoot
from beam_pipeline.storage.local_listing import list_local_root
from tests.harness import digests, reasons_of
from tests.pictures import write_pictures

PYTHON_KNOWS_NOTHING = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def latin_1(folder: Path) -> dict[str, str]:
    """Variables of a locale whose names are ISO 8859-1; made here, as few machines have it."""
    localedef = shutil.which("localedef")
    name = "en_US.ISO-8859-1"
    made = localedef and subprocess.run(
        [localedef, "-i", "en_US", "-f", "ISO-8859-1", folder / name], capture_output=True
    )
    if not made or made.returncode:
        pytest.skip("needs localedef and its sources, of the package locales")
    return {"LOCPATH": str(folder), "LC_ALL": name, "PYTHONUTF8": "0"}


@pytest.mark.promise("locale")
@pytest.mark.slow
@pytest.mark.parametrize("locale", ["latin-1", "C", "C, as Python has it"])
def test_the_locale_changes_no_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locale: str
) -> None:
    """Of shards, receipts and manifest: of names, classes, columns and typed paths that are not ASCII."""
    monkeypatch.chdir(tmp_path)
    write_pictures("größe", ["猫/ä.jpg", "hünd/ö.jpg", "hünd/c.jpg"])
    write_pictures("größe", ["hünd/bad.jpg"])
    os.rename(
        b"gr\xc3\xb6\xc3\x9fe/h\xc3\xbcnd/bad.jpg", b"gr\xc3\xb6\xc3\x9fe/h\xc3\xbcnd/b\xff.jpg"
    )
    Path("ö.csv").write_text("bild,label,größe\nä.jpg,猫,ü\nö.jpg,hünd,ö\nc.jpg,hünd,ß\n", "utf-8")
    argv = "convert --images größe --labels ö.csv --key_column bild --output ä --max_bad_fraction 1"
    command = [sys.executable, "-m", "beam_pipeline", *argv.split()]
    other = {"LC_ALL": "C", **PYTHON_KNOWS_NOTHING} if locale == "C" else {"LC_ALL": "C"}
    if locale == "latin-1":
        other = latin_1(tmp_path)
    found = []
    for variables in ({"LC_ALL": "C.UTF-8"}, other):
        done = subprocess.run(command, env={**os.environ, **variables}, capture_output=True)
        assert done.returncode == 0, done.stderr
        assert reasons_of("ä") == {r"hünd/b\udcff.jpg": "name_not_utf8"}
        found.append((digests("ä"), sorted(os.listdir("ä/.receipts"))))
        shutil.rmtree("ä")
    assert found[0] == found[1]


def test_a_library_in_another_locale_says_so(tmp_path: Path) -> None:
    """Python cannot change its mind on names once it runs, so a name that is not ASCII is refused."""
    write_pictures(str(tmp_path / "photos"), ["cat/ä.jpg"])
    code = (
        "import sys\n"
        "from beam_pipeline.core.listing.filters import ImageRoot\n"
        "from beam_pipeline.storage.local_listing import list_local_root\n"
        "list(list_local_root(ImageRoot(sys.argv[1]), 10))\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "photos")]
    env = {**os.environ, "LC_ALL": "C", **PYTHON_KNOWS_NOTHING}
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.stderr.splitlines()[-1].endswith(
        "where Python decodes names as ascii, not as UTF-8; set PYTHONUTF8=1 before Python starts"
    )
    (listed,) = list_local_root(ImageRoot(str(tmp_path / "photos")), 10)
    assert [image.key for image in listed.images] == ["cat/ä.jpg"]
