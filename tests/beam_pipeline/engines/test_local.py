"""Engines of this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam_pipeline.core.errors import UsageError
from beam_pipeline.engines.base import engine_for
from tests.harness import run_convert
from tests.pictures import write_pictures


@pytest.mark.parametrize("runner", [[], ["--runner=FnApiRunner"], ["--runner=direct"]])
def test_worker_processes_of_beam_are_refused(runner: list[str]) -> None:
    """The error says why, and which option to use instead."""
    with pytest.raises(UsageError) as caught:
        engine_for([*runner, "--direct_running_mode=multi_processing"])
    assert str(caught.value) == (
        "--direct_running_mode=multi_processing: a job whose worker process dies would wait for ever, as "
        "Beam does not notice. Leave the option out and use --writers=N instead: N processes write "
        "shards, faster than Beam's workers would"
    )


def test_a_refused_option_leaves_the_output_folder_alone(tmp_path: Path) -> None:
    """It is found before anything is written."""
    write_pictures(f"{tmp_path}/photos", ["a/1.jpg"])
    argv = ("--images", f"{tmp_path}/photos", "--output", f"{tmp_path}/out")
    assert (
        "use --writers=N instead"
        in run_convert(*argv, "--direct_running_mode=multi_processing", code=2).err
    )
    assert not (tmp_path / "out").exists()


def test_the_options_of_a_local_engine() -> None:
    """Prism is quiet unless something else is asked for; so are workers of the default engine."""
    assert engine_for([]).options.get_all_options(drop_default=True)["prism_log_level"] == "warn"
    given = engine_for(["--prism_log_level=debug", "--runner=prism"]).options
    assert given.get_all_options()["prism_log_level"] == "debug"
    level = "default_sdk_harness_log_level"
    assert engine_for([]).options.get_all_options()[level] == "ERROR"
    assert engine_for([f"--{level}=INFO"]).options.get_all_options()[level] == "INFO"
    assert engine_for(["--runner=direct"]).options.get_all_options()[level] is None
