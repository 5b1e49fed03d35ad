"""Outside development mode, every request requires a token with a scope for its route."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from pytest_django import Settings

from gpuplatform import clock
from gpuplatform.tenancy.models import ApiToken, Scope, Tenant
from gpuplatform.tenancy.selectors import tenant_by_name
from gpuplatform.tenancy.services import token_create, token_revoke, token_used

JOBS = "/api/v1/operator/jobs"
OPEN = {"/api/v1/", "/api/v1/health", "/api/v1/schema"}
"""Paths without a token: health must work without the database; root and document are public."""
SIGNED = "/api/v1/serverless/invocations/1/result"
"""A link that is valid for ten minutes; its signature replaces a token."""
FOR_OPERATORS = ("/api/v1/operator/", "/api/v1/serverless/invocations/1/replay")
OF_EACH_TOKEN = {"/api/v1/me", "/api/v1/tokens", "/api/v1/tokens/1"}
"""Paths for tokens with any scope."""
OF_ADMINS = {"/api/v1/tenant/members/1"}
SAMPLES = {"name": "a", "operation_id": "op-1"}


@pytest.fixture
def guarded(settings: Settings) -> None:
    settings.GPUPLATFORM_DEV = False
    settings.ALLOWED_HOSTS = ["testserver"]


@pytest.fixture
def client() -> Client:
    return Client(raise_request_exception=False)


def _secret(*scopes: Scope, tenant: Tenant | None = None, name: str = "ci") -> str:
    return token_create(tenant=tenant or tenant_by_name(), name=name, scopes=scopes)[1]


def _bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


def _api_paths() -> Iterator[str]:
    def walk(patterns: list[URLPattern | URLResolver], before: str) -> Iterator[str]:
        for pattern in patterns:
            here = before + str(pattern.pattern)
            if isinstance(pattern, URLResolver):
                yield from walk(pattern.url_patterns, here)
            elif here.startswith("api/v1/"):
                yield "/" + _filled(here)

    return walk(get_resolver().url_patterns, "")


def _filled(route: str) -> str:
    parts = route.split("<")
    return parts[0] + "".join(
        SAMPLES.get(part.split(">")[0].split(":")[-1], "1") + part.split(">")[1]
        for part in parts[1:]
    )


GUARDED = sorted(set(_api_paths()) - OPEN - {SIGNED})


def test_the_walk_finds_the_routes() -> None:
    assert {JOBS, f"{JOBS}/op-1", "/api/v1/operations/op-1"} <= set(GUARDED)
    assert SIGNED in set(_api_paths())


@pytest.mark.django_db
@pytest.mark.usefixtures("guarded")
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("path", GUARDED)
def test_every_route_requires_a_token(client: Client, path: str, method: str) -> None:
    answer = client.generic(method, path, b"{}", "application/json")

    assert answer.status_code == 401
    assert answer.json()["error"]["code"] == "unauthenticated"
    assert answer.headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.django_db
@pytest.mark.usefixtures("guarded")
@pytest.mark.parametrize("path", sorted(set(GUARDED) - OF_EACH_TOKEN - OF_ADMINS))
def test_each_route_accepts_the_scope_of_its_address_only(client: Client, path: str) -> None:
    mine, other = (Scope.USER, Scope.OPERATOR)
    if path.startswith(FOR_OPERATORS):
        mine, other = other, mine
    right, wrong = _secret(mine, name="right"), _secret(other, name="wrong")

    assert client.get(path, headers=_bearer(wrong)).status_code == 403
    assert client.get(path, headers=_bearer(right)).status_code in {200, 400, 404, 405}


@pytest.mark.django_db
@pytest.mark.usefixtures("guarded")
@pytest.mark.parametrize("before", ["/x", "/api/v1/serverless", "/api/v1/operator"])
def test_a_prefix_of_the_address_does_not_change_the_scope(client: Client, before: str) -> None:
    user = _secret(Scope.USER)

    for path in filter(lambda path: path.startswith(FOR_OPERATORS), GUARDED):
        assert client.get(path, headers=_bearer(user), SCRIPT_NAME=before).status_code == 403
    units = client.get("/api/v1/gpu-units", headers=_bearer(user), SCRIPT_NAME=before)
    assert units.status_code == 200


@pytest.mark.django_db
@pytest.mark.usefixtures("guarded")
@pytest.mark.parametrize(
    "header",
    [
        "Bearer",
        "Bearer ",
        "Bearer gpu_wrong",
        "Bearer a b",
        "Basic YTpi",
        "Token gpu_wrong",
        "Bearer \u00e4\u00f6",
        "Bearer " + "x" * 6000,
    ],
)
def test_an_invalid_token_is_rejected(client: Client, header: str) -> None:
    answer = client.get(JOBS, headers={"Authorization": header})

    assert answer.status_code == 401
    assert answer.json()["error"]["code"] == "unauthenticated"


@pytest.mark.django_db
@pytest.mark.usefixtures("guarded")
def test_a_token_ends_by_expiry_and_by_revocation(client: Client) -> None:
    soon = clock.now() + timedelta(hours=1)
    token, secret = token_create(
        tenant=tenant_by_name(), name="short", scopes=[Scope.OPERATOR], expires_at=soon
    )
    assert client.get(JOBS, headers=_bearer(secret)).status_code == 200

    ApiToken.objects.update(expires_at=clock.now() - timedelta(seconds=1))
    assert client.get(JOBS, headers=_bearer(secret)).status_code == 401

    ApiToken.objects.update(expires_at=None)
    assert client.get(JOBS, headers=_bearer(secret)).status_code == 200
    assert token_revoke(token)
    assert client.get(JOBS, headers=_bearer(secret)).status_code == 401
    assert not token_revoke(token)


@pytest.mark.django_db
def test_an_invalid_token_is_rejected_in_development_mode_too(client: Client) -> None:
    assert client.get(JOBS).status_code == 200
    assert client.get(JOBS, headers=_bearer("gpu_wrong")).status_code == 401
    assert client.get(JOBS, REMOTE_ADDR="10.0.0.1").status_code == 401


@pytest.mark.django_db
@pytest.mark.usefixtures("guarded", "catalogue", "cluster", "broker")
def test_a_token_sees_its_own_tenant(client: Client) -> None:
    other = Tenant.objects.create(name="other", namespace="tenant-other")
    pool = {"operationID": "op-1", "name": "a", "specName": "g1.1", "replicas": 1}
    here, there = _secret(Scope.OPERATOR), _secret(Scope.OPERATOR, tenant=other)
    client.post("/api/v1/operator/stockpools", pool, "application/json", headers=_bearer(here))

    assert client.get(f"{JOBS}/op-1", headers=_bearer(here)).status_code == 200
    assert client.get(f"{JOBS}/op-1", headers=_bearer(there)).status_code == 404
    requested = client.get(f"{JOBS}/op-1", {"tenant": "default"}, headers=_bearer(there))
    assert requested.status_code == 200


@pytest.mark.django_db
def test_only_the_digest_is_stored_and_the_use_is_recorded_once_a_minute() -> None:
    token, secret = token_create(tenant=tenant_by_name(), name="ci", scopes=[Scope.USER])
    kept = ApiToken.objects.values().get(pk=token.pk)
    assert not any(secret in str(value) for value in kept.values())

    assert token_used(secret) == token
    noted = ApiToken.objects.get(pk=token.pk).last_used_at
    assert noted is not None
    token_used(secret)
    assert ApiToken.objects.get(pk=token.pk).last_used_at == noted
