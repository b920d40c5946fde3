"""Fixtures for all tests."""

from __future__ import annotations

import functools
import gc
import os
import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

from tests import harness, profiles
from tests.buckets.services import GoogleStore, google_servers, google_store

# One emulator for each process of tests, as the program keeps one client a process.
__all__ = ["cloud", "google_servers", "google_store", "samples"]

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

# No deadline: a slow example says more about a busy machine than about the code. A test that needs another
# number of examples says so with `examples`. CI runs the property tests again with `--hypothesis-profile=thorough`.
settings.register_profile("quick", deadline=None, max_examples=profiles.QUICK)
settings.register_profile("thorough", deadline=None, max_examples=profiles.THOROUGH)
settings.load_profile("quick")


@pytest.hookimpl(tryfirst=True)  # before pytest deselects by marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuses a test whose file does not name the mark that leaves it out of the default run.

    CI looks for marked tests only in the files that name their marks.

    Raises:
      UsageError: a test has its mark from elsewhere.
    """
    left_out = re.findall(r"not (\w+)", " ".join(config.getini("addopts")))
    text = functools.cache(lambda file: file.read_text(encoding="utf-8"))
    for item in items:
        for name in {mark.name for mark in item.iter_markers()}.intersection(left_out):
            if f"pytest.mark.{name}" not in text(item.path):
                raise pytest.UsageError(
                    f"{item.nodeid} is marked {name}, but CI would not find it: write "
                    f"`pytest.mark.{name}` in its file"
                )


def pytest_collection_finish() -> None:
    """Spares collections of garbage what is imported by now, TensorFlow and Beam, and makes them rarer."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


@pytest.fixture(scope="session", autouse=True)
def _temporary_files(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Puts what TensorFlow, PyTorch and killed jobs leave in TMPDIR beside `tmp_path`, where pytest removes it in time."""
    tempfile.tempdir = os.environ["TMPDIR"] = str(tmp_path_factory.mktemp("tmp"))


@pytest.fixture
def cloud(google_store: GoogleStore) -> GoogleStore:
    """A new bucket of Google Cloud Storage."""
    return google_store


@pytest.fixture(scope="session")
def samples() -> Path:
    """A folder of real images that is not part of the project; its licences are not ours to give."""
    folder = os.environ.get(
        "BEAM_TFRECORD_SAMPLES", os.path.join(harness.REPOSITORY, os.pardir, "shared", "data")
    )
    if not os.path.isdir(folder):
        pytest.skip(f"no real images in {folder}; name their folder in BEAM_TFRECORD_SAMPLES")
    return Path(folder).resolve()
