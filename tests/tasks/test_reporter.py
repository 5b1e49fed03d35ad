"""The state is one log line even during outages, and the same numbers are metrics."""

import logging
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any

import pytest
from celery import current_app
from django.db import OperationalError, connection
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext
from django_celery_beat.models import PeriodicTask
from prometheus_client.parser import text_string_to_metric_families
from pytest_django import Settings

from gpuplatform.kube.errors import ClusterUnavailable
from gpuplatform.metrics.declared import METRICS
from gpuplatform.observability.collectors import state_render
from gpuplatform.observability.log_format import fields_of as log_fields
from gpuplatform.observability.reporter import PlatformTask, read_state
from gpuplatform.observability.tasks import report_state
from gpuplatform.operations.models import Operation
from gpuplatform.operations.tasks import run_operation
from gpuplatform.queueing import Queue, enqueue
from gpuplatform.reconciliation import gate
from gpuplatform.reconciliation.heartbeats import Part, report_heartbeat
from gpuplatform.reconciliation.models import ClusterState
from gpuplatform.samples.models import PlatformSample
from serverless.models import Invocation, WebhookSecret
from tests.factories.inventory import accept_create, pool_row
from tests.factories.limits import limit
from tests.factories.serverless import accept, function_row
from tests.factories.unit_rows import stock_row, unit_row
from tests.fakes.cluster import FakeCluster
from tests.fakes.installed import Broker

NO_BROKER = "redis://127.0.0.1:1/0"


def _refuse(*_: object) -> None:
    raise OperationalError("the server closed the connection")


def broken_database() -> AbstractContextManager[None]:
    """Let every statement fail."""
    return connection.execute_wrapper(_refuse)


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "gpuplatform.observability.reporter")
    return caplog


def reported(lines: pytest.LogCaptureFixture) -> dict[str, Any]:
    """Return the fields of the line."""
    report_state()
    (record,) = [line for line in lines.records if line.getMessage() == "steady state"]
    return {name: value for name, value in log_fields(record).items() if name != "taskName"}


def seen_cluster() -> None:
    """Record the cluster as the controller does."""
    nodes = {"node_count": 3, "ready_node_count": 2, "seen_at": Now()}
    ClusterState.objects.filter(pk=gate.cluster_state().pk).update(**nodes)


