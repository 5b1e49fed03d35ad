"""A change by another client than the platform has one entry, whatever events repeat it."""

from typing import Any

import pytest

from gpuplatform.audit.models import AuditEntry, Outcome
from gpuplatform.audit.services.observed import changes_observed
from gpuplatform.kube.client import Listing
from gpuplatform.kube.kinds import FIELD_MANAGER, Manifest
from gpuplatform.processes.controller import WATCHED
from gpuplatform.processes.event_filter import EventFilter
from gpuplatform.tenancy.actor import ActorKind
from gpuplatform.tenancy.models import Tenant
from inventory.mirror import POOL_MIRROR
from inventory.models import StockPool
from tests.factories.inventory import pool_resource
from tests.factories.unit_rows import unit_row
from units.models import GpuUnit

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("cluster", "broker")]

POOLS = WATCHED[0]
SPEC: dict[str, Any] = {"f:spec": {"f:replicas": {}}}


def managed(manager: str, time: str = "2026-12-01T10:00:00Z", **changes: Any) -> dict[str, Any]:
    entry = {"manager": manager, "operation": "Update", "time": time, "fieldsV1": SPEC}
    return {**entry, **changes}


def pool(generation: int, *managers: dict[str, Any], **spec: Any) -> Manifest:
    metadata = {
        "generation": generation,
        "resourceVersion": str(100 + generation),
        "managedFields": list(managers),
    }
    return pool_resource(metadata=metadata, **spec)


@pytest.fixture
def events() -> EventFilter:
    return EventFilter.of_resources()


@pytest.fixture(autouse=True)
def known(catalogue: object) -> None:
    POOL_MIRROR.observed(pool(1, managed(FIELD_MANAGER)))
    assert StockPool.objects.count() == 1


def entries() -> list[tuple[Any, ...]]:
    rows = AuditEntry.objects.order_by("pk")
    return list(rows.values_list("actor_kind", "actor", "outcome", "verb", "object_name"))


def test_a_change_with_kubectl_has_one_entry_with_both_values(events: EventFilter) -> None:
    changed = pool(2, managed(FIELD_MANAGER), managed("kubectl-edit"), replicas=5)

    for _repeated in range(3):
        POOLS.on_event(events, "MODIFIED", changed)
    POOLS.on_list(events, Listing([changed], "200"))

    assert entries() == [(ActorKind.MANAGER, "kubectl-edit", Outcome.OBSERVED, "update", "h100")]
    entry = AuditEntry.objects.get()
    assert entry.object_uid == changed["metadata"]["uid"]
    assert entry.tenant == ""
    assert entry.changes == [
        {"field": "metadata.generation", "to": 2},
        {"field": "metadata.managedFields.time", "to": "2026-12-01T10:00:00Z"},
        {"field": "replicas", "from": 2, "to": 5},
    ]


def test_later_changes_of_the_same_manager_have_their_own_entries(events: EventFilter) -> None:
    first = managed("kubectl-edit")
    later = managed("kubectl-edit", "2026-12-01T11:00:00Z")

    POOLS.on_event(events, "MODIFIED", pool(2, first, replicas=5))
    POOLS.on_event(events, "MODIFIED", pool(3, first, managed(FIELD_MANAGER), replicas=6))
    POOLS.on_event(events, "MODIFIED", pool(4, later, managed(FIELD_MANAGER), replicas=7))

    found = AuditEntry.objects.order_by("pk").values_list("changes", flat=True)
    assert [one[0]["to"] for one in found] == [2, 4]


def test_the_same_change_of_two_objects_has_two_entries(events: EventFilter) -> None:
    other = pool(2, managed("kubectl-edit"), replicas=5)
    other["metadata"] |= {"name": "a100", "uid": "another-uid"}

    POOLS.on_event(events, "MODIFIED", pool(2, managed("kubectl-edit"), replicas=5))
    POOLS.on_event(events, "MODIFIED", other)

    assert [(one[1], one[4]) for one in entries()] == [
        ("kubectl-edit", "h100"),
        ("kubectl-edit", "a100"),
    ]


def test_a_change_of_a_unit_has_its_tenant(events: EventFilter) -> None:
    tenant = Tenant.objects.create(name="alpha", namespace="tenant-alpha")
    spec = {"specName": "g1.1", "image": "nginx:1", "gpu": 1}
    row = unit_row(
        name="trainer", tenant=tenant, namespace=tenant.namespace, spec=spec, generation=1
    )
    metadata = {
        "name": "trainer",
        "namespace": tenant.namespace,
        "uid": row.uid,
        "generation": 2,
        "resourceVersion": "102",
        "managedFields": [managed("kubectl-edit")],
    }

    changes_observed(
        {"kind": "GPUUnit", "metadata": metadata, "spec": {**spec, "image": "nginx:2"}},
        GpuUnit.objects,
    )

    names = ("verb", "object_kind", "object_name", "tenant", "actor")
    [found] = AuditEntry.objects.values_list(*names)
    assert found == ("update", "GPUUnit", "trainer", "alpha", "kubectl-edit")
    assert {
        "field": "image",
        "from": "nginx:1",
        "to": "nginx:2",
    } in AuditEntry.objects.get().changes


def test_a_resource_that_kubectl_created_has_an_entry_with_the_tenant_of_its_namespace() -> None:
    Tenant.objects.create(name="alpha", namespace="tenant-alpha")
    metadata = {
        "name": "by-hand",
        "namespace": "tenant-alpha",
        "uid": "uid-1",
        "generation": 1,
        "managedFields": [managed("kubectl-create")],
    }

    changes_observed({"kind": "GPUUnit", "metadata": metadata, "spec": {}}, GpuUnit.objects)

    assert entries() == [
        (ActorKind.MANAGER, "kubectl-create", Outcome.OBSERVED, "create", "by-hand")
    ]
    assert AuditEntry.objects.get().tenant == "alpha"


def test_a_change_that_the_platform_followed_is_not_lost(events: EventFilter) -> None:
    both = pool(3, managed("kubectl-scale"), managed(FIELD_MANAGER, "2026-12-01T10:00:01Z"))

    POOLS.on_event(events, "MODIFIED", both)

    assert [one[1] for one in entries()] == ["kubectl-scale"]


@pytest.mark.parametrize(
    "manager",
    [
        managed(FIELD_MANAGER),
        managed("kubectl-label", fieldsV1={"f:metadata": {"f:labels": {}}}),
        managed("kubectl", subresource="status"),
        managed("kubectl", fieldsV1=None),
    ],
)
def test_other_changes_have_no_entry(events: EventFilter, manager: Any) -> None:
    POOLS.on_event(events, "MODIFIED", pool(2, manager, replicas=5))

    assert not AuditEntry.objects.exists()


def test_values_of_variables_are_hidden(events: EventFilter) -> None:
    template = {"envs": [{"name": "KEY", "value": "canary"}]}

    POOLS.on_event(events, "MODIFIED", pool(2, managed("kubectl-edit"), template=template))

    [row] = AuditEntry.objects.values()
    assert "canary" not in str(row)
    assert {"field": "template.envs[KEY].value", "to": "(hidden)"} in row["changes"]
