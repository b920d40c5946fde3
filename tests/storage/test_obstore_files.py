"""The checks that come before a job in a bucket of S3 or Azure."""

from __future__ import annotations

from types import MethodType

import pytest

from beam_pipeline.core.errors import BucketError
from beam_pipeline.core.listing.filters import ImageRoot
from beam_pipeline.storage import files, obstore_objects
from beam_pipeline.storage.bucket_listing import FanOut, list_bucket
from tests.gcs.proxy import Fault
from tests.s3.conftest import MinioStore
from tests.stores import Store

pytestmark = pytest.mark.s3


def test_a_folder_is_listed_in_ranges(
    minio_store: MinioStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each name once, though ranges begin at guesses; long ones are cut again."""
    monkeypatch.setattr(obstore_objects, "PAGE_SIZE", 20)
    keys = sorted(
        {f"img_{i:03d}.jpg" for i in range(150)} | {f"größe/猫{i}.jpg" for i in range(30)}
    )
    for key in keys:
        minio_store.put(f"photos/{key}", b"1")
    root = ImageRoot(f"{minio_store.uri}/photos")
    found = list(list_bucket(root, 10, FanOut(first=30, names=40, ranges=4, threads=4)))
    assert sorted(image.key for part in found for image in part.images) == keys
    starts = [request.query.get("start-after", "") for request in minio_store.proxy.take_log()]
    assert len(set(starts)) > 10


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
