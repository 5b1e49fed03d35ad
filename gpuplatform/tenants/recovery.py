"""Restores the rows of tenants from their namespaces, and from the units of lost tenants.

Called only by `manage.py recover`, while no process of the platform is running. It must run before
the recovery of units, whose operations belong to the tenants.
"""

from collections.abc import Iterator
from typing import Any

from django.db.models.functions import Now

from gpuplatform.kube.client import Cluster
from gpuplatform.kube.kinds import GPU_UNIT, NAMESPACE
from gpuplatform.operations.provenance import TENANT_ANNOTATION, annotations, has_marks
from gpuplatform.operations.selectors import has_open_operations
from gpuplatform.tenancy.models import Tenant
from gpuplatform.tenants.core.namespaces import TenantView, phase_of, tenant_in
from gpuplatform.tenants.names import TENANT_KIND
from gpuplatform.workloads.labels import TENANT_LABEL
from units.phases import UnitRole, role_of


def recover_tenants(cluster: Cluster, *, dry_run: bool) -> Iterator[str]:
    """Import the tenants of the cluster; yield a line for each change and inconsistency.

    A tenant of the database whose namespace is missing is kept: its deletion reports this.

    Raises:
        ClusterError: If the cluster cannot be read; nothing is changed then.
    """
    found = cluster.list(NAMESPACE, label_selector=TENANT_LABEL).items
    units = cluster.list(GPU_UNIT).items
    for namespace in found:
        view = tenant_in(namespace)
        if view is not None and not namespace["metadata"].get("deletionTimestamp"):
            yield from _recover(view, dry_run=dry_run)
    known = {one["metadata"]["name"] for one in found}
    for unit in units:
        namespace = unit["metadata"]["namespace"]
        if role_of(namespace) == UnitRole.STOCK or namespace in known or not has_marks(unit):
            continue
        known.add(namespace)
        yield from _recover_external(
            annotations(unit)[TENANT_ANNOTATION], namespace, dry_run=dry_run
        )


def _recover(view: TenantView, *, dry_run: bool) -> Iterator[str]:
    """Insert or correct the row of the tenant of a namespace."""
    row = Tenant.objects.filter(name=view.name).first()
    place = f"tenant {view.name}: namespace {view.namespace}"
    if row is None:
        yield from _insert(view, dry_run=dry_run)
        return
    if row.namespace != view.namespace:
        yield f"{place} has its label, but the tenant has the namespace {row.namespace}"
        return
    if has_open_operations(TENANT_KIND, "", row.name):
        yield f"{place}: an operation on the tenant is open and continues"
        return
    settings: dict[str, Any] = {
        "display_name": view.display_name,
        "weight": view.weight,
        "namespace_origin": view.origin,
        "namespace_uid": view.uid,
        "phase": phase_of(view),
    }
    if all(getattr(row, column) == value for column, value in settings.items()):
        return
    yield f"{place} has newer settings of the tenant, which is {phase_of(view)}"
    if not dry_run:
        Tenant.objects.filter(pk=row.pk).update(**settings, deleted_at=None, updated_at=Now())


def _insert(view: TenantView, *, dry_run: bool) -> Iterator[str]:
    other = Tenant.objects.filter(namespace=view.namespace).first()
    if other is not None:
        yield f"tenant {view.name}: the tenant {other} has its namespace {view.namespace}"
        return
    yield f"tenant {view.name}: imported with the namespace {view.namespace}"
    if not dry_run:
        Tenant.objects.create(
            name=view.name,
            namespace=view.namespace,
            display_name=view.display_name,
            weight=view.weight,
            max_priority=view.max_priority,
            phase=phase_of(view),
            namespace_origin=view.origin,
            namespace_uid=view.uid,
        )


def _recover_external(name: str, namespace: str, *, dry_run: bool) -> Iterator[str]:
    """Insert the tenant of a unit whose namespace the platform does not manage."""
    if Tenant.objects.filter(name=name).exists() or (
        Tenant.objects.filter(namespace=namespace).exists()
    ):
        return
    yield f"tenant {name}: imported with the namespace {namespace} of its units"
    if not dry_run:
        Tenant.objects.create(name=name, namespace=namespace)
