"""The Flex Template: its parameters are the options of `convert`, and become its command line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from beam_pipeline import cli
from beam_pipeline.commands import convert
from beam_pipeline.core.errors import UsageError
from tests.deploy.tools import DATAFLOW, load_script

MAIN = load_script(DATAFLOW / "main.py")
MAKE_METADATA = load_script(DATAFLOW / "make_metadata.py")
METADATA = json.loads((DATAFLOW / "metadata.json").read_text(encoding="utf-8"))
PARAMETERS = {parameter["name"]: parameter for parameter in METADATA["parameters"]}

BEHIND = ["--no_wait", "--runner=DataflowRunner", "--sdk_location=container"]


def options_of_the_help() -> set[str]:
    """The options as a person sees them."""
    done = subprocess.run(
        [sys.executable, "-m", "beam_pipeline", "convert", "--help", "all"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(re.findall(r"^  --(\w+)", done.stdout, re.MULTILINE))


def test_parameters_are_the_options_of_convert() -> None:
    """All that the help names, but for those that mean nothing to a template."""
    left_out = set(MAKE_METADATA.LEFT_OUT)
    assert set(PARAMETERS) == options_of_the_help() - left_out
    assert set(PARAMETERS) & left_out == set()
    assert len(PARAMETERS) == len(METADATA["parameters"]) >= 27


def test_metadata_is_what_the_options_give() -> None:
    """make_metadata.py would write the file as it is."""
    assert MAKE_METADATA.metadata() == METADATA
    done = subprocess.run([sys.executable, DATAFLOW / "make_metadata.py", "--check"], check=False)
    assert done.returncode == 0


def test_a_file_that_is_out_of_date_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """--check compares, and without it the file is mended."""
    path = tmp_path / "metadata.json"
    path.write_text(json.dumps({**METADATA, "parameters": METADATA["parameters"][1:]}))
    monkeypatch.setattr(MAKE_METADATA, "METADATA", path)
    assert MAKE_METADATA.main(["--check"]) == 1
    assert "is not that of the options" in capsys.readouterr().err
    assert MAKE_METADATA.main([]) == 0
    assert MAKE_METADATA.main(["--check"]) == 0
    assert path.read_bytes() == (DATAFLOW / "metadata.json").read_bytes()


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("images", ["gs://a/b c", "gs://a/*.jpg", '["gs://a/b", "gs://c,d"]'], ["/home/a", "a"]),
        ("output", ["gs://sets/pets"], ["out/pets", '["gs://a"]']),
        ("overwrite", ["true", "false"], ["yes", "1", ""]),
        ("seed", ["0", "-7"], ["1.5", "x"]),
        ("max_bad_fraction", ["0", "0.01", ".5", "1e-3"], ["1%", ""]),
        ("shard_size", ["200MB", "1.5GiB", "128 MiB", "1000"], ["big", "-1"]),
    ],
)
def test_regexes_tell_good_values_from_bad(name: str, good: list[str], bad: list[str]) -> None:
    """Before a machine is started for them."""
    (regex,) = PARAMETERS[name]["regexes"]
    assert [value for value in good if not re.search(regex, value)] == []
    assert [value for value in bad if re.search(regex, value)] == []


def test_parameters_become_a_command_line() -> None:
    """Every kind of parameter, and what was left open, among what Dataflow adds."""
    argv = [
        "--images=gs://photos/a, b",
        '--labels=["gs://photos/one.csv", "gs://photos/two,2.csv"]',
        "--output=gs://sets/pets",
        "--overwrite=true",
        "--resume=false",
        "--clip_boxes=True",
        "--splits=train=0.9,validation=0.1",
        '--list_column=["tags=;", "colours=, "]',
        "--seed=-7",
        "--name=",
        "--class_ids=",
        "--inventory=",
        "--project=my-project",
        "--job_name=pets",
        '--labels={"team": "pets"}',
        "--labels=goog-template=flex",
        "--template_location=gs://temp/staging/job_object",
    ]
    assert MAIN.command_line(argv, {"BEAM_TFRECORD_IMAGE": "eu.pkg.dev/p/r/image:1"}) == [
        "convert",
        "--images=gs://photos/a, b",
        "--labels=gs://photos/one.csv",
        "--labels=gs://photos/two,2.csv",
        "--output=gs://sets/pets",
        "--overwrite",
        "--clip_boxes",
        "--splits=train=0.9,validation=0.1",
        "--list_column=tags=;",
        "--list_column=colours=, ",
        "--seed=-7",
        "--project=my-project",
        "--job_name=pets",
        '--label={"team": "pets"}',
        "--label=goog-template=flex",
        "--template_location=gs://temp/staging/job_object",
        "--no_wait",
        "--runner=DataflowRunner",
        "--sdk_container_image=eu.pkg.dev/p/r/image:1",
        "--sdk_location=container",
    ]


def test_what_dataflow_says_itself_stands() -> None:
    """The runner and the image are added only where none is named."""
    argv = ["--runner=DataflowRunner", "--sdk_container_image=other:1", "--sdk_location=other"]
    variables = {"BEAM_TFRECORD_IMAGE": "image:1"}
    assert MAIN.command_line(argv, variables) == ["convert", *argv, "--no_wait"]
    assert MAIN.command_line([], {}) == ["convert", *BEHIND]


def test_the_command_line_is_read_as_it_was_meant() -> None:
    """The program's own parser gets the values back."""
    argv = [
        '--images=["gs://a/one", "gs://a/two"]',
        "--output=gs://sets/pets",
        '--list_column=["tags=;", "colours=,"]',
        "--resume=true",
        "--overwrite=false",
    ]
    found, unknown = cli._parser().parse_known_args(MAIN.command_line(argv, {}))
    assert found.images == ["gs://a/one", "gs://a/two"]
    assert found.list_column == {"tags": ";", "colours": ","}
    assert (found.resume, found.overwrite) == (True, False)
    assert set(unknown) <= set(BEHIND)


def test_options_that_beam_has_too() -> None:
    """`--labels` is the only name that is ours and Beam's, and main.py tells them apart."""
    from beam_pipeline.launch import beam_parser

    ours = {option.flag for option in convert.options()}
    assert ours & beam_parser()._option_string_actions.keys() == {"--labels"}


@pytest.mark.parametrize(
    ("token", "message"),
    [
        ("--resume=yes", "resume is 'yes'; expected true or false"),
        ('--images=["gs://a', "images is '[\"gs://a', which is no JSON: "),
        ("--images=[1]", "images is '[1]'; expected a JSON list of strings, at least one"),
        ("--images=[]", "images is '[]'; expected a JSON list of strings, at least one"),
    ],
)
def test_values_that_cannot_be_read(
    token: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The launcher's log says which parameter and what it expected."""
    with pytest.raises(UsageError) as found:
        MAIN.command_line([token], {})
    assert str(found.value).startswith(message)
    assert MAIN.run([token]) == 2
    assert message in capsys.readouterr().err
