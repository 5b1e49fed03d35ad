"""Rejected requests and reads of secrets have entries, and operators read and export them."""

import csv
import io
import json
from typing import Any, Final

import pytest
from django.db import connection
from django.test import Client
from pytest_django import DjangoAssertNumQueries, Settings

from gpuplatform.audit.exports import FIELDS, entry_fields
from gpuplatform.audit.models import AuditEntry, Outcome
from gpuplatform.audit.services import anonymous
from gpuplatform.audit.services.entries import Entry, entry_insert
from gpuplatform.clock import now
from gpuplatform.metrics.declared import AUDIT_OMITTED
from gpuplatform.metrics.recorder import _Recorder
from gpuplatform.tenancy.actor import Actor, ActorKind
from gpuplatform.tenancy.models import Tenant
from gpuplatform.tenancy.permissions import Scope
from gpuplatform.tenancy.services import tenant_limits_replace
from serverless.models import Invocation
from serverless.phases import InvocationState
from tests.factories.people import api_of, with_token
from tests.factories.serverless import accept, function_row
from tests.factories.unit_rows import stock_row, unit_row
from tests.fakes.api import Api
from tests.fakes.cluster import FakeCluster

LOG: Final = "/api/v1/operator/audit"
ENTRIES: Final = "/api/v1/operator/audit/entries"
RESULT: Final = "canary-result"

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.usefixtures("cluster", "broker", "catalogue"),
]


@pytest.fixture
def tenant(db: None) -> Tenant:
    return Tenant.objects.create(name="alpha", namespace="tenant-alpha")


@pytest.fixture
def operator(tenant: Tenant) -> Api:
    return api_of(tenant, Scope.OPERATOR, name="operator")


def only_entry() -> tuple[Any, ...]:
    """Return the outcome, code, verb, kind, name and tenant of the only entry."""
    names = ("outcome", "code", "verb", "object_kind", "object_name", "tenant")
    [entry] = AuditEntry.objects.values_list(*names)
    return tuple(entry)


def test_a_request_with_an_unknown_token_has_an_entry_without_the_token() -> None:
    with_token("gpu_canary").client.delete("/api/v1/gpu-units/trainer?operationID=op-1")

    assert only_entry() == ("rejected", "unauthenticated", "delete", "GPUUnit", "trainer", "")
    entry = AuditEntry.objects.get()
    assert entry.actor_kind == ActorKind.ANONYMOUS
    assert "canary" not in json.dumps(entry_fields(entry))


def test_unknown_callers_cannot_fill_the_log(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(anonymous.OF_ADDRESS, "amount", 3)
    monkeypatch.setattr(anonymous.OF_ALL, "amount", 4)
    monkeypatch.setattr(_Recorder, "is_on", True)
    monkeypatch.setattr(_Recorder, "created", {})
    for number in range(2):
        for _request in range(4):
            Client().get("/api/v1/gpu-units", REMOTE_ADDR=f"198.51.100.{number}")
    for _request in range(5):
        api_of(tenant, Scope.READ).client.post("/api/v1/gpu-units", REMOTE_ADDR="198.51.100.0")

    found = AuditEntry.objects.order_by("pk").values_list("address", flat=True)
    assert list(found) == ["198.51.100.0"] * 3 + ["198.51.100.1"] + ["198.51.100.0"] * 5
    [omitted] = _Recorder.created[AUDIT_OMITTED.name].collect()
    assert [one.value for one in omitted.samples if one.name == AUDIT_OMITTED.name] == [4]


def test_a_request_is_rejected_even_if_the_database_takes_no_entry() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE FUNCTION pg_temp.audit_is_full() RETURNS trigger LANGUAGE plpgsql AS"
            " $$BEGIN RAISE EXCEPTION 'no space'; END$$; CREATE TRIGGER audit_full BEFORE INSERT"
            " ON audit_auditentry FOR EACH ROW EXECUTE FUNCTION pg_temp.audit_is_full()"
        )

    assert with_token("gpu_unknown").client.get("/api/v1/gpu-units").status_code == 401


