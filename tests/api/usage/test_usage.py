"""The sums and the records of usage: of the caller's tenant, and of all tenants."""

import csv
import json
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.http import StreamingHttpResponse
from django.test import Client

from gpuplatform.tenancy.models import Scope, Tenant
from gpuplatform.tenancy.selectors import tenant_by_name
from gpuplatform.tenancy.services import token_create
from gpuplatform.usage import selectors
from gpuplatform.usage.models import UsageRecord
from tests.fakes.api import Api

pytestmark = pytest.mark.django_db

USAGE, ALL = "/api/v1/usage", "/api/v1/operator/usage"
DAY = datetime(2026, 11, 30, tzinfo=UTC)
PERIOD = "from=2026-11-01&to=2026-12-02"


def record(hour: int = 0, **columns: Any) -> UsageRecord:
    values = {
        "id": uuid.uuid4(),
        "hour": DAY + timedelta(hours=hour),
        "tenant": tenant_by_name(),
        "kind": "gpu",
        "subject": "u1",
        "subject_name": "trainer",
        "spec_name": "g1.1",
        "gpus": 2,
        "milliseconds": 3_600_000,
        "gpu_milliseconds": 7_200_000,
    }
    return UsageRecord.objects.create(**{**values, **columns})


@pytest.fixture
def other() -> Tenant:
    return Tenant.objects.create(name="other", namespace="other")


def sums(answer: Any, *names: str) -> list[tuple[Any, ...]]:
    assert answer.status == 200, answer.json
    return [tuple(row[name] for name in names) for row in answer.data]


def of(tenant: Tenant) -> Api:
    """A caller with a token of the tenant."""
    _, secret = token_create(tenant=tenant, name="t", scopes=[Scope.USER])
    headers = {"Authorization": f"Bearer {secret}"}
    return Api(Client(raise_request_exception=False, headers=headers))


def lines(api: Api, query: str = PERIOD) -> list[str]:
    """The lines of an export."""
    answer = api.client.get(f"{USAGE}/records?{query}")
    assert isinstance(answer, StreamingHttpResponse), answer.content
    return answer.getvalue().decode().splitlines()


def test_the_sum_of_a_period(api: Api) -> None:
    record(0)
    record(1, milliseconds=1_500, gpu_milliseconds=3_000, is_estimated=True)

    found = api.get(f"{USAGE}?{PERIOD}")

    assert sums(found, "kind", "seconds", "gpuSeconds", "count", "estimated") == [
        ("gpu", 3601.5, 7203.0, 0, True)
    ]
    assert found.data[0]["tenant"] is None


def test_the_end_of_a_period_is_excluded(api: Api) -> None:
    record(0)
    record(1)

    found = api.get(f"{USAGE}?from=2026-11-30T00:00:00Z&to=2026-11-30T01:00:00Z")

    assert sums(found, "seconds") == [(3600.0,)]


def test_a_period_has_no_use(api: Api) -> None:
    assert sums(api.get(f"{USAGE}?from=2026-01-01&to=2026-01-02"), "seconds") == []


def test_the_dimensions_of_the_sums(api: Api, other: Tenant) -> None:
    record(0)
    record(24, spec_name="g2.1", subject="u2", subject_name="second")
    record(24, tenant=other)

    by_day = api.get(f"{USAGE}?{PERIOD}&groupBy=day")
    by_spec = api.get(f"{USAGE}?{PERIOD}&groupBy=spec,unit")
    by_tenant = api.get(f"{ALL}?{PERIOD}&groupBy=tenant")

    assert sums(by_day, "day", "seconds") == [("2026-11-30", 3600.0), ("2026-12-01", 3600.0)]
    assert sums(by_spec, "specName", "unit", "subject") == [
        ("g1.1", "trainer", "u1"),
        ("g2.1", "second", "u2"),
    ]
    assert sums(by_tenant, "tenant", "seconds") == [("default", 7200.0), ("other", 3600.0)]


def test_a_tenant_sees_only_its_own_usage(api: Api, other: Tenant) -> None:
    record(0)
    record(0, tenant=other, subject="u2", subject_name="secret")
    caller = of(other)

    assert sums(caller.get(f"{USAGE}?{PERIOD}&groupBy=unit"), "unit") == [("secret",)]
    assert [json.loads(line)["name"] for line in lines(caller)] == ["secret"]
    assert caller.get(f"{ALL}?{PERIOD}").status == 403
    assert caller.get(f"{ALL}/records?{PERIOD}").status == 403


