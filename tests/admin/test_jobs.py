"""Cancelling and retrying jobs in the admin: said first, done by the services, written down."""

import re

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.db.models.functions import Now
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries

from gpuplatform.adminkit.actions.action import MOST_AT_ONCE
from gpuplatform.operations.admin_words import kind_title
from gpuplatform.operations.models import Operation
from tests.factories.admin_rows import Rows
from tests.factories.admin_steps import address, choose, confirm, told
from tests.factories.inventory import accept_create
from tests.fakes.cluster import FakeCluster
from tests.fakes.installed import cluster

__all__ = ["cluster"]

JOBS = reverse("admin:operations_operation_changelist")

pytestmark = pytest.mark.django_db


@pytest.fixture
def job_viewer(db: None) -> Client:
    """Somebody who may look at jobs, and do nothing about them."""
    viewer = User.objects.create_user("viewer", is_staff=True)
    viewer.user_permissions.add(Permission.objects.get(codename="view_operation"))
    client = Client()
    client.force_login(viewer)
    return client


def waiting(name: str = "a") -> Operation:
    return accept_create(name=name, operationID=f"make-{name}").operation


def failed() -> Operation:
    operation = waiting("f")
    operation.stock_pools.update(deleted_at=Now())
    Operation.objects.filter(pk=operation.pk).update(
        phase="Failed",
        error_code="internal_error",
        error_message="The platform gave up.",
        error_retryable=True,
        due_at=None,
        ended_at=Now(),
    )
    return operation


def phase(operation: Operation) -> str:
    return Operation.objects.get(pk=operation.pk).phase


def test_the_consequence_is_said_before_anything_is_done(
    operator_client: Client, cluster: FakeCluster
) -> None:
    operation = waiting()

    page = choose(operator_client, "cancel", operation)

    assert "Ends 1 job: what it asks for is given up (1 to be made)" in page
    assert "make-a" in page
    assert phase(operation) == "Pending"


def test_each_job_says_what_became_of_it_and_the_log_has_the_operation_id(
    operator_client: Client, cluster: FakeCluster
) -> None:
    operation, other = waiting(), failed()
    page = choose(operator_client, "cancel", operation, other)
    assert "Not possible for 1" in page
    assert "It has ended as Failed." in page

    result = confirm(operator_client, page)

    made = Operation.objects.get(kind="job.cancel")
    assert phase(operation) == "Cancelled"
    assert made.asked_by == "admin user 'operator'"
    assert "Operation Create stock pool a: Cancel accepted." in told(result)
    assert "make-f" not in told(result)
    entry = LogEntry.objects.get()
    assert (entry.object_id, made.operation_id in entry.change_message) == (
        str(operation.pk),
        True,
    )


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("stockpool.update", "Change stock pool"),
        ("gpuspec.create", "Create GPU spec"),
        ("unit.stop", "Stop GPU unit"),
        ("stock.seed", "Seed stock"),
        ("stock.remove", "Remove stock unit"),
        ("function.scale", "Scale function"),
        ("invocation.replay", "Replay invocation"),
        ("job.cancel", "Cancel job"),
        ("of_another_release", "of_another_release"),
    ],
)
def test_a_kind_of_job_has_words(kind: str, said: str) -> None:
    assert kind_title(kind) == said


def test_an_obstacle_that_many_jobs_have_is_said_once(
    operator_client: Client, cluster: FakeCluster
) -> None:
    ended = [failed(), waiting()]
    Operation.objects.update(phase="Failed", error_code="x", due_at=None, ended_at=Now())

    page = choose(operator_client, "cancel", *ended)

    assert page.count("It has ended as Failed.") == 1


def test_a_confirmation_that_is_sent_twice_is_one_request(
    operator_client: Client, cluster: FakeCluster
) -> None:
    page = choose(operator_client, "retry", failed())
    confirm(operator_client, page)

    result = confirm(operator_client, page)

    assert Operation.objects.count() == 2
    assert "Retry accepted. See its job" in told(result)
    assert LogEntry.objects.count() == 1


def test_a_retry_leads_from_one_job_to_the_other(
    operator_client: Client, cluster: FakeCluster
) -> None:
    first = failed()
    confirm(operator_client, choose(operator_client, "retry", first))
    second = Operation.objects.get(retry_of=first)

    pages = [
        operator_client.get(reverse("admin:operations_operation_change", args=[one.pk]))
        for one in (first, second)
    ]

    assert f"/operation/{second.pk}/" in pages[0].content.decode()
    assert f"/operation/{first.pk}/" in pages[1].content.decode()


def test_the_page_of_a_job_offers_what_is_possible(
    operator_client: Client, job_viewer: Client, cluster: FakeCluster
) -> None:
    def offers(client: Client, operation: Operation) -> list[str]:
        url = reverse("admin:operations_operation_change", args=[operation.pk])
        return re.findall(r'formaction="[^"]*/do/(\w+)/"', client.get(url).content.decode())

    operation, other = waiting(), failed()

    assert offers(operator_client, operation) == ["cancel"]
    assert offers(operator_client, other) == ["retry"]
    assert offers(job_viewer, operation) == []


@pytest.mark.parametrize("action", ["cancel", "retry"])
def test_who_may_only_look_is_refused(
    job_viewer: Client, cluster: FakeCluster, action: str
) -> None:
    operation = waiting()
    body = {"_selected_action": operation.pk, "key": f"admin-{'0' * 32}"}

    from_its_page = job_viewer.post(address(operation, "do", action), body)
    from_the_list = job_viewer.post(JOBS, {"action": action, **body})

    assert (from_its_page.status_code, from_the_list.status_code) == (403, 403)
    assert phase(operation) == "Pending"
    assert Operation.objects.count() == 1
    assert 'name="_selected_action"' not in job_viewer.get(JOBS).content.decode()


def test_too_many_at_once_are_refused(operator_client: Client, rows: Rows) -> None:
    many = [rows.operation("Failed") for _ in range(MOST_AT_ONCE + 1)]

    page = choose(operator_client, "retry", *many)

    assert f"Choose at most {MOST_AT_ONCE} at once." in page


def test_a_forged_key_is_asked_for_again(operator_client: Client, cluster: FakeCluster) -> None:
    operation = waiting()
    body = {"action": "cancel", "_selected_action": operation.pk, "key": "x' OR 1=1"}

    page = operator_client.post(JOBS, body).content.decode()

    assert "What happens" in page
    assert phase(operation) == "Pending"


def test_the_list_stays_live_beside_its_actions(operator_client: Client, rows: Rows) -> None:
    rows.operation()

    page = operator_client.get(JOBS).content.decode()

    assert 'id="live-rows"' in page
    assert 'name="_selected_action"' in page


def test_the_confirmation_costs_no_query_a_row(
    operator_client: Client,
    cluster: FakeCluster,
    django_assert_max_num_queries: DjangoAssertNumQueries,
) -> None:
    many = [waiting(f"p{number}") for number in range(12)]

    with django_assert_max_num_queries(12):
        choose(operator_client, "cancel", *many)
