"""Response models of the GPU unit and stock routes."""

from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field
from typing_extensions import override

from gpuplatform.api.schema import Reply, SchemaOf, conforming_block, words
from gpuplatform.clock import parse_rfc3339
from gpuplatform.kube.fields import field, items
from gpuplatform.operations.api.resources import (
    Cause,
    Message,
    ResourceReply,
    path_field,
)
from gpuplatform.reconciliation.inspection import ObjectEvent
from gpuplatform.workloads.placement import Placement
from gpuplatform.workloads.template import PodTemplate
from units.core.spec import DEFAULT_SCHEME
from units.models import GpuUnit, UnitHistory
from units.phases import STOCK_NAMESPACE, UnitPhase, UnitReason
from units.selectors import StockState, stock_state

_NORMAL, _WARNING = "Normal", "Warning"

SpecText = Annotated[
    str | None, BeforeValidator(lambda value: value if isinstance(value, str) else None)
]
"""A text of a spec, which any client of the cluster may have written."""


class AccessReply(Reply):
    """The effective settings of the access URL."""

    primary_port: str | None = Field(
        description="Name of the port in the access URL; null if the unit has no ports.",
        examples=["http"],
    )
    scheme: str = Field(description="Scheme of the access URL.", examples=["http"])


class UnitReply(ResourceReply):
    """The fields of a unit in either role."""

    phase: UnitPhase = Field(
        description="Summary of the state of the unit.", examples=[UnitPhase.READY.value]
    )
    reason: str = Field(
        description="Code that explains the phase; empty until the status is reported.",
        examples=[UnitReason.UNIT_READY.value],
        json_schema_extra=words(UnitReason, empty=True),
    )
    image: SpecText = path_field(
        "spec",
        "image",
        description="Container image; null for the platform's reservation image.",
        examples=["docker.io/library/python:3.13-slim"],
    )
    cpu: SpecText = path_field(
        "spec",
        "cpu",
        description="CPU of the pod; null if no CPU is requested.",
        examples=["4"],
    )
    memory: SpecText = path_field(
        "spec",
        "memory",
        description="Memory of the pod; null if no memory is requested.",
        examples=["16Gi"],
    )
    gpu: int = Field(description="Number of GPUs of the pod.", examples=[1])
    placement: Annotated[
        Annotated[dict[str, Any], SchemaOf(Placement)] | None,
        BeforeValidator(partial(conforming_block, Placement)),
    ] = path_field(
        "spec",
        "placement",
        description="Node selector and tolerations of the pod; null if there are none.",
    )
    ready_replicas: int = Field(description="Number of ready pods: 0 or 1.", examples=[1])


class GpuUnitReply(UnitReply):
    """Spec and status of an active GPU unit."""

    name: str = Field(description="Name of the unit.", examples=["trainer"])
    namespace: str = Field(description="Namespace of the unit.", examples=["runtime-instance"])
    lifecycle: Literal["instance"] = Field(
        default="instance", description="Role of the unit. Always `instance` for an active unit."
    )
    source_stock_name: str | None = Field(
        description="Name of the stock unit that the unit consumes; null without a source.",
        examples=["stock-h100-1g-0123456789abcdef-001"],
    )
    source_stock_namespace: str | None = Field(
        description="Namespace of the stock unit that the unit consumes; null without a source.",
        examples=[STOCK_NAMESPACE],
    )
    template: Annotated[dict[str, Any], SchemaOf(PodTemplate)] | None = Field(
        description="Command, arguments, environment variables and ports of the container; null if"
        " the spec has no template.",
        examples=[{"ports": [{"name": "http", "port": 8080}]}],
    )
    access: AccessReply = Field(description="Effective settings of the access URL.")
    suspended: bool = Field(
        description="Whether the unit is stopped or is being stopped.", examples=[False]
    )
    service_name: str | None = Field(
        description="Name of the Service of the pod; null if the template has no ports.",
        examples=["unit-trainer"],
    )
    access_url: str | None = Field(
        description="URL of the primary port inside the cluster; null if the unit is stopped or"
        " has no ports, or if the status is not reported yet.",
        examples=["http://unit-trainer.runtime-instance.svc.cluster.local:8080"],
    )

    @classmethod
    @override
    def of(cls, row: GpuUnit) -> Self:
        """Return the response for an active unit."""
        return cls(
            **dict(UnitReply.of(row)),
            source_stock_name=row.source_name or None,
            source_stock_namespace=STOCK_NAMESPACE if row.source_name else None,
            template=conforming_block(PodTemplate, field(row.spec, "template")),
            access=_access(row.spec),
            suspended=row.is_suspended,
            service_name=row.service_name or None,
            access_url=None if row.is_suspended else row.access_url or None,
        )


