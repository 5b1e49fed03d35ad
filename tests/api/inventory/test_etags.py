"""ETags of pools and GPU specs: `If-Match` accepts a change of one version only."""

import pytest

from gpuplatform.operations.models import Operation
from inventory.models import StockPool
from inventory.phases import PoolPhase
from tests.factories.admin_rows import Rows
from tests.factories.unit_rows import spec_row
from tests.fakes.api import POOLS, SPECS, Api
from tests.fakes.cluster import FakeCluster

pytestmark = pytest.mark.django_db


def test_of_two_changes_of_one_pool_version_the_second_is_refused(
    api: Api, cluster: FakeCluster
) -> None:
    pool = Rows().pool(PoolPhase.READY)
    Operation.objects.all().delete()
    address = f"{POOLS}/{pool.name}"
    etag = api.get(address, namespace=pool.namespace).headers["ETag"]

    answers = [
        api.patch(
            f"{address}?namespace={pool.namespace}",
            {"operationID": key, "replicas": 1},
            HTTP_IF_MATCH=header,
        )
        for key, header in (("old", f'"{pool.uid}-0"'), ("first", etag), ("second", etag))
    ]

    assert etag == f'"{pool.uid}-{pool.generation}"'
    assert [answer.status for answer in answers] == [412, 202, 412]
    assert StockPool.objects.count() == 1


def test_a_pool_without_a_resource_has_no_etag(api: Api, cluster: FakeCluster) -> None:
    api.post(POOLS, {"operationID": "create", "name": "a", "specName": "g", "replicas": 0})

    assert "ETag" not in api.get(f"{POOLS}/a").headers


def test_of_two_changes_of_one_spec_version_the_second_is_refused(
    api: Api, cluster: FakeCluster
) -> None:
    spec_row(name="h100-1g")
    address = f"{SPECS}/h100-1g"
    etag = api.get(address).headers["ETag"]

    answers = [
        api.patch(address, {"operationID": key, "warmTarget": target}, HTTP_IF_MATCH=etag)
        for key, target in (("first", 1), ("second", 2), ("first", 1))
    ]

    assert [answer.status for answer in answers] == [202, 412, 200]
    assert api.get(address).data["warmTarget"] == 1
    assert api.get(address).headers["ETag"] != etag
