"""Which file system serves which URI."""

from __future__ import annotations

import subprocess
import sys

import pytest

from beam_pipeline.storage.registry import file_system


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("/photos/a.jpg", "LocalFiles"),
        ("photos/a.jpg", "LocalFiles"),
        ("gs:/a", "LocalFiles"),
        ("gs://pets/a.jpg", "GoogleStorage"),
        ("s3://pets/a.jpg", "S3Files"),
        ("az://pets/a.jpg", "AzureFiles"),
        ("abfs://pets@account.dfs.core.windows.net/a.jpg", "AzureFiles"),
        ("hdfs://pets/a.jpg", "BeamFileSystem"),
        ("GS://pets/a.jpg", "BeamFileSystem"),
    ],
)
def test_a_scheme_has_its_file_system(uri: str, expected: str) -> None:
    """One object serves all URIs of a scheme."""
    assert type(file_system(uri)).__name__ == expected
    assert file_system(uri) is file_system(uri)


def test_local_files_import_no_other_file_system() -> None:
    """Neither the modules for other schemes nor their libraries."""
    script = (
        "import sys; from beam_pipeline.storage import files;"
        "files.list_folder('/'); files.exists('/');"
        "names = [n for n in sys.modules if n.startswith(('apache_beam', 'obstore', 'botocore', 'google.cloud.storage', 'google.auth'))];"
        "ours = [n for n in sys.modules if '.storage.google' in n or '.storage.beam' in n or '.storage.obstore' in n];"
        "print(names, ours)"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == "[] []\n"
