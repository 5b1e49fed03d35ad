"""What the pages of functions and invocations explain: causes, limits, and what is waited for."""

import re

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries

from gpuplatform.clock import now
from serverless.models import Function, Invocation
from serverless.phases import InvocationState
from tests.admin.test_serverless import FUNCTIONS, INVOCATIONS, detail, ended, page
from tests.factories.serverless import accept, function_row
from tests.factories.unit_rows import PULL_FAILURE, stock_row, unit_row
from tests.fakes.installed import cluster
from units.models import UnitHistory
from units.phases import UnitPhase

__all__ = ["cluster"]

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("cluster")]


def test_the_page_of_a_function_shows_why_its_workers_fail(
    operator_client: Client,
) -> None:
    function = function_row("echo")
    worker = unit_row(UnitPhase.TERMINATING, name=f"fn-{function.pk}-1-0123abcd", deleted_at=now())
    UnitHistory.objects.create(unit=worker, phase="Failed", message=PULL_FAILURE)
    Function.objects.update(
        phase="Failed", reason="WorkerFailed", message=PULL_FAILURE, start_failures=4
    )

    text = detail(operator_client, function)
    stock_row()
    with_stock = detail(operator_client, function)
    overview = page(operator_client, reverse("admin:index"))
    found = page(operator_client, FUNCTIONS, why="WorkerFailed")
    other = page(operator_client, FUNCTIONS, why="NoCapacity")

    assert '<h2>Worker failed <code class="off">WorkerFailed</code></h2>' in text
    assert "4 in a row" in text
    assert "none is ready" in text
    assert "none is ready" not in with_stock
    assert reverse("admin:units_activeunit_change", args=[worker.pk]) in text
    assert f"{FUNCTIONS}?phase=Failed&amp;why=WorkerFailed" in overview
    assert reverse("admin:serverless_function_change", args=[function.pk]) in found
    assert reverse("admin:serverless_function_change", args=[function.pk]) not in other


def test_the_page_of_a_function_has_the_limits_that_apply(operator_client: Client) -> None:
    plain, other = function_row("plain"), function_row("other", maxDeliver=1, timeoutSeconds=90)

    of_plain, of_other = (detail(operator_client, row) for row in (plain, other))

    assert "0 to 1, each 1 invocation at a time" in of_plain
    assert "up to 5, after pauses of 2 s, 10 s, 30 s" in of_plain
    assert "30 s an invocation" in of_plain
    assert "after 5 min without work" in of_plain
    assert "1 min 30 s an invocation" in of_other
    assert "<dt>Tries</dt><dd><bdi>one</bdi>" in of_other


def test_an_answer_that_is_none_of_success_is_no_green_step(operator_client: Client) -> None:
    row = ended(
        function_row("echo"),
        InvocationState.FAILED,
        failure_class="framework_error",
        stored_at=now(),
        status_code=500,
    )

    text = detail(operator_client, row)

    assert re.search(r'class="phase failed"[^A]*</svg>Answered<', text)


def test_what_waits_says_for_what_its_function_waits(operator_client: Client) -> None:
    function = function_row("echo")
    first, second = accept(function), accept(function)
    Invocation.objects.update(published_at=now())
    Function.objects.update(phase="Failed", reason="WorkerFailed", message=PULL_FAILURE)

    listed = page(operator_client, INVOCATIONS)
    place = reverse("admin:serverless_function_change", args=[function.pk])
    oldest, newest = (detail(operator_client, row) for row in (first, second))

    assert listed.count("<bdi>Waits: Worker failed</bdi>") == 2
    for text in (oldest, newest):
        assert "<h2>Waits: Worker failed</h2>" in text
        assert f'<a href="{place}">echo</a>: ' in text
    assert "1 other was accepted before it." in newest
    assert "before it." not in oldest


def test_what_waits_for_busy_workers_is_no_trouble(operator_client: Client) -> None:
    row = accept(function_row("echo"))
    Invocation.objects.update(published_at=now())
    Function.objects.update(phase="Ready", reason="Serving", message="1 worker is ready.")

    assert "Waits: " not in page(operator_client, INVOCATIONS)
    assert "<h2>Waits for a worker</h2>" in detail(operator_client, row)


@pytest.mark.parametrize("is_gone", [True, False])
def test_a_failure_leads_to_the_log_of_its_worker_while_there_is_one(
    operator_client: Client, is_gone: bool
) -> None:
    unit = unit_row(name="fn-1-1-0123abcd", deleted_at=now() if is_gone else None)
    row = ended(
        function_row("echo"),
        InvocationState.FAILED,
        failure_class="framework_error",
        worker=unit.name,
    )

    text = detail(operator_client, row)

    assert ("see its log</a>" in text) is not is_gone
    assert ("Its worker is gone, and its log with it." in text) is is_gone


def test_no_answer_has_no_card_and_an_empty_one_says_so(operator_client: Client) -> None:
    function = function_row("echo")
    lost = {"failure_class": "framework_timeout", "result_body": b""}
    expired = ended(function, InvocationState.EXPIRED, **lost)
    empty = ended(function, status_code=204, result_body=b"")

    assert "Answer" not in detail(operator_client, expired)
    assert "<dt>Answer</dt><dd><bdi>empty</bdi>" in detail(operator_client, empty)


def test_a_state_has_the_same_words_in_tab_list_and_page(operator_client: Client) -> None:
    row = ended(function_row("echo"), InvocationState.DEAD_LETTERED)

    for text in (page(operator_client, INVOCATIONS), detail(operator_client, row)):
        assert "</svg>Dead-lettered</span>" in text
        assert "</svg>DeadLettered" not in text


def test_the_pages_take_few_queries_whatever_there_is(
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
        with django_assert_max_num_queries(12):
            detail(operator_client, row)
