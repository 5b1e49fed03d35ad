"""Browser tests of the page header."""

import re
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.urls import reverse
from playwright.sync_api import expect

from gpuplatform.clock import now
from gpuplatform.reconciliation.models import ClusterState
from tests.admin.test_browser import IN_A_BROWSER, Visit, browser, visit
from tests.fakes.installed import cluster

__all__ = ["browser", "cluster", "visit"]

UNITS = reverse("admin:units_activeunit_changelist")
SURFACE = {"light": "rgb(255, 255, 255)", "dark": "rgb(22, 27, 34)"}

pytestmark = [*IN_A_BROWSER, pytest.mark.usefixtures("cluster")]


def test_the_choice_of_light_or_dark_is_stored(
    visit: Visit, operator: User, password: str
) -> None:
    visit.page.emulate_media(color_scheme="light")
    visit.log_in("operator", password)
    visit.open(UNITS)
    head, switch = visit.page.locator(".top"), visit.page.locator("button[data-scheme]")

    expect(head).to_have_css("background-color", SURFACE["light"])
    switch.press("Enter")
    expect(head).to_have_css("background-color", SURFACE["dark"])
    expect(switch).to_have_text("Light")

    visit.open(UNITS)
    expect(head).to_have_css("background-color", SURFACE["dark"])
    switch.click()
    expect(head).to_have_css("background-color", SURFACE["light"])
    assert visit.page.evaluate("localStorage.length") == 0
    assert visit.complaints == []


def test_the_health_badge_of_each_page_links_to_the_overview(
    visit: Visit, operator: User, password: str
) -> None:
    visit.log_in("operator", password)
    visit.open(UNITS)
    badge = visit.page.locator(".top .health-badge")

    expect(badge).to_have_text(re.compile("unhealthy|Healthy|Not all parts"))
    badge.click()

    expect(visit.page.locator("h1")).to_have_text("Overview")
    expect(badge).to_be_hidden()
    assert visit.complaints == []


def test_a_banner_shows_the_age_of_the_data_while_the_cluster_is_unavailable(
    visit: Visit, operator: User, password: str
) -> None:
    visit.log_in("operator", password)
    banner = visit.page.locator("main #away")

    visit.open(UNITS)
    expect(visit.page.locator(".top .health-badge .phase")).to_be_visible()
    expect(banner).to_be_hidden()
    seen = now() - timedelta(minutes=3)
    away = {"error": "cut", "failures": 1, "seen_at": seen}
    ClusterState.objects.update_or_create(pk=ClusterState.SINGLETON, defaults=away)
    visit.open(UNITS)

    expect(banner).to_contain_text("3 min ago")
    assert visit.complaints == []
