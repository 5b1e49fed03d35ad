"""Pages of the admin with a log or a result have an entry for each user in ten minutes."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from gpuplatform.audit.models import AuditEntry
from gpuplatform.audit.services.entries import PAGE_SECONDS
from gpuplatform.clock import now
from serverless.models import Invocation
from serverless.phases import InvocationState
from tests.admin.test_live_data import a_failing_pool, part_url
from tests.db.audit.chain import tampered
from tests.factories.admin_rows import Rows
from tests.factories.serverless import accept, function_row
from tests.fakes.cluster import FakeCluster
from tests.fakes.installed import broker, cluster

__all__ = ["broker", "cluster"]

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("broker", "cluster")]


def reads() -> list[tuple[Any, ...]]:
    rows = AuditEntry.objects.filter(outcome="read").order_by("pk")
    return list(rows.values_list("verb", "object_kind", "object_name", "actor"))


def another_user() -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("ada"))
    return client


def result_page() -> str:
    """Return the address of the page of an invocation with a result."""
    row = accept(function_row(), invocationID="order-1")
    Invocation.objects.filter(pk=row.pk).update(
        state=InvocationState.SUCCEEDED,
        completed_at=now(),
        status_code=200,
        result_body=b"done",
        result_bytes=4,
    )
    return reverse("admin:serverless_invocation_change", args=[row.pk])


def test_an_open_page_has_one_entry_in_ten_minutes(operator_client: Client) -> None:
    page, other = result_page(), another_user()

    for client in (operator_client, operator_client, other, operator_client):
        assert client.get(page).status_code == 200

    expected = [
        ("read-result", "Invocation", "order-1", f"admin user '{name}'")
        for name in ("operator", "ada")
    ]
    assert reads() == expected
    tampered(
        "UPDATE audit_auditentry SET at = at - %s * interval '1 second' WHERE actor LIKE %s",
        PAGE_SECONDS + 1,
        "%operator%",
    )
    operator_client.get(page)
    other.get(page)

    assert reads() == [*expected, expected[0]]


def test_a_page_with_a_log_has_an_entry(
    operator_client: Client, cluster: FakeCluster, rows: Rows
) -> None:
    pool = a_failing_pool(cluster, rows)
    assert operator_client.get(part_url(pool)).context["cluster"].log

    assert reads() == [("read-logs", "StockPool", "h100", "admin user 'operator'")]


def test_a_page_without_a_log_has_none(
    operator_client: Client, cluster: FakeCluster, rows: Rows
) -> None:
    pool = rows.pool()
    assert not operator_client.get(part_url(pool)).context["cluster"].log

    assert reads() == []