def samples() -> dict[tuple[str, ...], float]:
    """Return the metrics of beat: the name and the values of the labels, sorted by name."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(state_render()().decode())
        for sample in family.samples
    }


@pytest.mark.django_db
def test_the_line_has_the_state_of_the_platform(
    cluster: FakeCluster, broker: Broker, lines: pytest.LogCaptureFixture
) -> None:
    pool_row(phase="Ready", available_replicas=2)
    pool_row(phase="Failed", reason="X", allocated_replicas=3)
    pool_row(phase="Ready", deleted_at=Now(), available_replicas=9)
    stock_row()
    unit_row()
    accept_create(name="waits")
    accept(function_row())
    failed = accept_create(name="failed").operation
    ended = {"phase": "Failed", "error_code": "x", "due_at": None, "ended_at": Now()}
    Operation.objects.filter(id=failed.id).update(**ended)
    for part in Part:
        if part is not Part.BEAT:
            report_heartbeat(part)
    seen_cluster()
    enqueue("operations.run_operation", 1, queue=Queue.OPERATIONS)

    line = reported(lines)

    assert line.pop("oldestDueSeconds") >= 0
    assert line == {
        "database": True,
        "broker": True,
        "pools": {"Ready": 1, "Failed": 1, "Pending": 2},
        "available": 2,
        "allocated": 3,
        "units": {"active/Ready": 1, "stock/Ready": 1},
        "pendingOperations": 1,
        "failedOperationsLastHour": 1,
        "openInvocations": {"Queued": 1},
        "cluster": "healthy",
        "nodes": 3,
        "readyNodes": 2,
        "down": ["beat"],
        "queues": {"operations": 1, "reconcile": 0, "periodic": 0},
    }


@pytest.mark.django_db
def test_without_a_broker_the_line_has_all_but_the_queues(
    settings: Settings, lines: pytest.LogCaptureFixture
) -> None:
    settings.CELERY_BROKER_URL = NO_BROKER

    line = reported(lines)

    assert (line["broker"], line["database"]) == (False, True)
    assert "queues" not in line
    assert line["pools"] == {}


@pytest.mark.django_db
def test_without_a_database_its_numbers_are_left_out(
    broker: Broker, lines: pytest.LogCaptureFixture
) -> None:
    with broken_database():
        line = reported(lines)

    assert (line["database"], line["broker"]) == (False, True)
    assert set(line) == {"database", "broker", "queues"}


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("mode", "is_away", "code"),
    [
        pytest.param("off", False, "off", id="off"),
        pytest.param("required", False, "healthy", id="healthy"),
        pytest.param("required", True, "unreachable", id="unreachable"),
    ],
)
def test_the_line_has_the_health_code_of_the_cluster(
    settings: Settings, lines: pytest.LogCaptureFixture, mode: str, is_away: bool, code: str
) -> None:
    settings.KUBE_MODE = mode
    seen_cluster()
    if is_away:
        gate.close(ClusterUnavailable("connection refused"))

    assert reported(lines)["cluster"] == code


@pytest.mark.django_db
def test_only_claimable_rows_count_as_due(cluster: FakeCluster, broker: Broker) -> None:
    pool_row(due_at="2026-01-01T00:00:00Z", lease_expires_at="2999-01-01T00:00:00Z")
    pool_row(due_at="2026-01-01T00:00:00Z", uid="", name="not-made-yet")
    pool_row(due_at="2999-01-01T00:00:00Z")
    first = accept_create(name="a").operation
    Operation.objects.filter(id=first.id).update(due_at="2999-01-01T00:00:00Z")

    state = read_state()

    assert state is not None
    assert set(state.due_seconds.values()) == {None}


@pytest.mark.django_db
def test_the_number_of_queries_does_not_depend_on_the_number_of_rows(
    cluster: FakeCluster, broker: Broker
) -> None:
    for _ in range(3):
        pool_row(due_at=Now())
        stock_row()
        accept_create()

    with CaptureQueriesContext(connection) as queries:
        read_state()

    assert len(queries) <= 22


@pytest.mark.django_db
def test_beat_serves_the_same_numbers(cluster: FakeCluster, broker: Broker) -> None:
    pool_row(phase="Ready", available_replicas=2)
    stock_row()
    run_operation(accept_create(name="a").operation.id)
    accept_create(name="b")
    accept(function_row())
    report_heartbeat(Part.BEAT)
    tenant = unit_row(gpu=4).tenant
    unit_row("Stopped", gpu=8)
    limit(units=3)
    paces = {"hour_claims": 1, "hour_p50": 0.5, "hour_p95": 2.0, "day_claims": 1}
    PlatformSample.objects.create(at=Now(), seconds=30, accepted=0, failed=0, **paces)

    found = samples()

    assert found["gpuplatform_database_up",] == 1
    assert found["gpuplatform_stock_pools", "Ready"] == 1
    assert found["gpuplatform_stock_pool_replicas", "available"] == 2
    assert found["gpuplatform_units", "Ready", "stock"] == 1
    assert found["gpuplatform_tenant_gpus", "nvidia.com/gpu", str(tenant)] == 4
    assert found["gpuplatform_tenant_limit", "units", str(tenant)] == 3
    assert found["gpuplatform_tenant_used", "units", str(tenant)] == 2
    assert found["gpuplatform_claim_to_ready_seconds", "0.95", "hour"] == 2.0
    assert ("gpuplatform_claim_to_ready_seconds", "0.5", "day") not in found
    assert found["gpuplatform_operations", "stockpool.create", "Pending"] == 1
    assert found["gpuplatform_invocations", "Queued"] == 1
    assert found["gpuplatform_oldest_open_invocation_seconds",] >= 0
    assert found["gpuplatform_part_up", "beat"] == 1
    assert found["gpuplatform_part_up", "controller"] == 0
    assert found["gpuplatform_queue_messages", "reconcile"] == 0
    assert {name for name, *_ in found} <= {metric.name for metric in METRICS}


@pytest.mark.django_db
def test_recent_failures_of_invocations_are_counted(cluster: FakeCluster, broker: Broker) -> None:
    function = function_row()
    for ended_at, failure_class in (
        (Now(), "queue_timeout"),
        (Now(), "a code of another release"),
        (Now() - timedelta(hours=2), "queue_timeout"),
    ):
        Invocation.objects.filter(pk=accept(function).pk).update(
            state="Expired", failure_class=failure_class, completed_at=ended_at
        )

    found = samples()

    name = "gpuplatform_invocations_failed_last_hour"
    failed = {key: number for key, number in found.items() if key[0] == name}
    assert failed == {(name, "queue_timeout", "Expired"): 1}


@pytest.mark.django_db
def test_webhooks_are_counted_when_their_invocation_has_ended(
    cluster: FakeCluster, broker: Broker
) -> None:
    function = function_row(onDone={"url": "https://example.com/hook"})
    WebhookSecret.objects.create(function=function, salt="salt")
    late = Now() - timedelta(minutes=2)
    for state, webhook_state, after in (
        ("Queued", "Pending", None),
        ("Succeeded", "Pending", late),
        ("Succeeded", "Pending", Now() + timedelta(hours=1)),
        ("Succeeded", "Delivered", None),
        ("Expired", "Failed", None),
    ):
        Invocation.objects.filter(pk=accept(function).pk).update(
            state=state, webhook_state=webhook_state, webhook_after=after, completed_at=late
        )

    found = samples()

    assert found["gpuplatform_webhooks", "Pending"] == 2
    assert found["gpuplatform_webhooks", "Failed"] == 1
    assert 120 <= found["gpuplatform_oldest_due_webhook_seconds",] < 180


@pytest.mark.django_db
def test_unavailable_parts_have_no_metrics(settings: Settings) -> None:
    settings.CELERY_BROKER_URL = NO_BROKER

    with broken_database():
        found = samples()

    assert found == {("gpuplatform_database_up",): 0, ("gpuplatform_broker_up",): 0}


@pytest.mark.django_db
def test_a_part_that_is_off_by_choice_is_not_down(broker: Broker, settings: Settings) -> None:
    settings.NATS_URL = ""

    found = samples()

    up = {key[1]: value for key, value in found.items() if key[0] == "gpuplatform_part_up"}
    assert up.keys().isdisjoint({"activator", "results"})
    assert up["beat"] == 0


@pytest.mark.django_db
def test_the_report_is_scheduled_twice_a_minute() -> None:
    current_app.loader.import_default_modules()

    schedule = PeriodicTask.objects.get(task=PlatformTask.REPORT)

    assert schedule.interval.every == 30
    assert schedule.task in current_app.tasks
