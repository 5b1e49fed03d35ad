"""Limits the rate of requests of each token, tenant and address.

`ApiView` calls the throttle after the authentication and before everything else, so that rejected
requests count and no body is parsed. A replay counts like any request.
"""

from typing import TYPE_CHECKING, Final

from django.conf import settings
from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle
from typing_extensions import override

from gpuplatform.api.rate_headers import RATE_HEADERS_KEY
from gpuplatform.errors import RateLimited
from gpuplatform.formats.client_address import client_network, client_of
from gpuplatform.rates.counters import COUNTERS
from gpuplatform.rates.windows import Charge, Rate
from gpuplatform.tenancy.callers import Caller
from gpuplatform.tenancy.permissions import Permission

if TYPE_CHECKING:
    # DRF's views read the settings that name this module, so they cannot be imported from here.
    from rest_framework.views import APIView

_INVOCATIONS: Final = "invocations"
"""The route that accepts invocations."""


class RequestThrottle(BaseThrottle):
    """The throttle of all API views."""

    @override
    def allow_request(self, request: Request, view: "APIView") -> bool:
        """Count the request, and return true.

        Raises:
            RateLimited: If the rate of the caller does not allow the request.
        """
        charges = charges_of(request)
        if not charges:
            return True
        found = COUNTERS.get().take(charges)
        request.META[RATE_HEADERS_KEY] = found.headers()
        if not found.is_allowed:
            seconds = found.retry_after
            msg = f"Too many requests. Retry in {seconds} second{'s' * (seconds != 1)}."
            raise RateLimited(msg, retry_after=seconds)
        return True


def charges_of(request: Request) -> list[Charge]:
    """Return the charges of a request. It is unlimited if there are none.

    Requests with a token count for the token and its tenant, or for the token alone if it is an
    operator's. Requests without a valid token, and public ones, count for the address. Local
    callers without a token in development mode are unlimited.
    """
    caller, rates = request.auth, settings.RATES
    if not isinstance(caller, Caller):
        return _charges(("address", rates.address, _address(request)))
    token = caller.token
    if token is None:
        return []
    if caller.may(Permission.OPERATOR):
        return _charges(("operator", rates.operator, token.pk))
    if request.method in SAFE_METHODS:
        kind, of_token, of_tenant = "reads", rates.token_reads, rates.tenant_reads
    elif _is_invocation(request):
        kind = "invocations"
        of_token, of_tenant = rates.token_invocations, rates.tenant_invocations
    else:
        kind, of_token, of_tenant = "writes", rates.token_writes, rates.tenant_writes
    return _charges(
        (f"token-{kind}", of_token, token.pk), (f"tenant-{kind}", of_tenant, token.tenant_id)
    )


def _charges(*limits: tuple[str, int, object]) -> list[Charge]:
    """Return the charges of limited callers: the policy, the rate per second and the caller."""
    seconds: int = settings.RATES.burst_seconds
    return [
        Charge(Rate(policy, rate * seconds, seconds), str(caller))
        for policy, rate, caller in limits
        if rate
    ]


def _is_invocation(request: Request) -> bool:
    match = request.resolver_match
    return match is not None and match.url_name == _INVOCATIONS


def _address(request: Request) -> str:
    """Return the address of the client, for IPv6 its network."""
    return client_network(client_of(request.META, settings.TRUSTED_PROXIES))
