"""What GPU units and stock look like from outside."""

from datetime import datetime
from typing import Any, Self

from pydantic import Field

from gpuplatform.api.conditions import ConditionReply, conditions_of
from gpuplatform.api.schema import Reply
from gpuplatform.kube.fields import field, items
from gpuplatform.workloads.causes import StartupCause
from units.core.spec import DEFAULT_SCHEME
from units.models import GpuUnit, UnitHistory
from units.phases import STOCK_NAMESPACE, UnitPhase
from units.selectors import StockState, stock_state

_LIFECYCLE = "instance"


class AccessReply(Reply):
    """How the unit is reached."""

    primary_port: str | None = Field(
        description="The name of the port; null without ports.", examples=["http"]
    )
    scheme: str = Field(description="The scheme of the access URL.", examples=["http"])


class MirrorReply(Reply):
    """What a unit of either role has."""

    name: str = Field(description="Its name.", examples=["trainer"])
    namespace: str = Field(description="Its namespace.", examples=["runtime-instance"])
    spec_name: str = Field(description="Its GPU spec.", examples=["g1.1"])
    image: str | None = Field(description="The image; null: the reservation image.")
    cpu: str | None = Field(description="CPU of its pod.", examples=["8"])
    memory: str | None = Field(description="Memory of its pod.", examples=["64Gi"])
    gpu: int = Field(description="GPUs of its pod.", examples=[1])
    placement: dict[str, Any] | None = Field(description="nodeSelector and tolerations.")
    phase: UnitPhase = Field(description="How it is doing.", examples=["Ready"])
    reason: str = Field(description="Why, as a word.", examples=["UnitReady"])
    message: str = Field(description="Why, in the cluster's own words.")
    cause: StartupCause | None = Field(
        description="What keeps a pod from running or from being ready; null if nothing does.",
        examples=["ImagePullFailed"],
    )
    ready_replicas: int = Field(description="Pods that are ready: 0 or 1.", examples=[1])
    conditions: list[ConditionReply]
    generation: int = Field(description="Generation of what is wanted.", examples=[1])
    observed_generation: int = Field(description="Generation that phase and conditions speak of.")
    uid: str | None = Field(description="UID of the resource; null until it is made.")
    created_at: datetime = Field(description="When it was asked for.")
    deletion_timestamp: datetime | None = Field(description="When its deletion was asked for.")
    last_sync_time: datetime | None = Field(description="When it was last copied.")
    operation_id: str | None = Field(
        description="The operation that made it; null for one made with kubectl."
    )


class GpuUnitReply(MirrorReply):
    """A GPU unit in use: what is wanted, and what is."""

    lifecycle: str = Field(description="Always `instance`: stock is not shown here.")
    source_stock_name: str | None = Field(
        description="The stock unit that it took over; null without one."
    )
    source_stock_namespace: str | None = Field(
        description="Where that was.", examples=["runtime-stock"]
    )
    template: dict[str, Any] | None = Field(description="Command, args, envs and ports.")
    access: AccessReply = Field(description="How it is reached.")
    suspended: bool = Field(description="Whether it is to be stopped.", examples=[False])
    service_name: str | None = Field(
        description="Its Service; null without ports.", examples=["unit-trainer"]
    )
    access_url: str | None = Field(
        description="Where it answers in the cluster; null until that is known.",
        examples=["http://unit-trainer.runtime-instance.svc.cluster.local:8080"],
    )

    @classmethod
    def of(cls, unit: GpuUnit) -> Self:
        """Return the reply for the row of an active unit."""
        return cls(
            **_shared(unit),
            lifecycle=_LIFECYCLE,
            source_stock_name=unit.source_name or None,
            source_stock_namespace=STOCK_NAMESPACE if unit.source_name else None,
            template=_block(unit, "template"),
            access=_access(unit.spec),
            suspended=unit.is_suspended,
            service_name=unit.service_name or None,
            access_url=unit.access_url or None,
        )


class StockUnitReply(MirrorReply):
    """A stock unit: capacity held ready."""

    state: StockState = Field(description="How it stands.", examples=["ready"])
    ordinal: int | None = Field(description="Which one of its seeding, from 1.", examples=[1])
    claimed_by: str | None = Field(
        description="The operationID of the open operation that it is set aside for."
    )
    consumed_by: str | None = Field(description="UID of the unit that took its GPU.")
    consumed_at: datetime | None = Field(description="When that was.")

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
    """One change of a unit's phase or reason."""

    at: datetime = Field(description="When it changed.")
    phase: str = Field(description="The phase from then on.", examples=["Ready"])
    reason: str = Field(description="Why, as a word.", examples=["UnitReady"])
    message: str = Field(description="Why, for people.")
    cause: StartupCause | None = Field(
        description="What keeps a pod from running or from being ready; null if nothing does.",
        examples=["ImagePullFailed"],
    )
    operation_id: str | None = Field(description="The operation that caused it, if one did.")

    @classmethod
    def of(cls, row: UnitHistory) -> Self:
        """Return the reply for a row."""
        return cls(
            at=row.at,
            phase=row.phase,
            reason=row.reason,
            message=row.message,
            cause=StartupCause(row.cause) if row.cause else None,
            operation_id=row.operation.operation_id if row.operation else None,
        )


class EventReply(Reply):
    """What the cluster said about a unit or something that it owns."""

    type: str = Field(description="Normal or Warning.", examples=["Warning"])
    reason: str = Field(description="What happened, as a word.", examples=["Failed"])
    message: str = Field(description="The same for people.")
    count: int = Field(description="How often it was said.", examples=[3])
    object_kind: str = Field(description="Kind of the object.", examples=["Pod"])
    object_name: str = Field(description="Name of the object.", examples=["unit-trainer-6d9c-x2"])
    source: str = Field(description="Who said it.", examples=["kubelet"])
    first_seen: str | None = Field(description="When it was said first.")
    last_seen: str | None = Field(description="When it was said last.")


def _shared(unit: GpuUnit) -> dict[str, Any]:
    return {
        "name": unit.name,
        "namespace": unit.namespace,
        "spec_name": unit.spec_name,
        "image": _text(unit.spec, "image"),
        "cpu": _text(unit.spec, "cpu"),
        "memory": _text(unit.spec, "memory"),
        "gpu": unit.gpu,
        "placement": _block(unit, "placement"),
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
    """Return what applies: the first port and http, where nothing else was asked for."""
    ports = items(spec, "template", "ports")
    first = _text(ports[0], "name") if ports else None
    return AccessReply(
        primary_port=_text(spec, "access", "primaryPort") or first,
        scheme=_text(spec, "access", "scheme") or DEFAULT_SCHEME,
    )


def _block(unit: GpuUnit, key: str) -> dict[str, Any] | None:
    """Return a block of the spec, which anybody may have written."""
    found = field(unit.spec, key)
    return found if isinstance(found, dict) else None


def _text(value: Any, *path: str) -> str | None:
    found = field(value, *path)
    return found if isinstance(found, str) else None
