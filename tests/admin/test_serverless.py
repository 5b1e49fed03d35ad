"""The pages of functions and invocations: status, outcomes and failures."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.test import Client
from django.urls import reverse
from django.utils.html import escape
from pytest_django import DjangoAssertNumQueries

from gpuplatform.clock import now
from gpuplatform.formats.masking import MASK
from serverless.admin.invocations import InvocationAdmin
from serverless.admin.lines import failure_title
from serverless.models import Function, Invocation
from serverless.phases import (
    FAILURE_CLASSES,
    FUNCTION_REASONS,
    FailureClass,
    FunctionReason,
    InvocationState,
)
from tests.factories.serverless import accept, function_row
from tests.factories.unit_rows import unit_row
from tests.fakes.installed import cluster

__all__ = ["cluster"]

FUNCTIONS = reverse("admin:serverless_function_changelist")
INVOCATIONS = reverse("admin:serverless_invocation_changelist")
MOST_QUERIES = 14

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("cluster")]


def page(client: Client, url: str, **query: str) -> str:
    response = client.get(url, query)
    assert response.status_code == 200, response
    return response.content.decode()


def detail(client: Client, row: Function | Invocation) -> str:
    kind = type(row).__name__.lower()
    return page(client, reverse(f"admin:serverless_{kind}_change", args=[row.pk]))


def ended(function: Function, state: str = "Succeeded", **changes: Any) -> Invocation:
    """Insert an invocation that has ended."""
    row = accept(function)
    columns = {"state": state, "completed_at": now(), **changes}
    Invocation.objects.filter(pk=row.pk).update(**columns)
    row.refresh_from_db()
    return row


def test_list_shows_status_of_functions(operator_client: Client) -> None:
    function = function_row("echo")
    Function.objects.update(
        backlog=7, workers_ready=2, workers_starting=1, reason="NoCapacity", phase="Progressing"
    )
    for _ in range(3):
        ended(function)
    ended(function, InvocationState.FAILED)
    accept(function)
    Invocation.objects.filter(state="Queued").update(accepted_at=now() - timedelta(minutes=9))

    text = page(operator_client, FUNCTIONS)

    assert '<td class="field-backlog_column">7</td>' in text
    assert "2 ready, 1 starting" in text
    assert ">9 min</time>" in text
    assert '<td class="field-success_column">75%</td>' in text
    assert "NoCapacity" in text


def test_list_shows_last_failure_of_ready_function(
    operator_client: Client,
) -> None:
    function = function_row("echo")
    failed = ended(
        function, InvocationState.FAILED, failure_class="framework_error", error="Status 500."
    )
    place = reverse("admin:serverless_invocation_change", args=[failed.pk])

    Function.objects.update(phase="Failed", reason="WorkerFailed", message="No image.")
    failed_list = page(operator_client, FUNCTIONS)
    Function.objects.update(phase="Ready")
    ready_list = page(operator_client, FUNCTIONS)

    assert place not in failed_list
    assert "No image." in failed_list
    assert f'<a href="{place}">' in ready_list
    assert "framework_error" in ready_list
    assert "No image." not in ready_list


def test_number_of_queries_of_lists_is_bounded(
    operator_client: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for _ in range(5):
        function = function_row()
        ended(function, InvocationState.EXPIRED, failure_class="framework_timeout")

    for url in (FUNCTIONS, INVOCATIONS):
        with django_assert_max_num_queries(MOST_QUERIES):
            page(operator_client, url)


def test_page_of_failed_function_shows_next_step(operator_client: Client) -> None:
    function = function_row("echo")
    Function.objects.update(
        phase="Failed", reason="WorkerFailed", message="The queue has another address."
    )
    name = f"fn-{function.pk}-1-0123abcd"
    unit_row(name=name, spec={"specName": "g1.1", "serverless": {}})
    row = ended(function)

    text = detail(operator_client, function)

    assert "The queue has another address." in text
    assert FUNCTION_REASONS[FunctionReason.WORKER_FAILED].next_step in text
    assert name in text
    assert row.invocation_id in text
    assert function.operation.operation_id in text


@pytest.mark.parametrize(
    ("succeeded", "failed", "rate"),
    [
        pytest.param(2, 0, r"<bdi>100% \D*2</bdi>", id="all succeeded"),
        pytest.param(0, 1, r"<bdi>0% \D*1</bdi>", id="none succeeded"),
    ],
)
def test_success_rate_names_number_of_invocations(
    operator_client: Client, succeeded: int, failed: int, rate: str
) -> None:
    function = function_row("echo")
    for _ in range(succeeded):
        ended(function)
    for _ in range(failed):
        ended(function, InvocationState.FAILED, failure_class="framework_error")

    assert re.search(rate, detail(operator_client, function))


@pytest.mark.parametrize(("ready", "differs"), [(0, False), (1, False), (7, True)])
def test_only_workers_outside_limits_are_marked(
    operator_client: Client, ready: int, *, differs: bool
) -> None:
    function = function_row("echo")
    Function.objects.update(workers_ready=ready)

    text = detail(operator_client, function)

    assert f">{ready}<" in text
    assert ("(differs)" in text) is differs


def test_long_waiting_function_is_on_overview(operator_client: Client) -> None:
    function = function_row("slow")
    Function.objects.update(
        phase="Progressing", reason="Activating", phase_since=now() - timedelta(minutes=20)
    )

    text = page(operator_client, reverse("admin:index"))

    assert "1 waiting" in text
    assert reverse("admin:serverless_function_change", args=[function.pk]) in text


def test_function_without_capacity_has_equal_count_in_tile_group_and_list(
    operator_client: Client,
) -> None:
    function_row("starved")
    Function.objects.update(phase="Failed", reason="NoCapacity", message="No stock.")

    text = page(operator_client, reverse("admin:index"))
    listed = page(operator_client, FUNCTIONS, phase="Failed", reason="NoCapacity")

    assert "1 <small>failing</small>" in text
    assert f"{FUNCTIONS}?phase=Failed&amp;reason=NoCapacity" in text
    assert "starved" in listed


def test_global_search_finds_functions_and_invocations(operator_client: Client) -> None:
    function = function_row("needle")
    call = accept(function)

    found = page(operator_client, reverse("admin:search"), q="needle")
    by_id = page(operator_client, reverse("admin:search"), q=call.invocation_id)

    assert reverse("admin:serverless_function_change", args=[function.pk]) in found
    assert reverse("admin:serverless_invocation_change", args=[call.pk]) in by_id


def test_empty_list_explains_creation(operator_client: Client) -> None:
    assert "POST /api/v1/serverless/functions" in page(operator_client, FUNCTIONS)
    assert InvocationAdmin.empty_text in page(operator_client, INVOCATIONS)


def test_page_of_invocation_shows_steps_in_order(operator_client: Client) -> None:
    began = now()
    times = [began + timedelta(seconds=second) for second in range(5)]
    row = ended(
        function_row("echo"),
        attempts=2,
        worker="fn-1-1-0123abcd",
        accepted_at=began,
        published_at=times[0],
        stream_sequence=42,
        started_at=times[1],
        attempted_at=times[2],
        completed_at=times[3],
        stored_at=times[4],
        status_code=200,
        result_content_type="text/plain",
        result_body=b"hello back",
        result_bytes=10,
    )

    text = detail(operator_client, row)

    steps = ["Accepted", "In the queue", "Started", "Retried", "Response received", "Succeeded"]
    found = [step for step in re.findall(r"</svg>([^<]+)</span>", text) if step in steps]
    assert found[-len(steps) :] == steps
    assert "sequence 42 " in text
    assert "+ 4 s" in text
    assert "hello back" in text


@pytest.mark.parametrize("failure", list(FailureClass))
def test_every_failure_class_has_title(failure: FailureClass) -> None:
    assert failure_title(failure)


def test_page_of_failed_invocation_begins_with_next_step(
    operator_client: Client,
) -> None:
    row = ended(
        function_row("echo"),
        InvocationState.DEAD_LETTERED,
        failure_class="retry_exhausted",
        error="It was delivered 5 times.",
    )

    text = detail(operator_client, row)

    assert "It was delivered 5 times." in text
    assert escape(FAILURE_CLASSES["retry_exhausted"].next_step) in text
    title = failure_title("retry_exhausted")
    assert title in text
    assert "<time" in text.split(title)[1].split(" ago. ")[0]


def test_hostile_text_is_escaped(operator_client: Client, hostile_text: str) -> None:
    body = hostile_text.encode()
    row = ended(
        function_row("echo"),
        InvocationState.FAILED,
        failure_class="framework_error",
        error=hostile_text,
        payload=body,
        result_body=body,
        result_content_type=hostile_text[:60],
        status_code=500,
    )

    for text in (
        detail(operator_client, row),
        page(operator_client, INVOCATIONS),
        page(operator_client, FUNCTIONS),
    ):
        assert "<script>alert" not in text
        assert "\u202e" not in text


def test_credentials_in_headers_are_masked(operator_client: Client) -> None:
    headers = {"Authorization": "Bearer s3cr3t", "x-api-key": "s3cr3t", "X-Trace": "4711"}
    row = accept(function_row("echo"), headers=headers)

    text = detail(operator_client, row)

    assert "s3cr3t" not in text
    assert text.count(MASK) == 2
    assert "4711" in text


def test_a_payload_needs_a_permission_of_its_own() -> None:
    row = accept(function_row("echo"), payload="from a customer", headers={"X-Trace": "4711"})
    person = User.objects.create_user("viewer", is_staff=True)
    person.user_permissions.add(Permission.objects.get(codename="view_invocation"))
    client = Client()
    client.force_login(person)

    hidden = detail(client, row)
    person.user_permissions.add(Permission.objects.get(codename="reveal_invocation"))
    shown = detail(client, row)

    for text in ("from a customer", "4711"):
        assert text not in hidden
        assert text in shown


@pytest.mark.parametrize(
    "query", ["headers__X-Trace__startswith=4", "payload__isnull=0", "result_body__isnull=0"]
)
def test_no_filter_tells_what_the_hidden_columns_contain(query: str) -> None:
    accept(function_row("echo"), invocationID="order", headers={"X-Trace": "4711"})
    person = User.objects.create_user("viewer", is_staff=True)
    person.user_permissions.add(Permission.objects.get(codename="view_invocation"))
    client = Client()
    client.force_login(person)

    assert client.get(f"{INVOCATIONS}?{query}").status_code == 400


@pytest.mark.parametrize(
    ("group", "may"), [("viewer", False), ("operator", True), ("admin", True)]
)
def test_operators_read_payloads_and_viewers_do_not(group: str, may: bool) -> None:
    held = Group.objects.get(name=group).permissions.filter(codename="reveal_invocation")

    assert held.exists() == may


def test_filters_and_search_find_invocations(operator_client: Client) -> None:
    accept(function_row("one"), invocationID="first")
    ended(function_row("two"), InvocationState.CANCELLED)

    assert "first" in page(operator_client, INVOCATIONS, state="Queued", function="one")
    assert "first" not in page(operator_client, INVOCATIONS, state="Cancelled")
    assert "first" in page(operator_client, INVOCATIONS, q="fir")


def test_user_without_permission_is_rejected(viewer_client: Client) -> None:
    row = accept(function_row("echo"))
    address = reverse("admin:serverless_invocation_change", args=[row.pk])

    for url in (FUNCTIONS, INVOCATIONS, address):
        assert viewer_client.get(url).status_code == 403


def test_rows_cannot_be_edited(operator_client: Client, operator: User) -> None:
    row = accept(function_row("echo"))
    address = reverse("admin:serverless_invocation_change", args=[row.pk])

    assert operator_client.post(address, {}).status_code == 403
    assert Permission.objects.filter(codename="view_invocation").exists()


def test_navigation_has_functions_and_invocations(operator_client: Client) -> None:
    text = page(operator_client, reverse("admin:index"))

    assert f'href="{FUNCTIONS}"' in text
    assert f'href="{INVOCATIONS}"' in text
