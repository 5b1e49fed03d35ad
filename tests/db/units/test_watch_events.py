"""Which rows the controller enqueues for an event of a pod of stock."""

from typing import Any

import pytest
from django.db.models.functions import Now

from gpuplatform.kube.kinds import GPU_UNIT, POD, Manifest
from gpuplatform.processes import controller
from gpuplatform.processes.event_filter import EventFilter
from tests.factories.unit_resources import orphan_pod
from tests.factories.unit_rows import stock_row, unit_row
from units.models import GpuUnit

pytestmark = pytest.mark.django_db


@pytest.fixture
def enqueued(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The ids of the rows that are enqueued."""
    found: list[int] = []
    monkeypatch.setattr(controller, "enqueue", lambda _task, row, **_: found.append(row))
    return found


def pod_of(stock: GpuUnit, phase: str, **metadata: Any) -> Manifest:
    pod = orphan_pod(stock)
    pod["metadata"] |= {"uid": "pod-1", **metadata}
    return {"kind": "Pod", **pod, "status": {"phase": phase}}


def test_the_end_of_a_stock_pod_enqueues_the_waiting_unit_at_once(enqueued: list[int]) -> None:
    unit = unit_row("Progressing")
    stock = stock_row(consumed_by=unit.uid, consumed_at=Now())
    [watched] = [one for one in controller.WATCHED if one.kind == GPU_UNIT]
    events = EventFilter.of_children(POD)

    watched.on_child(events, "ADDED", pod_of(stock, "Running"))
    terminating = {"deletionTimestamp": "2026-01-31T12:00:00Z"}
    watched.on_child(events, "MODIFIED", pod_of(stock, "Running", **terminating))
    assert enqueued == []
    watched.on_child(events, "MODIFIED", pod_of(stock, "Succeeded", **terminating))
    assert enqueued == [unit.pk]


def test_the_end_of_a_pod_of_free_stock_enqueues_only_the_stock(enqueued: list[int]) -> None:
    unit_row("Progressing")
    stock = stock_row()
    [watched] = [one for one in controller.WATCHED if one.kind == GPU_UNIT]
    events = EventFilter.of_children(POD)

    watched.on_child(events, "MODIFIED", pod_of(stock, "Failed"))

    assert enqueued == [stock.pk]
