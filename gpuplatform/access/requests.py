"""Request bodies of the routes of members and tokens."""

from datetime import datetime
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field
from typing_extensions import override

from gpuplatform import clock
from gpuplatform.formats.request import OperationBody
from gpuplatform.formats.text import quoted
from gpuplatform.tenancy.permissions import Role, Scope

NAME_MAX: Final = 63
_USERNAME_MAX: Final = 150


def _one_of(values: list[str], text: str) -> str:
    if text not in values:
        msg = f"{quoted(text)} is not supported. Use one of: {', '.join(values)}."
        raise ValueError(msg)
    return text


def _role(text: str) -> str:
    return _one_of(Role.values, text)


def _scope(text: str) -> str:
    return _one_of(Scope.values, text)


def _some(scopes: tuple[str, ...]) -> tuple[str, ...]:
    if not scopes:
        msg = "Must contain at least one scope."
        raise ValueError(msg)
    return scopes


def _token_name(text: str) -> str:
    if not text.strip() or not text.isprintable() or "/" in text:
        msg = "Must consist of 1 to 63 printable characters without a slash."
        raise ValueError(msg)
    return text


def _moment(text: str) -> str:
    try:
        clock.parse_rfc3339(text)
    except (ValueError, OverflowError) as error:
        msg = "Must be a time such as '2027-01-31T12:00:00Z'."
        raise ValueError(msg) from error
    return text


class MemberBody(OperationBody):
    """The role of a member."""

    role: Annotated[
        str, AfterValidator(_role), Field(json_schema_extra={"enum": list(Role.values)})
    ] = Field(description="Role in the tenant.", examples=[Role.MEMBER.value])


class TokenCreate(OperationBody):
    """A new token."""

    name: Annotated[
        str,
        Field(min_length=1, max_length=NAME_MAX, description="Name, unique within the tenant."),
        AfterValidator(_token_name),
    ] = Field(examples=["ci"])
    scopes: Annotated[
        tuple[
            Annotated[
                str, AfterValidator(_scope), Field(json_schema_extra={"enum": list(Scope.values)})
            ],
            ...,
        ],
        Field(strict=False, max_length=len(Scope), json_schema_extra={"minItems": 1}),
        AfterValidator(_some),
    ] = Field(description="At most the permissions of the caller.", examples=[[Scope.READ.value]])
    expires_at: (
        Annotated[str, AfterValidator(_moment), Field(json_schema_extra={"format": "date-time"})]
        | None
    ) = Field(default=None, alias="expiresAt", description="Omit it for no expiry.")
    owner: Annotated[str, Field(min_length=1, max_length=_USERNAME_MAX)] | None = Field(
        default=None,
        description="Username of the member who owns the token; only for admins. By default, the"
        " owner of the token of the request. For admins, the token has no owner by default.",
    )

    @property
    def expiry(self) -> datetime | None:
        """The time at which the token expires."""
        return clock.parse_rfc3339(self.expires_at) if self.expires_at else None

    @override
    def payload(self) -> dict[str, Any]:
        """Return the hashed fields; the order of the scopes has no effect."""
        return {**super().payload(), "scopes": sorted(set(self.scopes))}
