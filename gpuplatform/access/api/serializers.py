"""Response models of members, tokens and the caller."""

from datetime import datetime
from typing import Final, Self

from pydantic import Field
from pydantic.config import JsonDict

from gpuplatform.api.schema import Reply
from gpuplatform.tenancy.callers import Caller
from gpuplatform.tenancy.models import ApiToken, Membership, member_name
from gpuplatform.tenancy.permissions import Permission, Role, Scope
from gpuplatform.tenancy.selectors import role_of

_SCOPES: Final[JsonDict] = {"items": {"type": "string", "enum": [*map(str, Scope.values)]}}


class MemberReply(Reply):
    """A member of a tenant."""

    name: str = Field(
        description="Username, or `group:` and the name of a group of the identity provider.",
        examples=["ada"],
    )
    role: str = Field(examples=["member"], json_schema_extra={"enum": list(Role.values)})
    created_at: datetime

    @classmethod
    def of(cls, row: Membership) -> Self:
        """Return the response for a membership."""
        return cls(name=member_name(row), role=row.role, created_at=row.created_at)


class TokenReply(Reply):
    """An API token."""

    name: str = Field(examples=["ci"])
    scopes: list[str] = Field(examples=[["read"]], json_schema_extra=_SCOPES)
    owner: str | None = Field(description="Username; null if the token has no owner.")
    hint: str = Field(description="First characters of the secret.", examples=["gpu_0123"])
    token: str | None = Field(
        default=None,
        description="The secret, only in the first response to its creation.",
        examples=[None],
    )
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None

    @classmethod
    def of(cls, row: ApiToken, secret: str | None = None) -> Self:
        """Return the response for a token, with its secret if it was just created."""
        columns = cls.model_fields.keys() - {"owner", "token"}
        return cls(
            **{name: getattr(row, name) for name in columns},
            owner=row.owner.get_username() if row.owner else None,
            token=secret,
        )


class MeReply(Reply):
    """The caller and its permissions."""

    tenant: str = Field(examples=["default"])
    user: str | None = Field(description="Owner of the token; null if it has none.")
    role: str | None = Field(description="Role of the owner; null if the token has no owner.")
    token: str | None = Field(description="Name of the token; null without one.", examples=["ci"])
    scopes: list[str] = Field(examples=[["read"]], json_schema_extra=_SCOPES)
    permissions: list[str] = Field(
        description="Permissions of the scopes within the role, as in `x-permission`.",
        examples=[["read", "token"]],
    )
    expires_at: datetime | None

    @classmethod
    def of(cls, caller: Caller) -> Self:
        """Return the response for a caller."""
        token = caller.token
        owner = token.owner if token else None
        return cls(
            tenant=caller.tenant.name,
            user=owner.get_username() if owner else None,
            role=role_of(owner, caller.tenant) if owner else None,
            token=token.name if token else None,
            scopes=sorted(token.scopes) if token else [],
            permissions=sorted(caller.permissions - {Permission.PUBLIC}),
            expires_at=token.expires_at if token else None,
        )
