"""Causes, limits and blocked invocations on the pages of functions and invocations."""

import re

import pytest
from django.test import Client
from django.urls import reverse
from django.utils.html import escape
from pytest_django import DjangoAssertNumQueries

from gpuplatform.clock import now
from gpuplatform.workloads.causes import StartupCause
from serverless.models import Function, Invocation, WebhookSecret
from serverless.phases import WORKER_CAUSES, InvocationState
from serverless.services.webhooks import Attempt, webhook_record, webhooks_claim
from serverless.webhook_phases import WEBHOOK_FAILURES, WebhookFailure
from tests.admin.test_serverless import FUNCTIONS, INVOCATIONS, detail, ended, page
from tests.factories.serverless import accept, function_row
from tests.factories.unit_rows import PULL_FAILURE, stock_row, unit_row
from tests.fakes.installed import cluster
from units.models import UnitHistory
from units.phases import UnitPhase

__all__ = ["cluster"]

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("cluster")]


CAUSE = StartupCause.IMAGE_PULL_FAILED
TITLE = WORKER_CAUSES[CAUSE].title


def fact(text: str, label: str) -> str:
    """Return the value of a fact on a page, or an empty string if the page omits it."""
    found = re.search(rf"<dt>{label}</dt><dd><bdi>([^<]*)", text)
    return found[1] if found else ""


def test_page_of_function_shows_cause_of_failed_workers(
    operator_client: Client,
) -> None:
    function = function_row("echo")
    worker = unit_row(UnitPhase.TERMINATING, name=f"fn-{function.pk}-1-0123abcd", deleted_at=now())
    UnitHistory.objects.create(unit=worker, phase="Failed", message=PULL_FAILURE)
    Function.objects.update(
        phase="Failed",
        reason="WorkerFailed",
        cause=CAUSE,
        message=PULL_FAILURE,
        start_failures=4,
    )

    text = detail(operator_client, function)
    stock_row()
    with_stock = detail(operator_client, function)
    overview = page(operator_client, reverse("admin:index"))
    found = page(operator_client, FUNCTIONS, reason=f"WorkerFailed:{CAUSE}")
    other = page(operator_client, FUNCTIONS, reason=f"WorkerFailed:{StartupCause.OUT_OF_MEMORY}")

    assert f'<h2>{TITLE} <code class="off">WorkerFailed</code></h2>' in text
    assert escape(WORKER_CAUSES[CAUSE].next_step) in text
    assert fact(text, "Failed starts") == "4 in a row"
    assert fact(text, "Stock for the next start")
    assert not fact(with_stock, "Stock for the next start")
    assert reverse("admin:units_activeunit_change", args=[worker.pk]) in text
    assert f"{FUNCTIONS}?phase=Failed&amp;reason=WorkerFailed%3A{CAUSE}" in overview
    assert reverse("admin:serverless_function_change", args=[function.pk]) in found
    assert reverse("admin:serverless_function_change", args=[function.pk]) not in other


def test_page_of_function_shows_effective_limits(operator_client: Client) -> None:
    plain, other = function_row("plain"), function_row("other", maxDeliver=1, timeoutSeconds=90)

    of_plain, of_other = (detail(operator_client, row) for row in (plain, other))

    assert re.findall(r"\d+", fact(of_plain, "Workers")) == ["0", "1", "1"]
    assert re.findall(r"\d+", fact(of_plain, "Attempts")) == ["5", "2", "10", "30"]
    assert fact(of_plain, "Timeout").startswith("30 s")
    assert "5 min" in fact(of_plain, "Idle timeout")
    assert fact(of_other, "Timeout").startswith("1 min 30 s")
    assert fact(of_other, "Attempts") == "1"


def test_response_with_error_status_is_failed_step(operator_client: Client) -> None:
    row = ended(
        function_row("echo"),
        InvocationState.FAILED,
        failure_class="framework_error",
        stored_at=now(),
        status_code=500,
    )

    text = detail(operator_client, row)

    assert re.search(r'class="phase failed"[^A]*</svg>Response received<', text)


