"""Response models of the GPU unit routes."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field
from typing_extensions import override

from gpuplatform.api.schema import (
    NullIfEmpty,
    Reply,
    SchemaOf,
    conforming_block,
    optional,
    words,
)
from gpuplatform.clock import parse_rfc3339
from gpuplatform.formats.masking import masked
from gpuplatform.kube.fields import field, items
from gpuplatform.operations.api.resources import (
    Cause,
    Message,
    PlacementBlock,
    ResourceAmounts,
    ResourceReply,
    path_field,
    without_default,
)
from gpuplatform.operations.api.serializers import QueueReply
from gpuplatform.operations.registry import QueuePlace
from gpuplatform.operations.waits import deletion_messages
from gpuplatform.reconciliation.inspection import ObjectEvent
from gpuplatform.workloads.resources import GPU_RESOURCE
from gpuplatform.workloads.start_steps import StartStep
from gpuplatform.workloads.template import PodTemplate
from units.api.notices import StopNoticeReply, stop_notices
from units.core.groups import Group
from units.core.spec import DEFAULT_SCHEME
from units.models import GpuUnit, UnitHistory
from units.phases import STOCK_NAMESPACE, UnitPhase, UnitReason
from units.selectors import last_failures
from units.services.names import UnitOperation
from units.waiting import places_of_units
from units.waiting_display import show_waiting

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


def _namespace_of(stock_name: str) -> str | None:
    return STOCK_NAMESPACE if stock_name else None


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
    resource_name: str = Field(
        description="Extended resource that `gpu` counts.", examples=[GPU_RESOURCE]
    )
    resources: ResourceAmounts = path_field(
        "spec",
        "resources",
        description="Further extended resources of the pod; null if there are none.",
    )
    placement: PlacementBlock = path_field(
        "spec",
        "placement",
        description="Node selector and tolerations of the pod; null if there are none.",
    )
    ready_replicas: int = Field(description="Number of ready pods: 0 or 1.", examples=[1])


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


class StartStepReply(Reply):
    """A step of the start of a unit."""

    step: StartStep
    since: datetime = Field(description="Time at which the step began.")
    seconds: int | None = Field(
        default=None, description="Duration; null while the step is in progress."
    )
    message: str = Field(default="", description="Message of the node about an image pull.")


class GpuUnitReply(UnitReply):
    """Spec and status of an active GPU unit."""

    model_config = ConfigDict(json_schema_extra=optional("template"))

    name: str = Field(description="Name of the unit.", examples=["trainer"])
    namespace: str = Field(description="Namespace of the unit.", examples=["runtime-instance"])
    lifecycle: Literal["instance"] = Field(
        default="instance", description="Role of the unit. Always `instance` for an active unit."
    )
    source_stock_name: Annotated[str | None, NullIfEmpty] = Field(
        validation_alias="source_name",
        description="Name of the stock unit that the unit consumes; null without a source.",
        examples=["stock-h100-1g-0123456789abcdef-001"],
    )
    source_stock_namespace: Annotated[str | None, BeforeValidator(_namespace_of)] = Field(
        validation_alias="source_name",
        description="Namespace of the stock unit that the unit consumes; null without a source.",
        examples=[STOCK_NAMESPACE],
    )
    warm_start: bool = Field(
        validation_alias="starts_warm",
        description="Whether the node was known to have the image at the claim of its stock unit.",
        examples=[True],
    )
    template: Annotated[
        Annotated[dict[str, Any], SchemaOf(PodTemplate)] | None,
        BeforeValidator(partial(conforming_block, PodTemplate)),
    ] = path_field(
        "spec",
        "template",
        description="Command, arguments, environment variables and ports of the container; null if"
        " the spec has no template. Lists omit it. Values are hidden without the permission"
        " `write`.",
        examples=[{"ports": [{"name": "http", "port": 8080}]}],
    )
    access: Annotated[AccessReply, BeforeValidator(_access)] = Field(
        validation_alias="spec", description="Effective settings of the access URL."
    )
    suspended: bool = Field(
        validation_alias="is_suspended",
        description="Whether the unit is stopped or is being stopped.",
        examples=[False],
    )
    exit_code: int | None = Field(
        description="Exit code of an ended program; null if unknown.",
    )
    finished_at: datetime | None = Field(
        description="Time at which the program ended; null if unknown."
    )
    service_name: Annotated[str | None, NullIfEmpty] = Field(
        description="Name of the Service of the pod; null if the unit has none.",
        examples=["unit-trainer"],
    )
    access_url: Annotated[str | None, NullIfEmpty] = Field(
        validation_alias="responding_url",
        description="URL of the primary port inside the cluster; null unless the unit is ready and"
        " has ports.",
        examples=["http://unit-trainer.runtime-instance.svc.cluster.local:8080"],
    )
    avoided_node: Annotated[str | None, NullIfEmpty] = Field(
        description="Node on which the unit could not start, so that it was started again on"
        " another node; null if it was not started again."
    )
    start_steps: list[StartStepReply] = Field(
        description="Steps of the last start until the unit was ready."
    )

    notice: StopNoticeReply | None = Field(
        default=None, description="Notice that the platform stops the unit; null without one."
    )
    group: Annotated[
        Annotated[dict[str, Any], SchemaOf(Group)] | None,
        BeforeValidator(partial(conforming_block, Group)),
    ] = path_field("spec", "group", description="Place in a group of units; null without a group.")
    priority: int = Field(description="Priority in the capacity queue.", examples=[0])
    preemptible: bool = Field(
        validation_alias="is_preemptible",
        description="Whether the unit can be stopped for a request that is not preemptible.",
        examples=[False],
    )
    queue: QueueReply | None = Field(
        default=None,
        json_schema_extra=without_default,
        description="Place in the queue for stock; null if it does not wait for stock.",
    )
    last_failure: HistoryReply | None = Field(
        default=None,
        json_schema_extra=without_default,
        description="Last change to the phase `Failed`, even after the unit has recovered; null if"
        " the unit has not failed within 30 days.",
        examples=[None],
    )

    @classmethod
    @override
    def of(
        cls,
        row: GpuUnit,
        last_failure: UnitHistory | None = None,
        message: str = "",
        place: QueuePlace | None = None,
        notice: StopNoticeReply | None = None,
    ) -> Self:
        """Return the response for an active unit.

        Args:
            row: The unit.
            last_failure: Its newest failure in the history.
            message: Replaces the message of the unit, unless it is empty.
            place: Its place in the queue for stock, if it waits for stock.
            notice: The notice of its stop, if there is one.
        """
        # One validation for each unit of a list: a second one would take as long.
        found = {
            "message": message,
            "notice": notice,
            "queue": QueueReply.model_validate(place) if place else None,
            "last_failure": HistoryReply.of(last_failure) if last_failure else None,
        }
        changes = {name: value for name, value in found.items() if value}
        return cls.model_validate(row).model_copy(update=changes)


def unit_replies(rows: Sequence[GpuUnit], *, has_values: bool) -> list[GpuUnitReply]:
    """Return the responses for active units, with the related values of other rows.

    Args:
        rows: The units.
        has_values: Whether the caller may read the values of environment variables.
    """
    ending = {row.pk: row.name for row in rows if row.deletion_requested_at}
    failures, messages = last_failures(rows), deletion_messages(UnitOperation.DELETE, ending)
    waiting = [row.pk for row in rows if row.waits_since is not None]
    places = places_of_units(waiting) if waiting else {}
    notices = stop_notices(rows)
    show_waiting(rows)
    replies = [
        GpuUnitReply.of(
            row,
            failures.get(row.pk),
            messages.get(row.pk, ""),
            places.get(row.pk),
            notices.get(row.pk),
        )
        for row in rows
    ]
    if has_values:
        return replies
    return [one.model_copy(update={"template": masked(one.template)}) for one in replies]


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
