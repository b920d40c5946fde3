"""The checks that come before a job in a bucket of S3 or Azure."""

from __future__ import annotations

from types import MethodType

import pytest

from beam_pipeline.transforms.core.errors import BucketError
from beam_pipeline.transforms.storage import files
from tests.gcs.proxy import Fault
from tests.stores import Store

pytestmark = pytest.mark.s3


def test_a_folder_is_probed(store: Store) -> None:
    """A folder that can be written to holds nothing afterwards."""
    files.prepare_folder(f"{store.uri}/out")
    assert store.names() == []


def test_a_service_that_ignores_preconditions_is_refused(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On it, two jobs could replace each other's shards."""
    system = files.file_system(store.uri)
    monkeypatch.setattr(system, "_is_kept", MethodType(lambda self, uri: False, system))
    with pytest.raises(BucketError, match="If-None-Match"):
        files.prepare_folder(f"{store.uri}/out")
    assert store.names() == []


@pytest.mark.parametrize("permission", ["list", "create", "delete"])
def test_a_missing_permission_is_named(store: Store, permission: str) -> None:
    """With the bucket, before the job."""
    kinds = {
        "list": store.kinds.list,
        "create": store.kinds.write,
        "delete": store.kinds.delete,
    }
    store.proxy.spoil(Fault(*kinds[permission], status=403))
    check = files.check_readable if permission == "list" else files.prepare_folder
    with pytest.raises(BucketError) as caught:
        check(f"{store.uri}/out")
    named = (
        f"permission {store.permissions[permission]} on {store.container} {store.uri} is missing"
    )
    assert named in str(caught.value)