def test_a_request_without_the_permission_has_an_entry(tenant: Tenant) -> None:
    api = api_of(tenant, Scope.READ, name="reader")

    api.client.post("/api/v1/operator/nodes/n1/drain", {}, content_type="application/json")

    assert only_entry() == ("rejected", "forbidden", "drain", "Node", "n1", "alpha")
    assert AuditEntry.objects.get().actor == "token 'reader'"


def test_a_request_above_a_limit_has_an_entry(tenant: Tenant) -> None:
    tenant_limits_replace(tenant, {"units": 0})
    stock_row()
    body = {"operationID": "op-1", "name": "trainer", "specName": "g1.1", "image": "nginx:1"}

    response = api_of(tenant).client.post(
        "/api/v1/gpu-units", body, content_type="application/json"
    )

    assert response.status_code == 409
    assert only_entry() == ("rejected", "quota_exceeded", "create", "GPUUnit", "", "alpha")


@pytest.mark.parametrize(
    "path",
    ["/api/v1/gpu-units/absent", "/api/v1/gpu-units/foreign", "/api/v1/gpu-units?limit=x"],
)
def test_other_errors_have_no_entry(tenant: Tenant, path: str) -> None:
    beta = Tenant.objects.create(name="beta", namespace="tenant-beta")
    unit_row(name="foreign", tenant=beta, namespace=beta.namespace)

    assert api_of(tenant).client.get(path).status_code in {400, 404}

    assert not AuditEntry.objects.exists()


def test_the_address_is_that_of_the_client_behind_trusted_proxies(
    tenant: Tenant, settings: Settings
) -> None:
    forwarded = {"X-Forwarded-For": "192.0.2.1, 203.0.113.9"}

    Client().get("/api/v1/gpu-units", headers=forwarded, REMOTE_ADDR="127.0.0.1")
    settings.TRUSTED_PROXIES = ()
    Client().get("/api/v1/gpu-units", headers=forwarded, REMOTE_ADDR="127.0.0.1")

    assert list(AuditEntry.objects.order_by("pk").values_list("address", flat=True)) == [
        "203.0.113.9",
        "127.0.0.1",
    ]


def test_a_read_of_a_log_has_an_entry(tenant: Tenant, cluster: FakeCluster) -> None:
    unit = unit_row(name="trainer", tenant=tenant, namespace=tenant.namespace)

    api_of(tenant, Scope.READ).client.get("/api/v1/gpu-units/trainer/logs")

    assert only_entry() == ("read", "", "read-logs", "GPUUnit", "trainer", "alpha")
    assert AuditEntry.objects.get().object_uid == unit.uid


def ended_invocation(tenant: Tenant) -> Invocation:
    """Return an invocation with a result, without the entry of its acceptance."""
    invocation = accept(function_row(tenant=tenant), invocationID="order-1")
    Invocation.objects.filter(pk=invocation.pk).update(
        state=InvocationState.SUCCEEDED,
        completed_at=now(),
        status_code=200,
        result_body=RESULT.encode(),
        result_bytes=len(RESULT),
    )
    return invocation


def test_each_read_of_a_result_has_an_entry(tenant: Tenant) -> None:
    ended_invocation(tenant)
    before = AuditEntry.objects.count()
    path = "/api/v1/serverless/invocations/order-1"

    found = api_of(tenant).get(path).data
    api_of(tenant, Scope.READ).get(path)  # Without the permission for results.
    api_of(tenant).get("/api/v1/serverless/invocations")
    Client().get(found["result"]["href"])

    entries = AuditEntry.objects.order_by("pk")[before:]
    assert [(one.verb, one.actor_kind, one.object_name, one.tenant) for one in entries] == [
        ("read-result", "token", "order-1", "alpha"),
        ("read-result", "anonymous", "order-1", "alpha"),
    ]
    assert RESULT not in json.dumps([entry_fields(one) for one in AuditEntry.objects.all()])


