"""The page of the usage in the admin, its CSV file, and the usage on the page of a tenant."""

import csv
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.http import StreamingHttpResponse
from django.test import Client
from django.urls import reverse

from gpuplatform.clock import now
from gpuplatform.tenancy.models import Tenant
from gpuplatform.tenancy.selectors import tenant_by_name
from gpuplatform.usage.models import UsageRecord

pytestmark = pytest.mark.django_db

USAGE = reverse("admin:usage_usagerecord_changelist")
CSV = reverse("admin:usage_usagerecord_records")
DAY = datetime(2026, 11, 30, tzinfo=UTC)
PERIOD = {"from": "2026-11-01", "to": "2026-12-02"}


def record(hour: datetime = DAY, **columns: Any) -> None:
    values = {
        "id": uuid.uuid4(),
        "hour": hour,
        "tenant": tenant_by_name(),
        "kind": "gpu",
        "subject": "u1",
        "subject_name": "trainer",
        "spec_name": "g1.1",
        "milliseconds": 3_600_000,
        "gpu_milliseconds": 9_000_000,
    }
    UsageRecord.objects.create(**{**values, **columns})


def page(client: Client, **query: Any) -> str:
    response = client.get(USAGE, query)
    assert response.status_code == 200, response
    return response.content.decode()


def test_the_sums_of_the_period_and_the_chart(operator_client: Client) -> None:
    record()
    record(DAY + timedelta(days=1), spec_name="g2.1", is_estimated=True)

    text = page(operator_client, **PERIOD, groupBy=["spec", "day"])

    for shown in ("g1.1", "g2.1", "2026-11-30", "2026-12-01", "2.50", "5.00", "estimated"):
        assert shown in text
    assert text.count("<title>2026-1") == 31


def test_the_default_is_this_month_by_tenant(operator_client: Client) -> None:
    record(now().replace(minute=0, second=0, microsecond=0))
    record()

    text = page(operator_client)

    assert "<bdi>default</bdi>" in text
    assert "5.00" not in text.replace("5.000", "")


@pytest.mark.parametrize(
    "query", [{"from": "x"}, {"groupBy": "price"}, {"from": "2026-12-02", "to": "2026-12-01"}]
)
def test_an_invalid_filter_is_named_and_ignored(
    operator_client: Client, query: dict[str, str]
) -> None:
    text = page(operator_client, **query)

    assert f"<bdi>{next(iter(query))}" in text
    exported = operator_client.get(CSV, query)
    assert exported.status_code in {200, 302}


def test_an_empty_page_explains_what_usage_is(operator_client: Client) -> None:
    assert "No usage in this period." in page(operator_client, tenant="", specName="")


def test_the_file_has_the_records_of_the_filter(operator_client: Client) -> None:
    other = Tenant.objects.create(name="other", namespace="other")
    record()
    record(tenant=other, subject="u2", subject_name="second")

    response = operator_client.get(CSV, {**PERIOD, "tenant": "other", "groupBy": "day"})

    assert isinstance(response, StreamingHttpResponse)
    rows = list(csv.DictReader(response.getvalue().decode().splitlines()))
    assert [row["name"] for row in rows] == ["second"]
    assert "usage-2026-11-01-2026-12-02.csv" in response["Content-Disposition"]


def test_the_page_of_a_tenant_links_to_its_usage(operator_client: Client) -> None:
    record(now().replace(minute=0, second=0, microsecond=0))

    url = reverse("admin:tenancy_tenant_change", args=[tenant_by_name().pk])
    text = operator_client.get(url).content.decode()

    assert "2.50 GPU-hours" in text
    assert f"{USAGE}?tenant=default" in text


def test_a_user_without_the_permission_sees_nothing() -> None:
    client = Client()
    client.force_login(User.objects.create_user("nobody", is_staff=True))

    assert client.get(USAGE).status_code == 403
    assert client.get(CSV).status_code == 403


def test_the_number_of_queries_does_not_depend_on_the_records(
    operator_client: Client, django_assert_max_num_queries: Any
) -> None:
    for number in range(20):
        record(subject=f"u{number}", subject_name=f"n{number}")

    with django_assert_max_num_queries(12):
        page(operator_client, **PERIOD, groupBy="unit")
