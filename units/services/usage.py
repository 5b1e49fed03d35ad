"""Reports to the usage ledger when units consume stock, when their pods are seen, and their ends.

The transaction that records the consumption of a stock unit opens the interval, so that a crash
loses neither. All other reports can be lost: a later observation of the cluster proves the same.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet

from gpuplatform.formats.quantity import NANO, Quantity
from gpuplatform.kube.fields import field, number, text
from gpuplatform.kube.kinds import Manifest
from gpuplatform.planning.plan import Present
from gpuplatform.planning.view import ResourceView
from gpuplatform.usage.core.sights import sight_of, sights_of
from gpuplatform.usage.models import UsageInterval
from gpuplatform.usage.services.decay import decays_update
from gpuplatform.usage.services.intervals import (
    Use,
    interval_open,
    intervals_close,
    intervals_close_all,
    sights_record,
)
from gpuplatform.usage.services.records import records_update
from gpuplatform.workloads.nodes import NodeState
from gpuplatform.workloads.resources import resource_in
from inventory.models import GpuSpec
from units.core.observed import ObservedUnit
from units.core.queue import TAU_SECONDS
from units.core.sources import source_of
from units.core.usage import has_released
from units.models import RELEASED, GpuUnit
from units.phases import UnitRole, role_of

_MIB: Final = 2**20


def use_of(unit: Manifest, tenant: int) -> Use | None:
    """Return the use of a unit of a tenant, or `None` if the unit has no source."""
    source, metadata = source_of(unit), unit["metadata"]
    if source is None:
        return None
    return _use(tenant, metadata["uid"], metadata["name"], source.uid, unit.get("spec") or {})


def _use(tenant: int, uid: str, name: str, source_uid: str, spec: Manifest) -> Use:
    spec_name = text(spec, "specName")[:63]
    product = GpuSpec.objects.filter(name=spec_name).values_list("product", flat=True).first()
    return Use(
        tenant_id=tenant,
        unit_uid=uid,
        unit_name=name,
        source_uid=source_uid,
        spec_name=spec_name,
        product=product or "",
        resource_name=resource_in(spec)[:253],
        gpus=max(number(spec, "gpu"), 0),
        cpu_millis=Quantity.parsed_or_zero(field(spec, "cpu")).nanos * 1000 // NANO,
        memory_mib=Quantity.parsed_or_zero(field(spec, "memory")).nanos // NANO // _MIB,
    )


def usage_begin(unit: Manifest, tenant: int) -> None:
    """Open the interval of a unit, in the transaction that records that it consumed its source."""
    use = use_of(unit, tenant)
    if use is not None:
        interval_open(use)


def usage_look(unit: Manifest, observed: ObservedUnit) -> None:
    """Report the observed state of an active unit: its pods, and whether it released its GPUs.

    Pods are read only while a unit starts, stops or fails, so that an unchanged unit causes no
    writes.
    """
    source = source_of(unit)
    is_active = role_of(unit["metadata"]["namespace"]) == UnitRole.ACTIVE
    if source is None or not is_active or not isinstance(observed.pods, Present):
        return
    pods = observed.own_pods(ResourceView.of(unit))
    if sights := [sight for pod in pods if (sight := sight_of(pod))]:
        sights_record(sights)
    if has_released(unit, observed):
        intervals_close(unit["metadata"]["uid"], source.uid)


def usage_pod_ended(pod: Manifest) -> None:
    """Report the last state of a pod that has ended or was deleted."""
    if role_of(text(pod, "metadata", "namespace")) != UnitRole.ACTIVE:
        return
    sight = sight_of(pod)
    if sight is not None and sight.is_end:
        sights_record([sight])


def usage_end(uids: Sequence[str]) -> None:
    """Close the intervals of deleted units of which nothing in the cluster can hold GPUs."""
    for uid in uids:
        intervals_close(uid)


def usage_seen(pods: Sequence[Manifest], nodes: Sequence[Manifest], at: datetime) -> None:
    """Report all pods and nodes of the cluster, which were requested at `at` or later."""
    states = {state.name: state for state in map(NodeState.of, nodes)}
    own = [pod for pod in pods if role_of(text(pod, "metadata", "namespace")) == UnitRole.ACTIVE]
    sights_record(sights_of(own, states, at), may_skip=True)


def usage_sweep() -> None:
    """Complete the intervals, compute the hourly records, and decay the use of the tenants."""
    live = GpuUnit.objects.filter(role=UnitRole.ACTIVE, deleted_at__isnull=True).exclude(uid="")
    intervals_close_all(live.values("uid"))
    _open_missing(live)
    records_update()
    decays_update(TAU_SECONDS)


def _open_missing(live: QuerySet[GpuUnit]) -> None:
    """Open the intervals of running units that consumed their source without opening one.

    A worker of an earlier release does so. Nothing before this time is charged.
    """
    known = UsageInterval.objects.filter(source_uid=OuterRef("source_uid"))
    consumed = GpuUnit.objects.filter(uid=OuterRef("source_uid"), consumed_by=OuterRef("uid"))
    running = live.filter(tenant__isnull=False).exclude(source_uid="").exclude(RELEASED)
    for row in running.filter(Exists(consumed), ~Exists(known)).order_by("id"):
        with transaction.atomic():
            interval_open(_use(row.tenant_id or 0, row.uid, row.name, row.source_uid, row.spec))
