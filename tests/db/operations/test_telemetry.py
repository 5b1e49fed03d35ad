"""The log lines of an operation: one when it is first claimed, one when it ends."""

import logging
from typing import Any

import pytest
from django.db.models.functions import Now

from gpuplatform.api.trace_id import tracing
from gpuplatform.kube.errors import ClusterForbidden, ClusterRejected
from gpuplatform.kube.kinds import STOCK_POOL
from gpuplatform.operations import driver, telemetry
from gpuplatform.operations.interventions import operation_cancel
from gpuplatform.operations.models import Operation
from gpuplatform.operations.services import Accepted
from gpuplatform.tenancy.actor import acting_as
from tests.factories.inventory import accept_create
from tests.fakes.cluster import FakeCluster

pytestmark = pytest.mark.django_db

FIELDS = ("operationID", "kind", "tenant", "asked_by", "object", "traceID")


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, telemetry.__name__)
    return caplog


def logged(lines: pytest.LogCaptureFixture) -> list[tuple[str, dict[str, Any]]]:
    """Return the message and the fields of each log line."""
    return [
        (record.getMessage(), vars(record))
        for record in lines.records
        if record.name == telemetry.__name__
    ]


def accept() -> Accepted:
    with tracing("trace-1"), acting_as("token 'ci'"):
        return accept_create(name="a", operationID="create-a")


def test_claim_and_end_are_a_line_each(
    cluster: FakeCluster, lines: pytest.LogCaptureFixture
) -> None:
    driver.run(accept().operation.pk)

    (claim, claimed), (end, ended) = logged(lines)
    assert (claim, end) == ("operation claimed", "operation ended")
    for fields in (claimed, ended):
        assert {name: fields[name] for name in FIELDS} == {
            "operationID": "create-a",
            "kind": "stockpool.create",
            "tenant": "default",
            "asked_by": "token 'ci'",
            "object": "StockPool/runtime-pools/a",
            "traceID": "trace-1",
        }
        assert fields["seconds"] >= 0
    assert (ended["phase"], ended["code"]) == ("Succeeded", "")


def test_a_failure_has_the_code_of_its_error(
    cluster: FakeCluster, lines: pytest.LogCaptureFixture
) -> None:
    cluster.fail("create", STOCK_POOL, ClusterRejected("invalid", status=422))

    driver.run(accept().operation.pk)

    *_, (_, ended) = logged(lines)
    assert (ended["phase"], ended["code"]) == ("Failed", "invalid_request")


def test_an_operation_that_waits_is_logged_as_claimed_once(
    cluster: FakeCluster, lines: pytest.LogCaptureFixture
) -> None:
    operation = accept().operation
    cluster.fail("create", STOCK_POOL, ClusterForbidden("exceeded quota"))
    driver.run(operation.pk)
    Operation.objects.filter(pk=operation.pk).update(due_at=Now())

    driver.run(operation.pk)

    assert [message for message, _ in logged(lines)] == ["operation claimed", "operation ended"]


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_an_operation_that_is_cancelled_while_it_waits_ends_with_a_line(
    cluster: FakeCluster, lines: pytest.LogCaptureFixture
) -> None:
    operation_cancel(operation=accept().operation, operation_id="cancel")

    [(message, fields)] = logged(lines)
    assert (message, fields["operationID"]) == ("operation ended", "create-a")
    assert fields["phase"] == "Cancelled"
