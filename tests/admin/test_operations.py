"""Cancel and retry of operations in the admin."""

import re

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.db.models.functions import Now
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries

from gpuplatform.adminkit.actions.model_admin import MAX_ROWS
from gpuplatform.adminkit.display.urls import page_url
from gpuplatform.kube.errors import ClusterUnavailable
from gpuplatform.operations.admin_display import kind_title
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OPERATION_WAITS, OperationWait
from gpuplatform.reconciliation import gate
from tests.factories.admin_rows import Rows
from tests.factories.admin_steps import address, choose, confirm, numbers
from tests.factories.inventory import accept_create
from tests.fakes.cluster import FakeCluster
from tests.fakes.installed import cluster

__all__ = ["cluster"]

OPERATIONS = reverse("admin:operations_operation_changelist")

pytestmark = pytest.mark.django_db


@pytest.fixture
def viewer(db: None) -> Client:
    """A client with the permission to view operations only."""
    person = User.objects.create_user("viewer", is_staff=True)
    person.user_permissions.add(Permission.objects.get(codename="view_operation"))
    client = Client()
    client.force_login(person)
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


def test_the_page_shows_the_trace_id_of_the_request(operator_client: Client, rows: Rows) -> None:
    operation = rows.operation(trace_id="4bf92f3577b34da6")

    response = operator_client.get(page_url(operation))

    facts = {fact.label: fact.value for fact in response.context["detail"].facts}
    assert facts["traceID"] == "4bf92f3577b34da6"


def test_the_page_shows_why_no_worker_could_claim_an_operation(
    operator_client: Client, cluster: FakeCluster
) -> None:
    operation = waiting()
    gate.close(ClusterUnavailable("The API server of the test does not respond."))

    page = operator_client.get(page_url(operation)).content.decode()

    assert "The API server of the test does not respond." in page
    assert OPERATION_WAITS[OperationWait.CLUSTER_UNAVAILABLE].next_step in page


def test_the_consequence_is_shown_before_the_action(
    operator_client: Client, cluster: FakeCluster
) -> None:
    operation = waiting()

    page = choose(operator_client, "cancel", operation)

    assert numbers(page.context["consequence"]) == [1, 1]
    assert [row_id for row_id, _line in page.context["lines"]] == [operation.pk]
    assert phase(operation) == "Pending"


def test_a_cancellation_is_an_operation_in_the_log(
    operator_client: Client, cluster: FakeCluster
) -> None:
    operation, other = waiting(), failed()
    page = choose(operator_client, "cancel", operation, other)
    assert page.context["impossible_count"] == 1

    result = confirm(operator_client, page)

    cancel = Operation.objects.get(kind="job.cancel")
    assert phase(operation) == "Cancelled"
    assert "operator" in cancel.asked_by
    assert address(cancel, "change", cancel.pk) in result.messages[0]
    entry = LogEntry.objects.get()
    assert (entry.object_id, cancel.operation_id in entry.change_message) == (
        str(operation.pk),
        True,
    )


@pytest.mark.parametrize(
    ("kind", "title"),
    [
        ("stockpool.update", "Change stock pool"),
        ("gpuspec.create", "Create GPU spec"),
        ("unit.stop", "Stop GPU unit"),
        ("stock.seed", "Seed stock"),
        ("stock.remove", "Remove stock unit"),
        ("function.scale", "Scale function"),
        ("invocation.replay", "Replay invocation"),
        ("job.cancel", "Cancel operation"),
        ("of_another_release", "of_another_release"),
    ],
)
def test_a_kind_of_operation_has_a_title(kind: str, title: str) -> None:
    assert kind_title(kind) == title


def test_a_common_obstacle_is_shown_once(operator_client: Client, cluster: FakeCluster) -> None:
    ended = [failed(), waiting()]
    Operation.objects.update(phase="Failed", error_code="x", due_at=None, ended_at=Now())

    page = choose(operator_client, "cancel", *ended)

    ((_obstacle, lines),) = page.context["impossible"]
    assert len(lines) == 2


def test_a_repeated_confirmation_is_one_request(
    operator_client: Client, cluster: FakeCluster
) -> None:
    page = choose(operator_client, "retry", failed())
    confirm(operator_client, page)

    result = confirm(operator_client, page)

    assert Operation.objects.count() == 2
    retry = Operation.objects.latest("id")
    assert address(retry, "change", retry.pk) in result.messages[0]
    assert LogEntry.objects.count() == 1


def test_a_retry_links_both_operations(operator_client: Client, cluster: FakeCluster) -> None:
    first = failed()
    confirm(operator_client, choose(operator_client, "retry", first))
    second = Operation.objects.get(retry_of=first)

    pages = [
        operator_client.get(reverse("admin:operations_operation_change", args=[one.pk]))
        for one in (first, second)
    ]

    assert f"/operation/{second.pk}/" in pages[0].content.decode()
    assert f"/operation/{first.pk}/" in pages[1].content.decode()


def test_the_page_of_an_operation_offers_possible_actions(
    operator_client: Client, viewer: Client, cluster: FakeCluster
) -> None:
    def offers(client: Client, operation: Operation) -> list[str]:
        url = reverse("admin:operations_operation_change", args=[operation.pk])
        return re.findall(r'formaction="[^"]*/do/(\w+)/"', client.get(url).content.decode())

    operation, other = waiting(), failed()

    assert offers(operator_client, operation) == ["cancel"]
    assert offers(operator_client, other) == ["retry"]
    assert offers(viewer, operation) == []


@pytest.mark.parametrize("action", ["cancel", "retry"])
def test_a_viewer_is_rejected(viewer: Client, cluster: FakeCluster, action: str) -> None:
    operation = waiting()
    body = {"_selected_action": operation.pk, "key": f"admin-{'0' * 32}"}

    from_its_page = viewer.post(address(operation, "do", action), body)
    from_the_list = viewer.post(OPERATIONS, {"action": action, **body})

    assert (from_its_page.status_code, from_the_list.status_code) == (403, 403)
    assert phase(operation) == "Pending"
    assert Operation.objects.count() == 1
    assert 'name="_selected_action"' not in viewer.get(OPERATIONS).content.decode()


def test_too_many_rows_are_rejected(operator_client: Client, rows: Rows) -> None:
    many = [rows.operation("Failed") for _ in range(MAX_ROWS + 1)]

    page = choose(operator_client, "retry", *many)

    assert numbers(page.messages[0]) == [MAX_ROWS]


def test_a_forged_key_leads_to_the_confirmation(
    operator_client: Client, cluster: FakeCluster
) -> None:
    operation = waiting()
    body = {"action": "cancel", "_selected_action": operation.pk, "key": "x' OR 1=1"}

    context = operator_client.post(OPERATIONS, body).context

    assert context["consequence"]
    assert phase(operation) == "Pending"


def test_a_list_with_actions_is_refreshed(operator_client: Client, rows: Rows) -> None:
    rows.operation()

    page = operator_client.get(OPERATIONS).content.decode()

    assert 'id="live-rows"' in page
    assert 'name="_selected_action"' in page


def test_the_confirmation_has_no_query_per_row(
    operator_client: Client,
    cluster: FakeCluster,
    django_assert_max_num_queries: DjangoAssertNumQueries,
) -> None:
    many = [waiting(f"p{number}") for number in range(12)]

    with django_assert_max_num_queries(12):
        choose(operator_client, "cancel", *many)