def test_a_result_that_a_repeated_request_returns_has_an_entry(tenant: Tenant) -> None:
    invocation = ended_invocation(tenant)
    before = AuditEntry.objects.count()
    body = {
        "requestID": invocation.function.request_id,
        "invocationID": "order-1",
        "payload": "hello",
    }

    path, form = "/api/v1/serverless/invocations", "application/json"
    found = api_of(tenant).client.post(path, body, content_type=form)
    without = api_of(tenant, Scope.READ, Scope.WRITE).client.post(path, body, content_type=form)

    assert found.json()["data"]["result"]["body"] == RESULT
    assert without.json()["data"]["result"]["body"] is None
    entries = AuditEntry.objects.order_by("pk")[before:]
    assert [(one.outcome, one.verb, one.object_name) for one in entries] == [
        ("read", "read-result", "order-1")
    ]


def test_a_read_of_values_of_variables_has_one_entry_for_each_token(tenant: Tenant) -> None:
    template = {"envs": [{"name": "KEY", "value": RESULT}]}
    spec = {"specName": "g1.1", "image": "nginx:1", "gpu": 1}
    place: dict[str, Any] = {"tenant": tenant, "namespace": tenant.namespace}
    uid = unit_row(name="secret", spec={**spec, "template": template}, **place).uid
    unit_row(name="plain", spec=spec, **place)
    function_row("hook", tenant=tenant, onDone={"url": f"https://hooks.example.com/{RESULT}"})
    function_row("plain", tenant=tenant)
    one, other = api_of(tenant, name="one"), api_of(tenant, name="other")
    reader = api_of(tenant, Scope.READ)

    for api in (one, one, reader, other):
        for name in ("gpu-units/secret", "gpu-units/plain"):
            api.get(f"/api/v1/{name}")
        for name in ("hook", "plain"):
            api.get(f"/api/v1/serverless/functions/{name}")

    names = ("verb", "object_kind", "object_name", "object_uid", "tenant", "actor")
    assert list(AuditEntry.objects.order_by("pk").values_list(*names)) == [
        (*("read-values", "GPUUnit", "secret", uid, "alpha"), "token 'one'"),
        (*("read-values", "Function", "hook", "", "alpha"), "token 'one'"),
        (*("read-values", "GPUUnit", "secret", uid, "alpha"), "token 'other'"),
        (*("read-values", "Function", "hook", "", "alpha"), "token 'other'"),
    ]
    assert RESULT not in json.dumps([entry_fields(row) for row in AuditEntry.objects.all()])


def test_exports_of_usage_and_of_the_audit_log_have_entries(operator: Api, tenant: Tenant) -> None:
    operator.client.get("/api/v1/operator/usage/records?tenant=alpha")
    operator.client.get(f"{ENTRIES}?tenant=alpha")
    api_of(tenant).client.get("/api/v1/usage/records")

    found = AuditEntry.objects.order_by("pk").values_list(
        "outcome", "verb", "object_kind", "tenant"
    )
    assert list(found) == [
        ("read", "export", "UsageRecord", "alpha"),
        ("read", "export", "AuditEntry", "alpha"),
        ("read", "export", "UsageRecord", "alpha"),
    ]


def exported(api: Api, query: str) -> str:
    """Return the text of an export."""
    response: Any = api.client.get(f"{ENTRIES}?{query}")
    return b"".join(response.streaming_content).decode()


ACTORS: Final = (
    Actor("token 'ci'", ActorKind.TOKEN, "7"),
    Actor("admin user 'ada'", ActorKind.USER),
)


