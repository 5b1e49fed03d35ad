"""Browser tests of the refresh of the overview."""

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


def test_the_overview_shows_a_failure_and_its_recovery_without_a_reload(
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

    expect(failing.locator(".empty")).to_be_visible(timeout=SOON)
    assert page.evaluate(IS_SAME_PAGE)
    assert visit.complaints == []


def test_a_page_without_a_response_shows_a_banner_until_it_gets_one(
    visit: Visit, rows: Rows, operator: User, password: str
) -> None:
    visit.log_in("operator", password)
    page = visit.page
    visit.open(reverse("admin:index"))
    stale = page.locator(".stale")
    expect(stale).to_have_count(0)

    page.route("**/admin/", lambda route: route.abort())
    expect(stale).to_be_visible(timeout=SOON)

    page.unroute("**/admin/")
    expect(stale).to_have_count(0, timeout=SOON)


def test_a_page_shows_a_banner_after_the_session_ended(
    visit: Visit, rows: Rows, operator: User, password: str
) -> None:
    visit.log_in("operator", password)
    visit.open(reverse("admin:index"))

    visit.page.context.clear_cookies()

    stale = visit.page.locator(".stale")
    expect(stale).to_contain_text("logged out", timeout=SOON)


def test_a_hidden_tab_does_not_poll_until_it_is_visible(
    visit: Visit, rows: Rows, operator: User, password: str
) -> None:
    visit.log_in("operator", password)
    page = visit.page
    page.clock.install()
    visit.open(reverse("admin:index"))
    page.evaluate(
        "Object.defineProperty(document, 'hidden', {get: () => window.isAway, configurable: true})"
    )
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))

    page.evaluate("window.isAway = true")
    page.clock.run_for(60_000)
    assert requests == []

    with page.expect_request("**/admin/"):
        page.evaluate("window.isAway = false")
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