class StockUnitReply(UnitReply):
    """Spec and status of a stock unit."""

    name: str = Field(
        description="Name of the stock unit.", examples=["stock-h100-1g-0123456789abcdef-001"]
    )
    namespace: str = Field(description="Namespace of the stock unit.", examples=[STOCK_NAMESPACE])
    reason: str = Field(
        description="Code that explains the phase; empty until the status is reported.",
        examples=[UnitReason.STOCK_READY.value],
        json_schema_extra=words(UnitReason, empty=True),
    )
    image: SpecText = path_field(
        "spec", "image", description="Container image; null for the platform's reservation image."
    )
    state: StockState = Field(
        description="State under which the inventory counts the stock unit.",
        examples=[StockState.READY.value],
    )
    ordinal: int | None = Field(
        description="Ordinal of the stock unit within its seeding, starting at 1; null if the"
        " stock unit was created with kubectl.",
        examples=[1],
    )
    claimed_by: str | None = Field(
        description="operationID of the open operation that has claimed the stock unit; null if it"
        " is not claimed."
    )
    consumed_by: str | None = Field(
        description="UID of the unit that consumed the stock unit; null if it is not consumed."
    )
    consumed_at: datetime | None = Field(
        description="Time at which the stock unit was consumed; null if it is not consumed."
    )

    @classmethod
    @override
    def of(cls, row: GpuUnit) -> Self:
        """Return the response for a stock unit."""
        return cls(
            **dict(UnitReply.of(row)),
            state=stock_state(row),
            ordinal=row.ordinal,
            claimed_by=row.claimed_by.operation_id if row.claimed_by else None,
            consumed_by=row.consumed_by or None,
            consumed_at=row.consumed_at,
        )


class HistoryReply(Reply):
    """A change of the phase or the reason of a unit."""

    at: datetime = Field(description="Time at which the unit changed.")
    phase: UnitPhase = Field(
        description="Phase after the change.", examples=[UnitPhase.READY.value]
    )
    reason: str = Field(
        description="Code that explains the phase; it can be empty.",
        examples=[UnitReason.UNIT_READY.value],
        json_schema_extra=words(UnitReason, empty=True),
    )
    message: Message
    cause: Cause
    operation_id: str | None = path_field(
        "operation",
        "operation_id",
        description="operationID of the operation that caused the change; null if no operation"
        " caused it.",
        examples=["create-gpu-unit-1"],
    )

    @classmethod
    def of(cls, row: UnitHistory) -> Self:
        """Return the response for an entry of the history."""
        return cls.model_validate(row)


def _time(text: object) -> datetime | None:
    with suppress(ValueError):
        return parse_rfc3339(str(text))
    return None


EventTime = Annotated[datetime | None, BeforeValidator(_time)]
"""A time of an Event, which any client of the cluster may have written."""


class EventReply(Reply):
    """A Kubernetes Event about a unit or about an object that the unit owns."""

    type: Annotated[
        Literal["Normal", "Warning"],
        BeforeValidator(lambda type_: _WARNING if type_ == _WARNING else _NORMAL),
    ] = Field(description="Type of the Event.", examples=[_WARNING])
    reason: str = Field(description="Code that explains the Event.", examples=["FailedScheduling"])
    message: str = Field(
        description="Human-readable description of the Event.",
        examples=["0/3 nodes are available: 3 Insufficient nvidia.com/gpu."],
    )
    count: int = Field(description="Number of occurrences.", examples=[3])
    object_kind: str = Field(
        description="Kind of the object that the Event is about.", examples=["Pod"]
    )
    object_name: str = Field(
        description="Name of the object that the Event is about.",
        examples=["unit-trainer-6d9c7b5f4d-x2x7q"],
    )
    source: str = Field(
        description="Component that reported the Event.", examples=["default-scheduler"]
    )
    first_seen_at: EventTime = Field(
        validation_alias="first_seen",
        description="Time at which the Event first occurred; null if it is unknown.",
    )
    last_seen_at: EventTime = Field(
        validation_alias="last_seen",
        description="Time at which the Event last occurred; null if it is unknown.",
    )

    @classmethod
    def of(cls, event: ObjectEvent) -> Self:
        """Return the response for an Event, which any client of the cluster may have written."""
        return cls.model_validate(event)


def _access(spec: Any) -> AccessReply:
    """Return the effective access settings, which default to the first port and `http`."""
    ports = items(spec, "template", "ports")
    first = _text(ports[0], "name") if ports else None
    return AccessReply(
        primary_port=_text(spec, "access", "primaryPort") or first,
        scheme=_text(spec, "access", "scheme") or DEFAULT_SCHEME,
    )


def _text(value: Any, *path: str) -> str | None:
    found = field(value, *path)
    return found if isinstance(found, str) else None
