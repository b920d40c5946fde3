"""The Flex Template: its parameters, and how it launches a job."""

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
from tests.buckets.services import GoogleStore as Cloud
from tests.deploy.tools import DATAFLOW, load_script
from tests.engines import test_dataflow
from tests.engines.fake_dataflow import PROJECT, REGION, FakeDataflow
from tests.harness import program
from tests.pictures import write_pictures

# --- flex template ---------------------------------------------------------------------------------

MAIN = load_script(DATAFLOW / "main.py")
MAKE_METADATA = load_script(DATAFLOW / "make_metadata.py")
METADATA = json.loads((DATAFLOW / "metadata.json").read_text(encoding="utf-8"))
PARAMETERS = {parameter["name"]: parameter for parameter in METADATA["parameters"]}

BEHIND = ["--no_wait", "--runner=DataflowRunner", "--sdk_location=container"]


def options_of_the_help() -> set[str]:
    """The options as a person sees them."""
    done = program("convert", "--help", "all", check=True)
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


# --- flex launch -----------------------------------------------------------------------------------


service = test_dataflow.service
IMAGE = "europe-west4-docker.pkg.dev/my-project/beam-tfrecord/beam-tfrecord:20260131"
ACCOUNT = "beam-tfrecord-worker@my-project.iam.gserviceaccount.com"


@pytest.mark.dataflow
def test_the_launcher_writes_the_job(
    cloud: Cloud,
    service: FakeDataflow,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As Dataflow calls it; the job runs in the image, and nothing is submitted from here."""
    write_pictures(str(tmp_path / "photos"), ["cat/1.jpg", "dog/2.jpg"])
    cloud.put_folder(tmp_path / "photos", "photos")
    monkeypatch.setenv("BEAM_TFRECORD_IMAGE", IMAGE)
    main = load_script(DATAFLOW / "main.py")
    code = main.run(
        [
            f"--images={cloud.uri}/photos",
            f"--output={cloud.uri}/sets/pets",
            "--resume=true",
            "--name=",
            "--runner=DataflowRunner",
            f"--project={PROJECT}",
            f"--region={REGION}",
            "--job_name=pets",
            '--labels={"team": "pets"}',
            f"--service_account_email={ACCOUNT}",
            "--flexrs_goal=COST_OPTIMIZED",
            "--max_num_workers=20",
            f"--staging_location={cloud.uri}/temp/staging",
            f"--temp_location={cloud.uri}/temp/temp",
            f"--template_location={cloud.uri}/temp/staging/template_launches/1/job_object",
        ]
    )
    captured = capsys.readouterr()
    assert code == 0, captured.err
    assert service.jobs == []
    job = json.loads(cloud.get("temp/staging/template_launches/1/job_object"))
    assert job["name"] == "pets"
    assert job["labels"] == {"team": "pets"}
    environment = job["environment"]
    assert environment["serviceAccountEmail"] == ACCOUNT
    assert environment["flexResourceSchedulingGoal"] == "FLEXRS_COST_OPTIMIZED"
    (pool,) = environment["workerPools"]
    images = {harness["containerImage"] for harness in pool["sdkHarnessContainerImages"]}
    assert images == {IMAGE}
    assert [p["name"] for p in pool["packages"] if p["name"].endswith((".whl", ".tar.gz"))] == []
