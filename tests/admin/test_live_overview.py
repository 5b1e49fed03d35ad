"""The overview in a real browser: from healthy to failing and back, without a reload."""

import pytest
from django.contrib.auth.models import User
from django.urls import reverse
from playwright.sync_api import expect

from gpuplatform.clock import now
from gpuplatform.reconciliation.heartbeats import Part, report_heartbeat
from gpuplatform.samples.models import PlatformSample
from inventory.models import StockPool
from inventory.phases import PoolPhase
from tests.admin.test_browser import CHROMIUM, Visit, browser, visit
from tests.factories.admin_rows import Rows

__all__ = ["browser", "visit"]

pytestmark = [
    pytest.mark.browser,
    pytest.mark.long,
    pytest.mark.django_db(transaction=True, serialized_rollback=True),
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium"),
]

SOON = 20_000
IS_SAME_PAGE = "window.wasHere === true"


def _all_is_well() -> None:
    for part in Part:
        report_heartbeat(part)
    PlatformSample.objects.create(
        at=now(),
        seconds=30.0,
        accepted=2,
        failed=0,
        hour_claims=0,
        day_claims=0,
    )


def test_overview_goes_from_healthy_to_failing_to_healed_without_a_reload(
    visit: Visit, rows: Rows, operator: User, password: str
) -> None:
    _all_is_well()
    pool = rows.pool()
    visit.log_in("operator", password)
    page = visit.page
    visit.open(reverse("admin:index"))
    page.evaluate("window.wasHere = true")
    summary = page.locator("#live-summary")
    failing = page.locator("#live-failing")
    expect(summary).to_have_text("Healthy")
    expect(failing).to_contain_text("Nothing has failed.")

    failed = {"phase": PoolPhase.FAILED, "reason": "PodStartupFailed", "message": "no such image"}
    StockPool.objects.filter(pk=pool.pk).update(**failed)

    expect(failing).to_contain_text("no such image", timeout=SOON)
    expect(failing).to_contain_text("1 pool")
    expect(page.locator("#live-tiles")).to_contain_text("1 failing")

    _all_is_well()
    StockPool.objects.filter(pk=pool.pk).update(phase=PoolPhase.READY, reason="", message="")

    expect(failing).to_contain_text("Nothing has failed.", timeout=SOON)
    assert page.evaluate(IS_SAME_PAGE)
    assert visit.complaints == []


def test_page_that_gets_no_answer_says_so_until_it_does(
    visit: Visit, rows: Rows, operator: User, password: str
) -> None:
    visit.log_in("operator", password)
    page = visit.page
    visit.open(reverse("admin:index"))
    stale = page.locator(".stale")
    expect(stale).to_have_count(0)

    page.route("**/admin/", lambda route: route.abort())
    expect(stale).to_contain_text("The server does not answer.", timeout=SOON)

    page.unroute("**/admin/")
    expect(stale).to_have_count(0, timeout=SOON)


def test_page_of_somebody_who_is_logged_out_says_so(
    visit: Visit, rows: Rows, operator: User, password: str
) -> None:
    visit.log_in("operator", password)
    visit.open(reverse("admin:index"))

    visit.page.context.clear_cookies()

    stale = visit.page.locator(".stale")
    expect(stale).to_contain_text("You are no longer logged in.", timeout=SOON)


def test_a_hidden_tab_asks_nothing_and_asks_at_once_when_it_is_seen_again(
    visit: Visit, rows: Rows, operator: User, password: str
) -> None:
    visit.log_in("operator", password)
    page = visit.page
    page.clock.install()
    visit.open(reverse("admin:index"))
    page.evaluate(
        "Object.defineProperty(document, 'hidden', {get: () => window.isAway, configurable: true})"
    )
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))

    page.evaluate("window.isAway = true")
    page.clock.run_for(60_000)
    assert asked == []

    with page.expect_request("**/admin/"):
        page.evaluate("window.isAway = false")
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
