"""The OpenID Connect provider with which users log in to the admin."""

from dataclasses import dataclass, field
from typing import Final, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator
from pydantic_settings import BaseSettings

_STAFF_GROUPS: Final = ("viewer", "operator", "admin")
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})


@dataclass(frozen=True, slots=True)
class Provider:
    """The provider and the client of the platform."""

    issuer: str
    client_id: str
    client_secret: str = field(repr=False)
    scopes: str
    groups_claim: str
    staff_groups: tuple[tuple[str, str], ...]
    """Groups of the provider, each with the group of the admin that its users join."""


def checked_issuer(url: str) -> str:
    """Return the URL of an issuer if it is one. A loopback address may use plain HTTP.

    Raises:
        ValueError: If it is not the URL of an issuer.
    """
    try:
        parts = urlsplit(url)
        schemes = {"http", "https"} if parts.hostname in _LOOPBACK else {"https"}
        is_valid = parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
        is_valid = is_valid and not (parts.query or parts.fragment or parts.username)
    except ValueError:
        is_valid = False
    if url and not is_valid:
        msg = "must have the form https://host/path"
        raise ValueError(msg)
    return url


def staff_groups(text: str) -> tuple[tuple[str, str], ...]:
    """Return the pairs of groups in a text such as `gpu-ops=operator,gpu-admins=admin`.

    Raises:
        ValueError: If a pair is malformed or names another group of the admin.
    """
    found = []
    for part in filter(None, (one.strip() for one in text.split(","))):
        group, _, staff_group = part.rpartition("=")
        if not group.strip() or staff_group.strip() not in _STAFF_GROUPS:
            msg = f"{part!r} must have the form GROUP=viewer, GROUP=operator or GROUP=admin"
            raise ValueError(msg)
        found.append((group.strip(), staff_group.strip()))
    return tuple(found)


class OidcSettings(BaseSettings):
    """The settings of the login through OpenID Connect, a part of `Environment`."""

    gpuplatform_oidc_issuer: str = Field(
        default="",
        description="URL of the OpenID Connect provider for the login to the admin. Without it,"
        " only local accounts can log in.",
    )
    gpuplatform_oidc_client_id: str = Field(
        default="", description="Client ID of the platform at the OpenID Connect provider."
    )
    gpuplatform_oidc_client_secret: str = Field(
        default="",
        description="Client secret of the platform at the OpenID Connect provider.",
        json_schema_extra={"secret": True},
    )
    gpuplatform_oidc_scopes: str = Field(
        default="openid profile email",
        description="Scopes that the login requests, separated by spaces. Some providers add the"
        " groups only with a further scope, such as 'groups'.",
    )
    gpuplatform_oidc_groups_claim: str = Field(
        default="groups", description="Claim of the ID token with the groups of the user."
    )
    gpuplatform_oidc_staff_groups: str = Field(
        default="",
        description="Groups of the provider whose users join a group of the admin at login, such"
        " as 'gpu-ops=operator,gpu-admins=admin'.",
    )

    @field_validator("gpuplatform_oidc_issuer")
    @classmethod
    def _is_issuer(cls, url: str) -> str:
        return checked_issuer(url)

    @field_validator("gpuplatform_oidc_staff_groups")
    @classmethod
    def _are_staff_groups(cls, text: str) -> str:
        staff_groups(text)
        return text

    @model_validator(mode="after")
    def _has_client(self) -> Self:
        """Require the client of a configured provider."""
        client = (self.gpuplatform_oidc_client_id, self.gpuplatform_oidc_client_secret)
        if self.gpuplatform_oidc_issuer and not all(client):
            msg = "GPUPLATFORM_OIDC_ISSUER requires GPUPLATFORM_OIDC_CLIENT_ID and _CLIENT_SECRET"
            raise ValueError(msg)
        return self

    @property
    def oidc(self) -> Provider | None:
        """The OpenID Connect provider, or `None` if none is configured."""
        if not self.gpuplatform_oidc_issuer:
            return None
        return Provider(
            issuer=self.gpuplatform_oidc_issuer,
            client_id=self.gpuplatform_oidc_client_id,
            client_secret=self.gpuplatform_oidc_client_secret,
            scopes=self.gpuplatform_oidc_scopes,
            groups_claim=self.gpuplatform_oidc_groups_claim,
            staff_groups=staff_groups(self.gpuplatform_oidc_staff_groups),
        )
