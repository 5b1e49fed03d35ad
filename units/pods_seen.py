"""Records the moment at which the pods of a unit were observed absent.

Until then, the GPUs of a unit count toward the limits of its tenant. The services record the
start, in the transaction that consumes the source of a unit. The mirror and the reconciler, which
reads the pods, record the rest.
"""

from django.db.models import F, QuerySet
from django.db.models.functions import Greatest

from gpuplatform.kube.fields import field, number
from gpuplatform.kube.kinds import Manifest
from gpuplatform.reconciliation.mirror import count, version_number
from units.models import GpuUnit
from units.phases import UnitPhase, UnitRole
from units.waiting import hint_tenant


def pods_expected(rows: QuerySet[GpuUnit]) -> None:
    """Record that units have consumed their source, so that their pods will hold its GPUs."""
    rows.filter(gpus_seen__lt=F("gpu")).update(gpus_seen=Greatest("gpus_seen", "gpu"))


def pods_observed(
    rows: QuerySet[GpuUnit], seen: int, unit: Manifest, *, is_suspended: bool, is_ended: bool
) -> None:
    """Record whether the pods of a unit hold GPUs, after a run that read them.

    A copy of the unit that is newer than `unit` is not changed: a start may have been recorded.

    Args:
        rows: The guarded row.
        seen: The recorded number of GPUs.
        unit: The unit with the status that the run wrote or confirmed.
        is_suspended: Whether the spec or the last start requires the unit to be stopped.
        is_ended: Whether its program has ended.
    """
    status = unit.get("status")
    is_current = number(status, "observedGeneration") == number(unit, "metadata", "generation")
    is_stopped = field(status, "phase") == UnitPhase.STOPPED and is_current and is_suspended
    holds = 0 if is_stopped or is_ended else count(unit, "spec", "gpu")
    if holds == seen:
        return
    version = version_number(unit["metadata"]["resourceVersion"])
    same = rows.filter(
        role=UnitRole.ACTIVE, deleted_at__isnull=True, resource_version__lte=version
    )
    if same.update(gpus_seen=holds) and holds < seen:
        _released(rows)


def pods_absent(rows: QuerySet[GpuUnit]) -> None:
    """Record that nothing of deleted units holds a GPU."""
    found = list(rows.filter(gpus_seen__gt=0).values_list("pk", flat=True))
    if found:
        gone = GpuUnit.objects.filter(pk__in=found)
        gone.update(gpus_seen=0)
        _released(gone)


def _released(rows: QuerySet[GpuUnit]) -> None:
    """Ask for the matcher of the waiting requests of the tenants (rule `released`)."""
    owned = rows.filter(tenant__isnull=False).order_by()
    for tenant in owned.values_list("tenant_id", flat=True).distinct():
        hint_tenant(tenant)