def test_an_operator_selects_a_tenant_and_specs(api: Api, other: Tenant) -> None:
    record(0)
    record(0, spec_name="g2.1", subject="u2", tenant=other)

    assert sums(api.get(f"{ALL}?{PERIOD}&tenant=other"), "seconds") == [(3600.0,)]
    assert sums(api.get(f"{ALL}?{PERIOD}&specName=g1.1,g3.1"), "seconds") == [(3600.0,)]


def test_pages_of_sums(api: Api) -> None:
    for number in range(3):
        record(0, subject=f"u{number}", subject_name=f"n{number}")

    first = api.get(f"{USAGE}?{PERIOD}&groupBy=unit&limit=2")
    last = api.get(f"{USAGE}?{PERIOD}&groupBy=unit&limit=2&cursor={first.json['page']['next']}")

    assert sums(first, "unit") == [("n0",), ("n1",)]
    assert sums(last, "unit") == [("n2",)]
    assert last.json["page"]["next"] is None


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("from=yesterday", "from"),
        ("from=2026-12-01T10:30:00Z", "from"),
        ("from=2026-12-01T10:00:00", "from"),
        ("to=2026-13-01", "to"),
        ("to=0001-01-01", "to"),
        ("to=0001-01-01T00:00:00Z", "to"),
        ("from=9999-12-31T22:00:00Z&to=9999-12-31T23:00:00Z", "from,to"),
        ("from=2026-12-02&to=2026-12-01", "from"),
        ("from=2020-01-01&to=2026-12-01", "from"),
        ("groupBy=price", "groupBy"),
        ("month=1", "month"),
        ("tenant=other", "tenant"),
        ("specName=", "specName"),
    ],
)
def test_an_invalid_parameter_is_named(api: Api, query: str, field: str) -> None:
    for path in (USAGE, f"{USAGE}/records"):
        if field == "groupBy" and path != USAGE:
            continue
        found = api.get(f"{path}?{query}")

        assert found.status == 400
        assert [one["field"] for one in found.json["error"]["details"]] == field.split(",")


@pytest.mark.parametrize(
    "query", ["format=xml", "cursor=x", "cursor=6dad8ff6-8b2c-4964-a540-7c6ac344546d"]
)
def test_an_invalid_export_is_named(api: Api, query: str) -> None:
    found = api.get(f"{USAGE}/records?{query}")

    assert found.status == 400
    assert [one["field"] for one in found.json["error"]["details"]] == [query.partition("=")[0]]


def test_a_tenant_continues_only_after_its_own_records(api: Api, other: Tenant) -> None:
    row = record(0)

    found = of(other).get(f"{USAGE}/records?{PERIOD}&cursor={row.pk}")

    assert found.status == 400  # As for an unknown id.
    assert len(lines(api, f"{PERIOD}&cursor={row.pk}")) == 0


def test_records_as_json_lines_continue_after_an_id(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selectors, "EXPORT_ROWS", 2)
    first = record(0)
    corrected = record(0, corrects=first, milliseconds=-5, sealed_at=DAY)
    for number in range(4):
        record(1, subject=f"u{number}")

    found = [json.loads(line) for line in lines(api)]
    rest = lines(api, f"{PERIOD}&cursor={found[3]['id']}")

    assert len({line["id"] for line in found}) == 6
    assert [json.loads(line) for line in rest] == found[4:]
    assert [line["seconds"] for line in found if line["corrects"] == str(first.pk)] == [-0.005]
    assert {line["id"] for line in found if line["sealed"]} == {str(corrected.pk)}


def test_records_as_csv(api: Api) -> None:
    row = record(0, is_estimated=True)

    [line] = csv.DictReader(lines(api, f"{PERIOD}&format=csv"))

    assert line["id"] == str(row.pk)
    assert (line["hour"], line["gpuSeconds"]) == ("2026-11-30T00:00:00Z", "7200.0")
    assert (line["estimated"], line["sealed"], line["corrects"]) == ("true", "false", "")