@pytest.fixture
def entries(db: None) -> list[int]:
    """Entries with all combinations of two tenants, actors and outcomes."""
    for number, tenant in enumerate(("alpha", "beta")):
        for actor in ACTORS:
            for outcome in (Outcome.ACCEPTED, Outcome.REJECTED):
                entry_insert(
                    Entry(
                        outcome=outcome,
                        verb="create" if number else "delete",
                        tenant=tenant,
                        kind="GPUUnit" if number else "Node",
                        name=f"=unit-{number}",
                        actor=actor,
                    )
                )
    return list(AuditEntry.objects.order_by("-pk").values_list("pk", flat=True))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", [0, 1, 2, 3, 4, 5, 6, 7]),
        ("tenant=alpha", [4, 5, 6, 7]),
        ("tenant=alpha,beta&outcome=accepted", [1, 3, 5, 7]),
        ("actor=token 'ci'&kind=GPUUnit", [2, 3]),
        ("object==unit-1&verb=create", [0, 1, 2, 3]),
        ("verb=delete&outcome=rejected", [4, 6]),
        ("since=2999-01-01T00:00:00Z", []),
        ("until=2999-01-01T00:00:00Z&since=2000-01-01T00:00:00Z", [0, 1, 2, 3, 4, 5, 6, 7]),
        ("until=2000-01-01T00:00:00Z", []),
    ],
)
def test_the_list_and_the_exports_have_the_same_filters(
    operator: Api, entries: list[int], query: str, expected: list[int]
) -> None:
    wanted = [entries[place] for place in expected]

    listed = operator.client.get(f"{LOG}?{query}").json()
    lines = exported(operator, query)
    table = exported(operator, f"{query}&format=csv")

    assert [one["id"] for one in listed["data"]] == wanted
    found = [json.loads(line) for line in lines.splitlines()]
    known = [one for one in found if one["id"] in entries]
    assert [one["id"] for one in known] == wanted[::-1]
    rows = list(csv.reader(io.StringIO(table)))
    assert tuple(rows[0]) == FIELDS
    assert [int(row[0]) for row in rows[1:] if int(row[0]) in entries] == wanted[::-1]


def test_a_time_belongs_to_the_entries_since_it_and_not_until_it(
    operator: Api, entries: list[int]
) -> None:
    at = AuditEntry.objects.get(pk=entries[3]).at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    since, until = (
        [one["id"] for one in operator.client.get(f"{LOG}?{name}={at}").json()["data"]]
        for name in ("since", "until")
    )

    assert since == entries[:4]
    assert until == entries[4:]


def test_an_entry_has_all_fields_and_no_cell_is_a_formula(
    operator: Api, entries: list[int]
) -> None:
    [listed] = operator.client.get(f"{LOG}?limit=1").json()["data"]
    table = exported(operator, "format=csv")

    row = AuditEntry.objects.get(pk=entries[0])
    assert listed == entry_fields(row)
    assert tuple(listed) == FIELDS
    assert ",'=unit-1," in table
    assert ",=unit-1," not in table


def test_pages_of_the_list_follow_each_other_without_gaps(
    operator: Api, entries: list[int]
) -> None:
    found: list[int] = []
    path = f"{LOG}?limit=3"
    while path:
        page = operator.client.get(path).json()
        found += [one["id"] for one in page["data"]]
        cursor = page["page"]["next"]
        path = f"{LOG}?limit=3&cursor={cursor}" if cursor else ""

    assert found == entries


@pytest.mark.parametrize("query", ["since=today", "outcome=x", "nope=1", "since=2026-12-01"])
def test_an_invalid_filter_is_rejected(operator: Api, query: str) -> None:
    response = operator.client.get(f"{LOG}?{query}")

    assert response.status_code == 400
    [detail] = response.json()["error"]["details"]
    assert detail["field"] == query.partition("=")[0]


def test_the_log_is_for_operators_only(tenant: Tenant) -> None:
    for path in (LOG, ENTRIES):
        assert api_of(tenant).client.get(path).status_code == 403


def test_texts_that_the_database_does_not_store_are_replaced() -> None:
    entry_insert(
        Entry(
            outcome=Outcome.ACCEPTED,
            verb="create",
            name="a\x00\ud800",
            changes=[{"field": "b\x00\ud800", "to": "é"}],
        )
    )

    row = AuditEntry.objects.get()
    assert row.object_name == "a\ufffd?"
    assert row.changes == [{"field": "b\ufffd?", "to": "é"}]


def test_the_entry_of_a_write_is_one_statement(
    tenant: Tenant, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(1):
        entry_insert(Entry(outcome=Outcome.ACCEPTED, verb="create"))
