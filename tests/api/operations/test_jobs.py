"""The routes of operations: shape, filters and tenants."""

from typing import Any

import pytest
from django.db.models.functions import Now
from pytest_django import DjangoAssertNumQueries

from gpuplatform.operations.models import Operation
from gpuplatform.tenancy.models import Tenant
from tests.factories.inventory import accept_create, accept_delete, create_body
from tests.fakes.api import JOBS, POOLS, Api
from tests.fakes.cluster import FakeCluster

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("catalogue")]


def ids(api: Api, **query: str | list[str]) -> list[str]:
    return [job["operationID"] for job in api.get(JOBS, **query).data]


def test_a_job_has_the_published_shape(api: Api, cluster: FakeCluster) -> None:
    accept_create(name="a", operationID="op-a")

    job = api.get(f"{JOBS}/op-a").data

    assert set(job) == {
        "operationID",
        "kind",
        "phase",
        "progress",
        "object",
        "waiting",
        "queue",
        "error",
        "createdAt",
        "updatedAt",
        "traceID",
    }
    assert job["traceID"] is None, "no HTTP request was accepted"
    assert job["progress"] == {"done": 0, "total": 1}
    assert job["object"] == {
        "kind": "StockPool",
        "namespace": "runtime-pools",
        "name": "a",
        "uid": None,
        "href": "/api/v1/operator/stockpools/a?namespace=runtime-pools",
    }


def test_a_job_has_the_trace_id_of_its_first_request(api: Api, cluster: FakeCluster) -> None:
    body = create_body()

    replies = [api.post(POOLS, body, HTTP_X_REQUEST_ID=f"trace-{number}") for number in (1, 2)]

    assert [reply.data["traceID"] for reply in replies] == ["trace-1", "trace-1"]


def test_jobs_are_listed_newest_first_and_filtered(api: Api, cluster: FakeCluster) -> None:
    accept_create(name="a", operationID="first")
    accept_create(name="b", operationID="second")
    accept_delete("a", operation_id="third")
    Operation.objects.filter(operation_id="first").update(
        phase="Succeeded", due_at=None, ended_at=Now(), created_at="2026-01-01T00:00:00Z"
    )

    assert ids(api) == ["third", "second", "first"]
    assert ids(api, kind="stockpool.delete") == ["third"]
    assert ids(api, phase="Succeeded") == ["first"]
    assert ids(api, maxAgeSeconds="3600") == ["third", "second"]
    assert ids(api, search="sec") == ["second"]
    assert ids(api, search="a") == ["third", "first"]
    assert ids(api, search="%") == []
    assert ids(api, search="SEC") == ["second"]
    assert ids(api, kind="stockpool.delete,stockpool.create") == ["third", "second", "first"]
    assert ids(api, phase=["Succeeded", "Failed"]) == ["first"]
    assert ids(api, objectKind="StockPool", objectName="b") == ["second"]
    assert ids(api, objectName="B") == []


@pytest.mark.parametrize(
    "query",
    [
        {"phase": "x"},
        {"maxAgeSeconds": "0"},
        {"maxAgeSeconds": "1.5"},
        {"kind": "unit"},
        {"kind": "stockpool.create,unit"},
        {"maxAgeSeconds": "-1"},
        {"search": "\x00"},
        {"age": "1"},
    ],
    ids=str,
)
def test_an_invalid_filter_is_named(api: Api, query: dict[str, str]) -> None:
    answer = api.get(JOBS, **query)

    assert (answer.status, answer.fields) == (400, list(query))


@pytest.mark.parametrize("operation_id", ["%00", "a%20b", "a" * 129, "%FF", "a%2Fb", "ä"])
def test_an_invalid_id_is_a_404_in_json(api: Api, operation_id: str) -> None:
    assert api.get(f"{JOBS}/{operation_id}").status == 404


def test_every_id_that_is_accepted_has_an_address(api: Api, cluster: FakeCluster) -> None:
    for operation_id in ("a", "A.b_c:d-e", "x" * 128, "0", "..."):
        location = api.post(
            "/api/v1/operator/stockpools",
            {"operationID": operation_id, "specName": "g1.1", "replicas": 0},
        ).headers["Location"]

        assert api.get(location).data["operationID"] == operation_id


def test_an_operation_of_another_tenant_is_not_found(api: Api, cluster: FakeCluster) -> None:
    accept_create(operationID="theirs")
    other = Tenant.objects.create(name="other", namespace="tenant-other")
    Operation.objects.update(tenant=other)

    theirs, nobodys = api.get(f"{JOBS}/theirs"), api.get(f"{JOBS}/nobodys")

    assert (theirs.status, theirs.code) == (nobodys.status, nobodys.code) == (404, "not_found")
    assert ids(api) == []


def test_a_page_of_100_jobs_costs_few_queries(
    api: Api, cluster: FakeCluster, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    first = accept_create().operation
    copies = [Operation.objects.get(pk=first.pk) for _ in range(100)]
    for number, copy in enumerate(copies):
        copy.pk, copy.operation_id = None, f"copy{number}"
    Operation.objects.bulk_create(copies)

    with django_assert_max_num_queries(5):
        page = api.get(JOBS, limit="100")

    assert len(page.data) == 100


def test_pages_neither_lose_nor_repeat_operations(api: Api, cluster: FakeCluster) -> None:
    for number in range(5):
        accept_create(operationID=f"op{number}")
    seen: list[str] = []
    query: dict[str, Any] = {"limit": "2"}

    while True:
        page = api.get(JOBS, **query).json
        seen += [job["operationID"] for job in page["data"]]
        accept_create()
        if page["page"]["next"] is None:
            break
        query["cursor"] = page["page"]["next"]

    assert seen == [f"op{number}" for number in (4, 3, 2, 1, 0)]


def test_users_list_the_operations_of_their_tenant_only(api: Api, cluster: FakeCluster) -> None:
    accept_create(name="a", operationID="mine")
    accept_create(name="b", operationID="theirs")
    other = Tenant.objects.create(name="other", namespace="tenant-other")
    Operation.objects.filter(operation_id="theirs").update(tenant=other)

    listed = api.get("/api/v1/operations", phase="Pending").data
    refused = api.get("/api/v1/operations", tenant="other")

    assert [one["operationID"] for one in listed] == ["mine"]
    assert (refused.status, refused.fields) == (400, ["tenant"])
