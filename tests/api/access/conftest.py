"""A client in production, which sends a token, the broker, and two tenants with objects."""

from collections.abc import Mapping
from typing import Any

import pytest
from pytest_django import Settings

from gpuplatform.clock import now
from gpuplatform.tenancy.models import Tenant
from gpuplatform.tenancy.permissions import Role, Scope
from serverless.models import Invocation
from serverless.phases import InvocationState
from serverless.requests import WebhookSecretCreate
from serverless.services.webhook_secrets import webhook_secret_create
from tests.api.access.matrix import CANARY, HOOK, NAME, SECRET
from tests.factories.people import api_of, member
from tests.factories.serverless import accept, function_row
from tests.factories.unit_rows import unit_row
from tests.fakes.installed import broker, catalogue, cluster

__all__ = ["broker", "catalogue", "cluster"]


@pytest.fixture(autouse=True)
def _guarded(settings: Settings) -> None:
    settings.GPUPLATFORM_DEV = False
    settings.ALLOWED_HOSTS = ["testserver"]


@pytest.fixture
def alpha(db: None) -> Tenant:
    return Tenant.objects.create(name="alpha", namespace="tenant-alpha")


@pytest.fixture
def beta(db: None) -> Tenant:
    return Tenant.objects.create(name="beta", namespace="tenant-beta")


@pytest.fixture
def objects(alpha: Tenant, cluster: object, broker: object) -> None:
    """One object of each kind of the tenant alpha, all with the same name."""
    template = {"envs": [{"name": "CANARY", "value": SECRET}], "ports": []}
    spec = {"specName": "g1.1", "image": f"{CANARY}:1", "gpu": 1, "template": template}
    place: Mapping[str, Any] = {"tenant": alpha, "namespace": alpha.namespace, "spec": spec}
    unit_row(name=NAME, image=f"{CANARY}:1", message=CANARY, **place)
    group = {"name": NAME, "rank": 0, "size": 1}
    unit_row(
        name=f"{NAME}-0",
        group_name=NAME,
        group_rank=0,
        **{**place, "spec": {**spec, "group": group}},
    )
    function = function_row(NAME, tenant=alpha, template=template, onDone={"url": HOOK})
    webhook_secret_create(tenant=alpha, request_id=NAME, body=WebhookSecretCreate.parse({}))
    type(function.operation).objects.filter(pk=function.operation_id).update(operation_id=NAME)
    invocation = accept(function, SECRET, invocationID=NAME)
    Invocation.objects.filter(pk=invocation.pk).update(
        state=InvocationState.SUCCEEDED,
        completed_at=now(),
        status_code=200,
        result_body=SECRET.encode(),
        result_bytes=len(SECRET),
        result_headers={"x-canary": SECRET},
        result_content_type="text/plain",
        on_done_url=HOOK,
    )
    member(alpha, NAME, Role.VIEWER)
    api_of(alpha, Scope.READ, name=NAME)
