"""Rows of GPU units, stock and the catalogue, as services and the mirror write them."""

import itertools
import uuid
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from gpuplatform.clock import now
from gpuplatform.tenancy.selectors import tenant_by_name
from gpuplatform.workloads.causes import StartupCause
from inventory.models import GpuSpec
from units.models import GpuUnit, UnitGroup
from units.phases import STOCK_NAMESPACE, UnitPhase, UnitReason, UnitRole

_numbers = itertools.count(1)

PULL_FAILURE = 'Pod unit-a-1: ErrImagePull: manifest for "registry.example.invalid/a:1" unknown'


def spec_row(name: str = "g1.1", **changes: Any) -> GpuSpec:
    """Add a GPU spec to the catalogue, or change it if it exists."""
    columns = {"cpu": "8", "memory": "64Gi", "gpu": 1, **changes}
    return GpuSpec.objects.update_or_create(name=name, defaults=columns)[0]


def catalogued(name: str = "g1.1", **columns: Any) -> GpuSpec:
    """Return a GPU spec of the catalogue; add it with these columns if it does not exist."""
    return GpuSpec.objects.get_or_create(name=name, defaults={"gpu": 1, **columns})[0]


def catalogued_for(seeding: Mapping[str, Any]) -> GpuSpec:
    """Return the GPU spec of the body of a seeding; add it with its values if it is new."""
    names = {"cpu": "cpu", "memory": "memory", "gpu": "gpu", "resourceName": "resource_name"}
    names["resources"] = "resources"
    columns = {names[key]: value for key, value in seeding.items() if key in names}
    return catalogued(seeding["specName"], **columns)


def stock_row(phase: str = UnitPhase.READY, **changes: Any) -> GpuUnit:
    """Insert the row of a stock unit that entered its phase five minutes ago."""
    number = next(_numbers)
    spec_name = changes.get("spec_name", "g1.1")
    columns: dict[str, Any] = {
        "role": UnitRole.STOCK,
        "namespace": STOCK_NAMESPACE,
        "name": f"stock-{number:03d}",
        "ordinal": 1,
        "spec": {"specName": spec_name, "cpu": "8", "gpu": 1, "memory": "64Gi"},
        **_shared(phase, UnitReason.STOCK_READY),
    }
    return GpuUnit.objects.create(**{**columns, **changes})


def unit_row(phase: str = UnitPhase.READY, **changes: Any) -> GpuUnit:
    """Insert the row of an active unit that entered its phase five minutes ago."""
    number = next(_numbers)
    tenant = tenant_by_name()
    spec_name = changes.get("spec_name", "g1.1")
    name = changes.get("name", f"unit-{number}")
    ports = [{"name": "web", "port": 8080}]
    columns: dict[str, Any] = {
        "role": UnitRole.ACTIVE,
        "tenant": tenant,
        "namespace": tenant.namespace,
        "name": name,
        "image": "docker.io/library/nginx:1.27",
        "spec": {
            "specName": spec_name,
            "image": "docker.io/library/nginx:1.27",
            "gpu": 1,
            "memory": "64Gi",
            "template": {"ports": ports},
        },
        "service_name": f"unit-{name}",
        "access_url": f"http://unit-{name}.{tenant.namespace}.svc.cluster.local:8080",
        **_shared(phase, UnitReason.UNIT_READY),
    }
    return GpuUnit.objects.create(**{**columns, **changes})


def group_row(name: str = "team", size: int = 2) -> UnitGroup:
    """Insert the rows of the units of a group, and return its first unit."""
    for rank in range(size):
        spec = {"specName": "g1.1", "gpu": 1, "group": {"name": name, "rank": rank, "size": size}}
        unit_row(name=f"{name}-{rank}", spec=spec, group_name=name, group_rank=rank)
    return UnitGroup.objects.get(name=f"{name}-0")


def _shared(phase: str, ready: UnitReason) -> dict[str, Any]:
    moment = now() - timedelta(minutes=5)
    failed, is_ready = phase == UnitPhase.FAILED, phase == UnitPhase.READY
    reason = UnitReason.POD_STARTUP_FAILED if failed else ready if is_ready else ""
    message = PULL_FAILURE if failed else ""
    cause = StartupCause.IMAGE_PULL_FAILED if failed else ""
    condition = {
        "type": "Ready",
        "status": "True" if is_ready else "False",
        "reason": reason or "UnitProgressing",
        "message": message,
        "observedGeneration": 1,
        "lastTransitionTime": "2026-01-31T12:00:00Z",
    }
    return {
        "uid": str(uuid.uuid4()),
        "phase": phase,
        "reason": reason,
        "message": message,
        "cause": cause,
        "conditions": [condition],
        "spec_name": "g1.1",
        "gpu": 1,
        "generation": 1,
        "observed_generation": 1,
        "resource_version": 1,
        "ready_replicas": 1 if is_ready else 0,
        "phase_since": moment,
        "last_sync_at": moment,
    }