def test_queued_invocation_shows_why_function_is_blocked(operator_client: Client) -> None:
    function = function_row("echo")
    first, second = accept(function), accept(function)
    Invocation.objects.update(published_at=now())
    Function.objects.update(
        phase="Failed", reason="WorkerFailed", cause=CAUSE, message=PULL_FAILURE
    )

    listed = page(operator_client, INVOCATIONS)
    place = reverse("admin:serverless_function_change", args=[function.pk])
    oldest, newest = (detail(operator_client, row) for row in (first, second))

    assert listed.count(f"<bdi>Waiting: {TITLE}</bdi>") == 2
    for text in (oldest, newest):
        assert f"<h2>Waiting: {TITLE}</h2>" in text
        assert f'<a href="{place}">echo</a>: ' in text
    assert "1 invocation is ahead of this one." in newest
    assert "ahead of this one." not in oldest


def test_queued_invocation_of_ready_function_is_not_blocked(operator_client: Client) -> None:
    row = accept(function_row("echo"))
    Invocation.objects.update(published_at=now())
    Function.objects.update(phase="Ready", reason="Serving", message="1 worker is ready.")

    assert "Waiting: " not in page(operator_client, INVOCATIONS)
    assert "<h2>Waiting for a worker</h2>" in detail(operator_client, row)


@pytest.mark.parametrize("is_deleted", [True, False], ids=["deleted", "existing"])
def test_failure_links_to_log_of_existing_worker(
    operator_client: Client, is_deleted: bool
) -> None:
    unit = unit_row(name="fn-1-1-0123abcd", deleted_at=now() if is_deleted else None)
    row = ended(
        function_row("echo"),
        InvocationState.FAILED,
        failure_class="framework_error",
        worker=unit.name,
    )

    text = detail(operator_client, row)

    log_link = (
        f'<a href="{reverse("admin:units_activeunit_change", args=[unit.pk])}">View its log</a>'
    )
    assert (log_link in text) is not is_deleted


def test_response_is_shown_only_if_there_is_one(operator_client: Client) -> None:
    function = function_row("echo")
    lost = {"failure_class": "framework_timeout", "result_body": b""}
    expired = ended(function, InvocationState.EXPIRED, **lost)
    empty = ended(function, status_code=204, result_body=b"")

    assert "Response" not in detail(operator_client, expired)
    assert "<dt>Response body</dt><dd><bdi>empty</bdi>" in detail(operator_client, empty)


def test_state_has_same_label_in_tab_list_and_page(operator_client: Client) -> None:
    row = ended(function_row("echo"), InvocationState.DEAD_LETTERED)

    for text in (page(operator_client, INVOCATIONS), detail(operator_client, row)):
        assert "</svg>Dead-lettered</span>" in text
        assert "</svg>DeadLettered" not in text


def test_number_of_queries_of_pages_is_bounded(
    operator_client: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    function = function_row("echo")
    for number in range(20):
        unit_row(name=f"fn-{function.pk}-1-{number:08x}", spec={"serverless": {}})
        ended(function, InvocationState.FAILED, failure_class="framework_error")
    Function.objects.update(
        phase="Failed", reason="WorkerFailed", message=PULL_FAILURE, start_failures=4
    )
    waiting = accept(function)
    detail(operator_client, function)

    for row in (function, waiting):
        with django_assert_max_num_queries(13):
            detail(operator_client, row)


def test_page_of_invocation_shows_webhook_without_its_path(operator_client: Client) -> None:
    function = function_row("echo", onDone={"url": "https://example.com/hooks/s3cret?k=s3cret"})
    WebhookSecret.objects.create(function=function, salt="s4lt")
    row = ended(function, InvocationState.FAILED, failure_class="framework_error")
    attempt = Attempt(now(), 0.1, 500, WebhookFailure.BAD_STATUS)
    (claimed,) = webhooks_claim(1, busy={}, per_function=1)
    webhook_record(claimed, attempt)

    text = detail(operator_client, row)
    of_function = detail(operator_client, function)
    listed = page(operator_client, INVOCATIONS, webhook="Pending")
    others = page(operator_client, INVOCATIONS, webhook="Failed")

    assert fact(text, "Webhook") == fact(of_function, "Webhook") == "https://example.com/…"
    assert fact(text, "Webhook state") == "Pending"
    assert fact(text, "Webhook delivery") == str(claimed.webhook_id)
    assert escape(WEBHOOK_FAILURES[WebhookFailure.BAD_STATUS].meaning) in text
    assert not any("s3cret" in one or "s4lt" in one for one in (text, of_function))
    assert row.invocation_id in listed
    assert row.invocation_id not in others
