"""Response models of the routes of the audit log."""

from typing import Any, Self

from pydantic import Field

from gpuplatform.api.schema import Reply
from gpuplatform.audit.exports import entry_fields
from gpuplatform.audit.models import AuditEntry, Outcome
from gpuplatform.tenancy.actor import ActorKind


class AuditEntryReply(Reply):
    """An entry of the audit log."""

    id: int = Field(description="Id of the entry.", examples=[4711])
    at: str = Field(
        description="Time of the entry.", examples=["2026-12-01T10:00:00.000000+00:00"]
    )
    actor_kind: ActorKind = Field(description="Kind of the actor.", examples=["token"])
    actor_id: str = Field(description="Id of the token or user.", examples=["17"])
    actor: str = Field(description="Name of the actor.", examples=["token 'ci'"])
    tenant: str = Field(description="Tenant of the object.", examples=["default"])
    address: str = Field(
        description="Address of the client, as trusted proxies forwarded it.",
        examples=["203.0.113.7"],
    )
    trace_id: str = Field(description="The traceID of the request.", examples=["5f0c1e7a"])
    verb: str = Field(description="The requested action.", examples=["create"])
    object_kind: str = Field(description="Kind of the object.", examples=["GPUUnit"])
    object_namespace: str = Field(
        description="Namespace of the object.", examples=["runtime-instance"]
    )
    object_name: str = Field(description="Name of the object.", examples=["trainer"])
    object_uid: str = Field(
        alias="objectUID", description="UID of the object, if it had one.", examples=[""]
    )
    operation_id: str = Field(
        description="The operationID, if the request is an operation.",
        examples=["create-gpu-unit-1"],
    )
    outcome: Outcome = Field(description="What became of the request.", examples=["accepted"])
    code: str = Field(description="Error code of a rejected request.", examples=[""])
    changes: list[dict[str, Any]] = Field(
        description="Changed fields with the earlier value in `from` and the new one in `to`."
        " Values that can be secret are `(hidden)`.",
        examples=[[{"field": "replicas", "from": 1, "to": 2}]],
    )

    @classmethod
    def of(cls, row: AuditEntry) -> Self:
        """Return the response for an entry."""
        return cls.model_validate(entry_fields(row))
