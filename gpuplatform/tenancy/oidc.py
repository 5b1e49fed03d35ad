"""Verifies logins through OpenID Connect, with the authorization code flow and PKCE.

Sources: OpenID Connect Core 1.0, section 3.1, and RFC 7636. Authlib checks the state, and the
signature, the issuer, the audience, the expiry and the nonce of the ID token.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from authlib.integrations.base_client.errors import OAuthError
from authlib.integrations.django_client import DjangoIntegration, DjangoOAuth2App
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from joserfc.errors import JoseError
from requests.exceptions import RequestException

from gpuplatform.settings.oidc import Provider

_NAME: Final = "oidc"
_SECONDS: Final = 5
"""Time limit of each request to the provider."""
_LEEWAY_SECONDS: Final = 60
"""Tolerated difference between the clocks."""
_ALGORITHMS: Final = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
)
"""Accepted signatures. They are asymmetric, so that only the provider can sign."""
_FAILURES: Final = (
    *(OAuthError, JoseError, RequestException),
    *(ValueError, RuntimeError, TypeError, KeyError, AttributeError),
)
"""What Authlib raises if the provider is unavailable, misconfigured or responds incorrectly."""


class LoginFailed(Exception):
    """The provider is unavailable, or its response is not valid. The log contains the cause."""


@dataclass(frozen=True, slots=True)
class Claims:
    """The verified claims about a user."""

    issuer: str
    subject: str
    username: str
    """Preferred username, which can already be in use. Empty if it is unknown."""
    email: str
    groups: tuple[str, ...]


def redirect_to_provider(
    provider: Provider, request: HttpRequest, callback: str
) -> HttpResponseBase:
    """Return the redirect to the login page of the provider, and store the state in the session.

    Raises:
        LoginFailed: If the provider is unavailable.
    """
    try:
        _check_metadata(provider)
        response: HttpResponseBase = _app(provider).authorize_redirect(request, callback)
    except _FAILURES as error:
        raise LoginFailed(repr(error)) from error
    return response


def verified_claims(provider: Provider, request: HttpRequest) -> Claims:
    """Return the claims of the user whom the provider redirected back.

    Raises:
        LoginFailed: If the state is unknown, or the ID token is missing or not valid.
    """
    options = {
        "iss": {"essential": True, "value": provider.issuer},
        "aud": {"essential": True, "value": provider.client_id},
    }
    try:
        _check_metadata(provider)
        token = _app(provider).authorize_access_token(
            request, claims_options=options, leeway=_LEEWAY_SECONDS
        )
    except _FAILURES as error:
        raise LoginFailed(repr(error)) from error
    if "userinfo" not in token:
        msg = "the response contains no ID token"
        raise LoginFailed(msg)
    return _claims(provider, token["userinfo"])


@cache
def _app(provider: Provider) -> Any:
    """Return the client, which keeps the metadata and the keys of the provider."""
    return DjangoOAuth2App(
        DjangoIntegration(_NAME),
        name=_NAME,
        client_id=provider.client_id,
        client_secret=provider.client_secret,
        server_metadata_url=f"{provider.issuer.rstrip('/')}/.well-known/openid-configuration",
        client_kwargs={
            "scope": provider.scopes,
            "code_challenge_method": "S256",
            "default_timeout": _SECONDS,
        },
    )


def _check_metadata(provider: Provider) -> None:
    """Check the issuer in the metadata, and restrict the accepted signatures.

    A provider can declare `none`, or signatures with a shared secret.
    """
    metadata = _app(provider).load_server_metadata()
    if metadata.get("issuer") != provider.issuer:
        msg = f"the metadata names the issuer {metadata.get('issuer')!r}"
        raise LoginFailed(msg)
    metadata["id_token_signing_alg_values_supported"] = list(_ALGORITHMS)


def _claims(provider: Provider, found: Mapping[str, Any]) -> Claims:
    subject = found.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= 255:
        msg = "the subject is not valid"
        raise LoginFailed(msg)
    groups = found.get(provider.groups_claim)
    return Claims(
        issuer=provider.issuer,
        subject=subject,
        username=_text(found.get("preferred_username")) or _text(found.get("email")),
        email=_text(found.get("email")),
        groups=tuple(_text(one) for one in groups) if isinstance(groups, list) else (),
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) and "\x00" not in value else ""
