"""Many tenants, each with one row of everything."""

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from django.contrib.auth.models import User
from django.db import connection

from gpuplatform.clock import now
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OperationPhase
from gpuplatform.tenancy.models import ApiToken, Membership, Tenant, TenantLimit
from gpuplatform.tenancy.permissions import Role, Scope
from gpuplatform.usage.models import (
    EndBasis,
    TenantDecay,
    UsageEpoch,
    UsageInterval,
    UsageKind,
    UsageRecord,
)
from serverless.models import Function, Invocation
from serverless.phases import FunctionPhase, InvocationMode, InvocationState
from tests.factories.unit_rows import spec_row
from units.models import CapacityRequest, GpuUnit, UnitHistory
from units.phases import UnitPhase, UnitReason, UnitRole

SPEC: Final = "g1.1"
_HOUR: Final = datetime(2026, 1, 1, tzinfo=UTC)


def many_tenants(number: int) -> list[Tenant]:
    """Insert tenants with limits, members, tokens, a unit, a function, and usage.

    Each has one unit that runs, and one that waits for stock.
    """
    spec_row(SPEC)
    names = [f"many-{n:04d}" for n in range(number)]
    tenants = Tenant.objects.bulk_create(
        Tenant(name=name, namespace=f"tenant-{name}", weight=1 + n % 5)
        for n, name in enumerate(names)
    )
    _people(tenants)
    TenantLimit.objects.bulk_create(
        TenantLimit(tenant=one, resource=resource, hard=8)
        for one in tenants
        for resource in ("gpus", f"gpus.{SPEC}", "units", "functions")
    )
    operations = _operations(tenants)
    units = _units(tenants, operations, UnitPhase.READY, "runs")
    waiting = _units(tenants, _operations(tenants, is_open=True), UnitPhase.PENDING, "waits")
    CapacityRequest.objects.bulk_create(
        CapacityRequest(
            operation=one.operation,
            tenant=one.tenant,
            unit=one,
            spec_name=SPEC,
            expires_at=now() + timedelta(hours=1),
        )
        for one in waiting
    )
    _functions(tenants, operations)
    _usage(units)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    return tenants


def _people(tenants: list[Tenant]) -> None:
    users = User.objects.bulk_create(User(username=one.name) for one in tenants)
    Membership.objects.bulk_create(
        Membership(tenant=one, user=user, role=Role.ADMIN)
        for one, user in zip(tenants, users, strict=True)
    )
    ApiToken.objects.bulk_create(
        ApiToken(tenant=one, name="ci", digest=f"digest-{one}", hint="gpu_", scopes=[Scope.USER])
        for one in tenants
    )


def _operations(tenants: list[Tenant], *, is_open: bool = False) -> list[Operation]:
    phase = OperationPhase.PENDING if is_open else OperationPhase.SUCCEEDED
    name = "waits" if is_open else "runs"
    return Operation.objects.bulk_create(
        Operation(
            tenant=one,
            operation_id=f"create-{name}",
            kind="unit.create",
            payload={},
            request_hash="0" * 64,
            hash_version=1,
            phase=phase,
            object_kind="GPUUnit",
            object_namespace=one.namespace,
            object_name=name,
            due_at=now() if is_open else None,
            ended_at=None if is_open else now(),
        )
        for one in tenants
    )


def _units(
    tenants: list[Tenant], operations: list[Operation], phase: UnitPhase, name: str
) -> list[GpuUnit]:
    is_ready = phase == UnitPhase.READY
    units = GpuUnit.objects.bulk_create(
        GpuUnit(
            role=UnitRole.ACTIVE,
            tenant=one,
            operation=operation,
            namespace=one.namespace,
            name=name,
            uid=str(uuid.uuid4()) if is_ready else "",
            phase=phase,
            reason=UnitReason.UNIT_READY if is_ready else "",
            spec={"specName": SPEC, "gpu": 1, "image": "busybox:1"},
            spec_name=SPEC,
            image="busybox:1",
            gpu=int(is_ready),
            gpus_seen=int(is_ready),
        )
        for one, operation in zip(tenants, operations, strict=True)
    )
    UnitHistory.objects.bulk_create(UnitHistory(unit=one, phase=phase) for one in units)
    return units


def _functions(tenants: list[Tenant], operations: list[Operation]) -> None:
    functions = Function.objects.bulk_create(
        Function(
            tenant=one,
            operation=operation,
            request_id="echo",
            spec={"specName": SPEC, "image": "busybox:1"},
            spec_name=SPEC,
            phase=FunctionPhase.READY,
        )
        for one, operation in zip(tenants, operations, strict=True)
    )
    Invocation.objects.bulk_create(
        Invocation(
            tenant=one.tenant,
            function=one,
            invocation_id="order-1",
            request_hash="0" * 64,
            mode=InvocationMode.ASYNC,
            state=InvocationState.QUEUED,
            content_type="text/plain",
            payload=b"",
            timeout_seconds=60,
        )
        for one in functions
    )


def _usage(units: list[GpuUnit]) -> None:
    epoch = UsageEpoch.objects.create()
    of_unit: list[dict[str, Any]] = [
        {"tenant": one.tenant, "kind": UsageKind.GPU, "spec_name": SPEC, "gpus": 1}
        for one in units
    ]
    UsageInterval.objects.bulk_create(
        UsageInterval(
            unit_uid=unit.uid,
            unit_name=unit.name,
            source_uid=str(uuid.uuid4()),
            resource_name=unit.resource_name,
            started_at=_HOUR,
            seen_at=_HOUR + timedelta(hours=1),
            ended_at=_HOUR + timedelta(hours=1),
            end_basis=EndBasis.OBSERVED,
            epoch=epoch,
            **columns,
        )
        for unit, columns in zip(units, of_unit, strict=True)
    )
    UsageRecord.objects.bulk_create(
        UsageRecord(
            id=uuid.uuid4(),
            hour=_HOUR,
            subject=unit.uid,
            subject_name=unit.name,
            milliseconds=3_600_000,
            gpu_milliseconds=3_600_000,
            **columns,
        )
        for unit, columns in zip(units, of_unit, strict=True)
    )
    TenantDecay.objects.bulk_create(
        TenantDecay(tenant=one.tenant, gpu_seconds=3600.0, at=now()) for one in units
    )
