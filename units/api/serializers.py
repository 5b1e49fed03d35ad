"""Replies about GPU units and stock."""

from contextlib import suppress
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import Field

from gpuplatform.api.conditions import ConditionReply, conditions_of
from gpuplatform.api.schema import Reply, SchemaOf, conforming_block, words
from gpuplatform.clock import parse_rfc3339
from gpuplatform.kube.fields import field, items
from gpuplatform.reconciliation.inspection import ObjectEvent
from gpuplatform.workloads.causes import StartupCause
from gpuplatform.workloads.placement import Placement
from gpuplatform.workloads.template import PodTemplate
from units.core.spec import DEFAULT_SCHEME
from units.models import GpuUnit, UnitHistory
from units.phases import STOCK_NAMESPACE, UnitPhase, UnitReason
from units.selectors import StockState, stock_state

_REASON_DESCRIPTION = "Code that explains the phase; empty until the status is written."
_NORMAL, _WARNING = "Normal", "Warning"


class AccessReply(Reply):
    """How the unit is reached."""

    primary_port: str | None = Field(
        description="Name of the port in the access URL; null without ports.", examples=["http"]
    )
    scheme: str = Field(description="Scheme of the access URL.", examples=["http"])


class MirrorReply(Reply):
    """The fields of a unit in either role."""

    name: str = Field(description="Name of the unit.", examples=["trainer"])
    namespace: str = Field(description="Namespace of the unit.", examples=["runtime-instance"])
    spec_name: str = Field(description="GPU spec of the unit.", examples=["h100-1g"])
    image: str | None = Field(
        description="Image of the unit; null: the platform's reservation image.",
        examples=["docker.io/library/python:3.13-slim"],
    )
    cpu: str | None = Field(description="CPU of its pod; null: none.", examples=["4"])
    memory: str | None = Field(description="Memory of its pod; null: none.", examples=["16Gi"])
    gpu: int = Field(description="GPUs of its pod.", examples=[1])
    placement: Annotated[dict[str, Any], SchemaOf(Placement)] | None = Field(
        description="Node selector and tolerations; null: none."
    )
    phase: UnitPhase = Field(
        description="Summary of the unit's state.", examples=[UnitPhase.READY.value]
    )
    reason: str = Field(
        description=_REASON_DESCRIPTION,
        examples=[UnitReason.UNIT_READY.value],
        json_schema_extra=words(UnitReason, empty=True),
    )
    message: str = Field(
        description="Explanation of the phase for people.", examples=["The pod is ready."]
    )
    cause: StartupCause | None = Field(
        description="What keeps a pod from running or from being ready; null if nothing does."
    )
    ready_replicas: int = Field(description="Number of ready pods: 0 or 1.", examples=[1])
    conditions: list[ConditionReply] = Field(description="Conditions of the resource's status.")
    generation: int = Field(description="Generation of the spec.", examples=[1])
    observed_generation: int = Field(
        description="Generation of the spec that phase and conditions describe.", examples=[1]
    )
    uid: str | None = Field(
        description="UID of the resource; null until it exists.",
        examples=["1f0e5f2c-8c5e-4d0b-9a57-3f3f0f6f7a10"],
    )
    created_at: datetime = Field(description="When its creation was accepted.")
    deletion_timestamp: datetime | None = Field(
        description="When its deletion was accepted; null if it was not."
    )
    last_sync_time: datetime | None = Field(
        description="When it was last copied from the cluster; null until it was."
    )
    operation_id: str | None = Field(
        description="Operation that created it; null if it was created with kubectl.",
        examples=["create-gpu-unit-1"],
    )


class GpuUnitReply(MirrorReply):
    """An active GPU unit: its spec and its status."""

    lifecycle: Literal["instance"] = Field(
        default="instance", description="Always `instance`: stock has other routes."
    )
    source_stock_name: str | None = Field(
        description="Stock unit that it claimed; null without one.",
        examples=["stock-h100-1g-0123456789abcdef-001"],
    )
    source_stock_namespace: str | None = Field(
        description="Namespace of that stock unit; null without one.", examples=[STOCK_NAMESPACE]
    )
    template: Annotated[dict[str, Any], SchemaOf(PodTemplate)] | None = Field(
        description="Command, arguments, environment and ports; null: those of the image.",
        examples=[{"ports": [{"name": "http", "port": 8080}]}],
    )
    access: AccessReply = Field(description="How it is reached.")
    suspended: bool = Field(
        description="Whether it is stopped, or is being stopped.", examples=[False]
    )
    service_name: str | None = Field(
        description="Service of its pod; null without ports.", examples=["unit-trainer"]
    )
    access_url: str | None = Field(
        description="Address of its primary port inside the cluster; null while it is unknown or"
        " the unit is stopped.",
        examples=["http://unit-trainer.runtime-instance.svc.cluster.local:8080"],
    )

    @classmethod
    def of(cls, unit: GpuUnit) -> Self:
        """Return the reply for the row of an active unit."""
        return cls(
            **_shared(unit),
            source_stock_name=unit.source_name or None,
            source_stock_namespace=STOCK_NAMESPACE if unit.source_name else None,
            template=conforming_block(PodTemplate, field(unit.spec, "template")),
            access=_access(unit.spec),
            suspended=unit.is_suspended,
            service_name=unit.service_name or None,
            access_url=None if unit.is_suspended else unit.access_url or None,
        )


