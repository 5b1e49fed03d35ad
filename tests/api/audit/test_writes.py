"""Each accepted write of each route has exactly one entry, without secret values.

The writes are generated from the resolver. A replay has no entry, and neither has a write that was
rolled back.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest
from django.test import Client
from django.urls import reverse

from gpuplatform.audit.models import AuditEntry, Outcome
from gpuplatform.clock import now
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OperationPhase
from gpuplatform.tenancy.models import Tenant
from gpuplatform.tenancy.permissions import Role, Scope
from inventory.models import NodeDrain, StockPool
from serverless.models import Invocation
from serverless.phases import InvocationState
from serverless.requests import WebhookSecretCreate
from serverless.services.webhook_secrets import webhook_secret_create
from tests.api.access.matrix import ROUTES, Route
from tests.factories.inventory import accept_create
from tests.factories.node_rows import node_row
from tests.factories.people import api_of, member
from tests.factories.serverless import accept, function_row
from tests.factories.unit_rows import spec_row, stock_row, unit_row
from units.models import GpuUnit
from units.phases import UnitPhase

CANARY: Final = "canary-secret"
NAME: Final = "trainer-0"
WRITES: Final = [route for route in ROUTES if route.method != "GET"]

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.usefixtures("cluster", "broker", "catalogue"),
]


@pytest.fixture
def tenant(db: None) -> Tenant:
    return Tenant.objects.create(name="alpha", namespace="tenant-alpha", max_priority=100)


@pytest.fixture
def client(tenant: Tenant) -> Client:
    return api_of(tenant, Scope.USER, Scope.ADMIN, Scope.OPERATOR, name="ci").client


def _unit(tenant: Tenant, **columns: Any) -> None:
    spec = {
        "specName": "g1.1",
        "image": "nginx:1",
        "gpu": 1,
        "template": {"envs": [{"name": "OLD", "value": CANARY}]},
    }
    place = {"tenant": tenant, "namespace": tenant.namespace, "name": NAME}
    unit_row(**{**place, "spec": spec, "generation": 1, **columns})


def _operation(tenant: Tenant, phase: OperationPhase, **columns: Any) -> None:
    function = function_row(tenant=tenant)
    rows = Operation.objects.filter(pk=function.operation_id)
    rows.update(operation_id=NAME, phase=phase, **columns)


def _open_operation(tenant: Tenant) -> None:
    pool = accept_create(name=NAME)
    rows = Operation.objects.filter(pk=pool.operation.pk)
    rows.update(operation_id=NAME, tenant=tenant)


def _failed_operation(tenant: Tenant) -> None:
    pool = accept_create(name=NAME)
    StockPool.objects.all().delete()
    Operation.objects.filter(pk=pool.operation.pk).update(
        operation_id=NAME,
        tenant=tenant,
        phase=OperationPhase.FAILED,
        error_code="conflict",
        error_retryable=True,
        due_at=None,
        ended_at=now(),
    )


def _invocation(tenant: Tenant, **columns: Any) -> None:
    invocation = accept(function_row(tenant=tenant), CANARY, invocationID=NAME)
    Invocation.objects.filter(pk=invocation.pk).update(**columns)


def _function(tenant: Tenant, name: str = NAME) -> None:
    hook = {"url": f"https://hooks.example.com/{CANARY}"}
    function_row(
        name, tenant=tenant, template={"envs": [{"name": "A", "value": CANARY}]}, onDone=hook
    )
    webhook_secret_create(tenant=tenant, request_id=name, body=WebhookSecretCreate.parse({}))


def _group(tenant: Tenant) -> None:
    place = {"name": NAME, "rank": 0, "size": 1}
    spec = {"specName": "g1.1", "image": "nginx:1", "gpu": 1, "group": place}
    _unit(tenant, name=f"{NAME}-0", group_name=NAME, group_rank=0, spec=spec)


def _stopped_group(tenant: Tenant) -> None:
    _group(tenant)
    GpuUnit.objects.filter(group_name=NAME).update(phase=UnitPhase.STOPPED, is_suspended=True)
    stock_row()


def _pool(_: Tenant) -> None:
    accept_create(name=NAME, template={"envs": [{"name": "OLD", "value": CANARY}]})
    StockPool.objects.update(uid="pool-uid", generation=1)


def _other_tenant(_: Tenant) -> None:
    Tenant.objects.create(name=NAME, namespace=f"tenant-{NAME}")


def _other_member(tenant: Tenant) -> None:
    _other_tenant(tenant)
    member(Tenant.objects.get(name=NAME), NAME, Role.VIEWER)


def _drain(_: Tenant) -> None:
    node_row(NAME)
    operation = accept_create().operation
    NodeDrain.objects.create(node=NAME, operation=operation)


def _stock(_: Tenant) -> None:
    for _number in range(8):
        stock_row()


BEFORE: Final[Mapping[tuple[str, str], Callable[[Tenant], object]]] = {
    ("token", "DELETE"): lambda tenant: api_of(tenant, Scope.READ, name=NAME),
    ("member", "PUT"): lambda tenant: member(tenant, NAME, Role.VIEWER),
    ("member", "DELETE"): lambda tenant: member(tenant, NAME, Role.VIEWER),
    ("gpu-units", "POST"): _stock,
    ("gpu-unit", "PUT"): _unit,
    ("gpu-unit", "DELETE"): _unit,
    ("gpu-unit-stop", "POST"): _unit,
    ("gpu-unit-start", "POST"): lambda tenant: _unit(
        tenant, phase=UnitPhase.STOPPED, is_suspended=True
    ),
    ("unit-groups", "POST"): _stock,
    ("unit-group", "DELETE"): _group,
    ("unit-group-stop", "POST"): _group,
    ("unit-group-start", "POST"): _stopped_group,
    ("function", "PUT"): _function,
    ("function", "DELETE"): _function,
    ("function-webhook-secret", "POST"): _function,
    ("invocations", "POST"): lambda tenant: _function(tenant, "greeter"),
    ("invocation-cancel", "POST"): _invocation,
    ("invocation-replay", "POST"): lambda tenant: _invocation(
        tenant, state=InvocationState.FAILED, completed_at=now(), failure_class="framework_error"
    ),
    ("job-cancel", "POST"): _open_operation,
    ("job-retry", "POST"): _failed_operation,
    ("stockpool", "PATCH"): _pool,
    ("stockpool", "DELETE"): _pool,
    ("gpu-spec", "PATCH"): lambda _: spec_row(NAME),
    ("gpu-spec", "DELETE"): lambda _: spec_row(NAME, is_enabled=False),
    ("stock-units", "DELETE"): _stock,
    ("stock-unit", "DELETE"): lambda _: stock_row(name=NAME),
    ("node-cordon", "POST"): lambda _: node_row(NAME),
    ("node-uncordon", "POST"): lambda _: node_row(NAME),
    ("node-drain", "POST"): lambda _: node_row(NAME),
    ("node-drain-cancel", "POST"): _drain,
    ("tenant", "PATCH"): _other_tenant,
    ("tenant", "DELETE"): _other_tenant,
    ("tenant-suspend", "POST"): _other_tenant,
    ("tenant-resume", "POST"): _other_tenant,
    ("tenant-limits", "PUT"): _other_tenant,
    ("tenant-member", "PUT"): _other_member,
    ("tenant-member", "DELETE"): _other_member,
}
"""What has to exist so that a write is accepted. The other writes create an object."""

PARTS: Final = {("unit-group-stop", "POST"): 1, ("unit-group-start", "POST"): 1}
"""Writes that accept an operation for each unit of a group; each has an entry of its own."""

ONCE: Final = {("function-webhook-secret", "POST")}
"""Writes without an idempotency key: each of them is accepted."""

_VARIABLES: Final = [{"name": "API_KEY", "value": CANARY}]
_SECRETS: Final[Mapping[str, Any]] = {
    "template": {
        "envs": _VARIABLES,
        "ports": [{"name": "http", "port": 8080}],
        "command": ["serve", f"--key={CANARY}"],
        "args": [CANARY],
        "annotations": {"example.com/note": CANARY},
    },
    "onDone": {"url": f"https://hooks.example.com/{CANARY}"},
    "payload": CANARY,
    "headers": {"authorization": CANARY},
    "envs": _VARIABLES,
}
"""Values that replace the fields of the same names in all bodies, wherever they are."""


def filled(value: Any) -> Any:
    """Return a body with a secret in each field that can contain one."""
    if isinstance(value, dict):
        secrets = {key: one for key, one in _SECRETS.items() if key in value}
        return {key: filled(one) for key, one in value.items()} | secrets
    return value


_OMITTED: Final = ("stockName", "wait", "expiresAt", "owner", "namespace")
"""Fields of the examples that need other objects."""

_BODIES: Final[Mapping[str, Mapping[str, Any]]] = {
    "invocations": {"mode": "async", "requestID": "greeter", "invocationID": "order-1"},
    "tokens": {"name": NAME},
    "gpu-specs": {"name": NAME},
}
"""Values of fields by route."""


def body_of(route: Route) -> Any:
    """Return a valid body with secrets in all fields that can contain them."""
    assert route.endpoint.body is not None
    fields = route.endpoint.body.model_fields.items()
    wanted = {
        alias: _SECRETS[alias]
        for alias in {one.alias or name for name, one in fields} & _SECRETS.keys()
    }
    example = {**route.endpoint.request_example("op-1"), **_BODIES.get(route.name, {})}
    body = {key: value for key, value in example.items() if key not in _OMITTED}
    if route.name == "stock-units":
        body = {key: body[key] for key in ("operationID", "specName", "replicas")}
    if "requestID" in body and route.variables:
        body["requestID"] = NAME
    text = json.dumps({**filled(body), **wanted})
    return json.loads(text.replace('"h100-1g"', '"g1.1"'))


def send(client: Client, route: Route) -> Any:
    """Send a valid request with secrets about the object with the name."""
    path = reverse(route.name, kwargs=dict.fromkeys(route.variables, NAME))
    query = {}
    body = b"" if route.endpoint.body is None else json.dumps(body_of(route)).encode()
    if "operation_id" in route.endpoint.query.model_fields:
        query["operationID"] = "op-1"
    if (route.name, route.method) == ("stock-units", "DELETE"):
        query |= {"specName": "g1.1", "number": "1"}
    return client.generic(route.method, path, body, "application/json", query_params=query or None)


def _tenant_of(entry: AuditEntry, caller: Tenant) -> str:
    """Return the name of the tenant of the object of an entry."""
    if entry.object_kind == "Tenant":
        return entry.object_name
    is_of_other = entry.object_namespace == f"tenant-{NAME}"
    return NAME if is_of_other else caller.name


def text_of(entries: Any) -> str:
    """Return all columns of entries as one text."""
    return json.dumps(list(entries.values()), default=str)


@pytest.mark.parametrize("route", WRITES, ids=str)
def test_an_accepted_write_has_one_entry_without_secrets(
    route: Route, tenant: Tenant, client: Client
) -> None:
    if prepare := BEFORE.get((route.name, route.method)):
        prepare(tenant)
    earlier = set(AuditEntry.objects.values_list("pk", flat=True))

    response = send(client, route)

    assert response.status_code in {200, 201, 202}, response.content
    parts = PARTS.get((route.name, route.method), 0)
    *of_parts, entry = AuditEntry.objects.exclude(pk__in=earlier).order_by("pk")
    assert [one.object_kind for one in of_parts] == ["GPUUnit"] * parts
    assert entry.outcome == Outcome.ACCEPTED
    assert (entry.actor_kind, entry.actor) == ("token", "token 'ci'")
    assert entry.actor_id == str(tenant.tokens.get(name="ci").pk)
    assert entry.address == "127.0.0.1"
    assert entry.trace_id == response.headers["X-Request-ID"]
    assert entry.tenant == _tenant_of(entry, tenant)
    assert entry.object_kind
    assert entry.object_name
    assert CANARY not in text_of(AuditEntry.objects.all())

    again = send(client, route)

    assert again.status_code in {200, 201, 202}, again.content
    is_once = (route.name, route.method) in ONCE
    added = AuditEntry.objects.exclude(pk__in=earlier).count()
    assert added == (2 if is_once else 1) + parts


def test_each_write_of_the_api_is_covered() -> None:
    assert {(route.name, route.method) for route in WRITES} >= set(BEFORE) | ONCE
    assert len(WRITES) == 43


def test_a_change_has_the_earlier_and_the_new_values(tenant: Tenant, client: Client) -> None:
    _unit(tenant)
    body = {
        "operationID": "op-1",
        "image": "nginx:2",
        "template": {"envs": [{"name": "OLD", "value": "other"}, {"name": "NEW", "value": "1"}]},
    }

    client.put(f"/api/v1/gpu-units/{NAME}", body, content_type="application/json")

    entry = AuditEntry.objects.get()
    assert (entry.verb, entry.object_kind, entry.object_uid) == ("update", "GPUUnit", entry_uid())
    assert entry.operation_id == "op-1"
    assert entry.changes == [
        {"field": "image", "from": "nginx:1", "to": "nginx:2"},
        {"field": "template.envs[OLD].value", "from": "(hidden)", "to": "(hidden)"},
        {"field": "template.envs[NEW].name", "to": "(hidden)"},
        {"field": "template.envs[NEW].value", "to": "(hidden)"},
    ]


def entry_uid() -> str:
    """Return the UID of the unit."""
    return GpuUnit.objects.get(name=NAME).uid


def test_a_write_that_is_rolled_back_has_no_accepted_entry(tenant: Tenant, client: Client) -> None:
    route = next(one for one in WRITES if one.name == "gpu-units")

    response = send(client, route)  # No stock is ready.

    assert response.status_code == 409
    assert not Operation.objects.exists()
    entry = AuditEntry.objects.get()
    assert (entry.outcome, entry.code) == (Outcome.REJECTED, "insufficient_capacity")


def test_only_the_first_revocation_of_a_token_has_an_entry(tenant: Tenant, client: Client) -> None:
    api_of(tenant, Scope.READ, name=NAME)

    client.delete(f"/api/v1/tokens/{NAME}")
    client.delete(f"/api/v1/tokens/{NAME}")

    assert list(AuditEntry.objects.values_list("verb", "object_name")) == [("revoke", NAME)]


def test_the_secret_of_a_new_token_is_in_no_entry(tenant: Tenant, client: Client) -> None:
    body = {"operationID": "op-1", "name": "new", "scopes": ["read"]}

    response = client.post("/api/v1/tokens", body, content_type="application/json")

    secret = response.json()["data"]["token"]
    assert secret.startswith("gpu_")
    assert secret[4:] not in text_of(AuditEntry.objects.all())
    assert AuditEntry.objects.get().changes == [
        {"field": "name", "to": "new"},
        {"field": "scopes", "to": ["read"]},
    ]
