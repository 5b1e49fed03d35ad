"""Queries of operations."""

import pytest

from gpuplatform.operations.selectors import operations_of, operations_with
from tests.factories.inventory import accept_create
from tests.fakes.cluster import FakeCluster

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(("among", "found"), [(1, 0), (2, 1), (3, 2), (4, 2)])
def test_a_search_reads_the_newest_operations(
    cluster: FakeCluster, among: int, found: int
) -> None:
    made = [
        accept_create(operationID=name).operation for name in ("has-it-1", "has-it-2", "other")
    ]

    rows = operations_with(operations_of(made[0].tenant), "has-it", among=among)

    assert [row.operation_id for row in rows] == ["has-it-2", "has-it-1"][:found]