class StockUnitReply(MirrorReply):
    """A stock unit: reserved capacity."""

    name: str = Field(
        description="Name of the stock unit.", examples=["stock-h100-1g-0123456789abcdef-001"]
    )
    namespace: str = Field(description="Namespace of all stock.", examples=[STOCK_NAMESPACE])
    image: str | None = Field(
        description="Image of the stock unit; null: the platform's reservation image."
    )
    reason: str = Field(
        description=_REASON_DESCRIPTION,
        examples=[UnitReason.STOCK_READY.value],
        json_schema_extra=words(UnitReason, empty=True),
    )
    operation_id: str | None = Field(
        description="Operation that created it; null if it was created with kubectl.",
        examples=["seed-stock-units-1"],
    )
    state: StockState = Field(
        description="How the stock unit counts.", examples=[StockState.READY.value]
    )
    ordinal: int | None = Field(
        description="Ordinal number within its seeding, from 1; null if it was created with"
        " kubectl.",
        examples=[1],
    )
    claimed_by: str | None = Field(
        description="operationID of the open operation that claimed it; null: none."
    )
    consumed_by: str | None = Field(description="UID of the unit that consumed it; null: none.")
    consumed_at: datetime | None = Field(description="When it was consumed; null if it was not.")

    @classmethod
    def of(cls, unit: GpuUnit) -> Self:
        """Return the reply for the row of a stock unit."""
        return cls(
            **_shared(unit),
            state=stock_state(unit),
            ordinal=unit.ordinal,
            claimed_by=unit.claimed_by.operation_id if unit.claimed_by else None,
            consumed_by=unit.consumed_by or None,
            consumed_at=unit.consumed_at,
        )


class HistoryReply(Reply):
    """A change of a unit's phase or reason."""

    at: datetime = Field(description="When it changed.")
    phase: UnitPhase = Field(description="The new phase.", examples=[UnitPhase.READY.value])
    reason: str = Field(
        description="Code that explains the phase; can be empty.",
        examples=[UnitReason.UNIT_READY.value],
        json_schema_extra=words(UnitReason, empty=True),
    )
    message: str = Field(
        description="Explanation of the phase for people.", examples=["The pod is ready."]
    )
    cause: StartupCause | None = Field(
        description="What keeps a pod from running or from being ready; null if nothing does."
    )
    operation_id: str | None = Field(
        description="Operation that caused the change; null if none did.",
        examples=["create-gpu-unit-1"],
    )

    @classmethod
    def of(cls, row: UnitHistory) -> Self:
        """Return the reply for a row."""
        return cls(
            at=row.at,
            phase=UnitPhase(row.phase),
            reason=row.reason,
            message=row.message,
            cause=StartupCause(row.cause) if row.cause else None,
            operation_id=row.operation.operation_id if row.operation else None,
        )


class EventReply(Reply):
    """A Kubernetes Event about a unit or an object that it owns."""

    type: Literal["Normal", "Warning"] = Field(
        description="Type of the Event.", examples=[_WARNING]
    )
    reason: str = Field(description="Code of the Event.", examples=["FailedScheduling"])
    message: str = Field(
        description="Text of the Event for people.",
        examples=["0/3 nodes are available: 3 Insufficient nvidia.com/gpu."],
    )
    count: int = Field(description="Number of occurrences.", examples=[3])
    object_kind: str = Field(description="Kind of the object.", examples=["Pod"])
    object_name: str = Field(
        description="Name of the object.", examples=["unit-trainer-6d9c7b5f4d-x2x7q"]
    )
    source: str = Field(
        description="Component that reported the Event.", examples=["default-scheduler"]
    )
    first_seen_at: datetime | None = Field(description="When it first occurred.")
    last_seen_at: datetime | None = Field(description="When it last occurred.")

    @classmethod
    def of(cls, event: ObjectEvent) -> Self:
        """Return the reply for an Event, which any client of the cluster may have written."""
        return cls(
            type=_WARNING if event.type == _WARNING else _NORMAL,
            reason=event.reason,
            message=event.message,
            count=event.count,
            object_kind=event.object_kind,
            object_name=event.object_name,
            source=event.source,
            first_seen_at=_time(event.first_seen),
            last_seen_at=_time(event.last_seen),
        )


def _shared(unit: GpuUnit) -> dict[str, Any]:
    return {
        "name": unit.name,
        "namespace": unit.namespace,
        "spec_name": unit.spec_name,
        "image": _text(unit.spec, "image"),
        "cpu": _text(unit.spec, "cpu"),
        "memory": _text(unit.spec, "memory"),
        "gpu": unit.gpu,
        "placement": conforming_block(Placement, field(unit.spec, "placement")),
        "phase": UnitPhase(unit.phase),
        "reason": unit.reason,
        "message": unit.message,
        "cause": StartupCause(unit.cause) if unit.cause else None,
        "ready_replicas": unit.ready_replicas,
        "conditions": conditions_of(unit.conditions),
        "generation": unit.generation,
        "observed_generation": unit.observed_generation,
        "uid": unit.uid or None,
        "created_at": unit.created_at,
        "deletion_timestamp": unit.deletion_requested_at,
        "last_sync_time": unit.last_sync_at,
        "operation_id": unit.operation.operation_id if unit.operation else None,
    }


def _access(spec: Any) -> AccessReply:
    """Return the effective access: by default the first port and http."""
    ports = items(spec, "template", "ports")
    first = _text(ports[0], "name") if ports else None
    return AccessReply(
        primary_port=_text(spec, "access", "primaryPort") or first,
        scheme=_text(spec, "access", "scheme") or DEFAULT_SCHEME,
    )


def _text(value: Any, *path: str) -> str | None:
    found = field(value, *path)
    return found if isinstance(found, str) else None


def _time(text: str) -> datetime | None:
    with suppress(ValueError):
        return parse_rfc3339(text)
    return None
