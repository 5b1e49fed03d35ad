"""The pages of the login to the admin through OpenID Connect."""

import logging
from typing import Final

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import login
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from gpuplatform.adminkit.site.login_log import LogIn, record_login
from gpuplatform.formats.client_address import client_of
from gpuplatform.settings.oidc import Provider
from gpuplatform.tenancy.identities import identity_login
from gpuplatform.tenancy.oidc import LoginFailed, redirect_to_provider, verified_claims

logger = logging.getLogger(__name__)

_BACKEND: Final = "django.contrib.auth.backends.ModelBackend"
_NEXT: Final = "oidc_next"
"""The key of the session with the page that the user opens after the login."""


@never_cache
@require_GET
def oidc_start(request: HttpRequest) -> HttpResponseBase:
    """Redirect to the login page of the provider."""
    provider = _provider()
    request.session[_NEXT] = _safe(request, request.GET.get("next", ""))
    path = reverse("oidc-callback")
    scheme = "http" if settings.GPUPLATFORM_DEV else "https"
    try:
        return redirect_to_provider(provider, request, f"{scheme}://{request.get_host()}{path}")
    except LoginFailed as error:
        logger.warning("the OpenID Connect provider cannot be used: %s", error)
        return _rejected(request, "The login provider does not respond. Try again later.")


@never_cache
@require_GET
def oidc_callback(request: HttpRequest) -> HttpResponse:
    """Log in the user whom the provider redirected back."""
    provider = _provider()
    try:
        claims = verified_claims(provider, request)
    except LoginFailed as error:
        logger.warning("login through OpenID Connect rejected: %s", error)
        record_login(LogIn.FAILED, "", _client(request))
        return _rejected(request, "The login was not successful. Try again.")
    user = identity_login(claims, provider.staff_groups)
    if not user.is_active or not user.is_staff:
        logger.warning("login through OpenID Connect: user '%s' has no access", user.username)
        record_login(LogIn.FAILED, user.username, _client(request))
        return _rejected(
            request,
            f"The account '{user.username}' has no access to the admin. Ask an administrator to"
            " add it to a group.",
        )
    address = _safe(request, request.session.pop(_NEXT, ""))
    login(request, user, backend=_BACKEND)
    record_login(LogIn.SUCCEEDED, user.username, _client(request))
    return HttpResponseRedirect(address or reverse("admin:index"))


def _provider() -> Provider:
    provider: Provider | None = settings.OIDC
    if provider is None:
        raise Http404
    return provider


def _client(request: HttpRequest) -> str:
    """Return the address of the client."""
    return client_of(request.META, settings.TRUSTED_PROXIES)


def _safe(request: HttpRequest, address: str) -> str:
    """Return an address of this site, or an empty string for any other address."""
    is_safe = url_has_allowed_host_and_scheme(address, allowed_hosts={request.get_host()})
    return address if is_safe else ""


def _rejected(request: HttpRequest, text: str) -> HttpResponse:
    messages.error(request, text)
    return HttpResponseRedirect(reverse("admin:login"))
