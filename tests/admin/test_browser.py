"""Browser tests of the login, the Content Security Policy and the layout of all pages."""

import os
import re
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.models import Group, User
from django.db import connections
from django.db.models import Model
from django.urls import reverse
from django_celery_beat.models import CrontabSchedule, IntervalSchedule, PeriodicTask
from playwright.sync_api import Browser, Dialog, Page, expect, sync_playwright
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from gpuplatform.audit.models import AuditEntry, Outcome
from gpuplatform.audit.services.entries import Entry, entry_insert
from gpuplatform.clock import now
from gpuplatform.kube.errors import ClusterUnavailable
from gpuplatform.kube.kinds import GPU_UNIT
from gpuplatform.operations.driver import run as run_operation
from gpuplatform.operations.models import Operation
from gpuplatform.tenancy.models import Scope
from gpuplatform.tenancy.selectors import tenant_by_name
from gpuplatform.tenancy.services import token_create
from inventory.phases import PoolPhase
from tests.factories.admin_rows import Rows
from tests.factories.node_rows import node_row, pod_of
from tests.factories.unit_rows import spec_row, stock_row, unit_row
from tests.fakes.cluster import FakeCluster
from tests.fakes.installed import cluster
from tests.fakes.unit_world import release
from units.models import ActiveUnit, GpuUnit, StockUnit
from units.phases import UnitPhase

__all__ = ["cluster"]

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
REPORT_VIOLATIONS = """
document.addEventListener("securitypolicyviolation", (event) =>
  console.error(`CSP ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}`));
"""

MADE = ("inventory_gpuspec", "inventory_stockpool", "units_stockunit")
"""Rows that forms of the platform create."""
SLOW_MS = 120_000
"""The timeout for Swagger UI, which takes long to render on a busy machine."""

IN_A_BROWSER = [
    pytest.mark.browser,
    pytest.mark.long,
    pytest.mark.django_db(transaction=True, serialized_rollback=True),
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium"),
]
"""The marks of all browser tests."""

pytestmark = IN_A_BROWSER


@pytest.fixture
def browser(django_db_setup: None) -> Iterator[Browser]:
    # One browser per test: while Playwright's event loop runs in this thread, Django would reject
    # database connections, and the fixture closes those of the event loop.
    with pytest.MonkeyPatch.context() as patch, sync_playwright() as playwright:
        patch.setitem(os.environ, "DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()
        connections.close_all()


class Visit:
    """A tab that records all errors and warnings of the browser."""

    def __init__(self, page: Page, server: str) -> None:
        self.page = page
        self.complaints: list[str] = []
        self._server = server
        page.on("console", self._note)
        page.on("pageerror", lambda error: self.complaints.append(f"{page.url}: {error}"))
        page.on("request", self._only_ours)
        page.add_init_script(REPORT_VIOLATIONS)

    def open(self, path: str) -> int:
        """Open a page and wait until it is loaded."""
        response = self.page.goto(self._server + path, wait_until="load")
        assert response is not None
        return response.status

    def log_in(self, name: str, password: str) -> None:
        """Log in with the form."""
        self.open(reverse("admin:login"))
        self.page.fill("[name=username]", name)
        self.page.fill("[name=password]", password)
        self.page.click("input[type=submit]")
        self.page.wait_for_load_state("load")

    def _note(self, message: Any) -> None:
        if message.type in {"error", "warning"}:
            self.complaints.append(f"{self.page.url}: {message.text}")

    def _only_ours(self, request: Any) -> None:
        if not request.url.startswith((self._server, "data:")):
            self.complaints.append(f"{self.page.url} asks {request.url}")


@pytest.fixture
def visit(browser: Browser, live_server: LiveServer) -> Iterator[Visit]:
    context = browser.new_context(viewport={"width": 360, "height": 740})
    yield Visit(context.new_page(), live_server.url)
    context.close()


def _audit_paths() -> list[str]:
    """Return the URLs of the list and of an entry of the audit log."""
    changes = [{"field": "template.envs[KEY].value", "from": "(hidden)", "to": "x" * 200}]
    entry_insert(Entry(outcome=Outcome.ACCEPTED, verb="update", name="a" * 253, changes=changes))
    entry = AuditEntry.objects.latest("pk")
    name = "admin:audit_auditentry"
    return [reverse(f"{name}_changelist"), reverse(f"{name}_change", args=[entry.pk])]


def _paths(rows: Rows, user: User) -> list[str]:
    """Return the URLs of all kinds of pages of all models, with rows that have long values."""
    interval = IntervalSchedule.objects.create(every=45, period=IntervalSchedule.SECONDS)
    crontab = CrontabSchedule.objects.create(minute="15", hour="3")
    task = PeriodicTask.objects.create(name="x", task="gone.task", interval=interval)
    operation = rows.operation("Failed")
    pool = rows.pool(PoolPhase.FAILED, operation=operation, reason="NameConflict")
    pages = ["index", "login", "password_change", "password_change_done"]
    paths = [reverse(f"admin:{page}") for page in pages]
    paths.append(reverse("admin:app_list", args=["inventory"]))
    paths += [reverse("admin:search"), f"{reverse('admin:search')}?q=pool"]
    paths += [reverse("admin:usage_usagerecord_changelist"), *_audit_paths()]
    paths += ["/api/v1/operator/stockpools", "/api/v1/gpu-units", "/api/v1/operator/inventory"]
    stock = StockUnit.objects.get(pk=stock_row(UnitPhase.FAILED, operation=operation).pk)
    unit = ActiveUnit.objects.get(
        pk=unit_row(UnitPhase.FAILED, source_uid=stock.uid, operation=operation).pk
    )
    spec = spec_row(warm_target=2, product="NVIDIA-H100-80GB-HBM3")
    node = node_row(pods=[pod_of(unit), pod_of(stock), pod_of(None)], is_schedulable=False)
    token, _ = token_create(tenant=operation.tenant, name="ci", scopes=(Scope.USER,))
    paths.append(reverse("admin:tenancy_apitoken_add"))
    shown: tuple[Model, ...] = (pool, operation, operation.tenant, stock, unit, spec, node, token)
    for row in shown:
        name = f"admin:{row._meta.app_label}_{row._meta.model_name}"
        paths += [reverse(f"{name}_changelist"), reverse(f"{name}_change", args=[row.pk])]
        LogEntry.objects.log_actions(user.pk, [row], CHANGE, f"Asked for by '{'a' * 40}'.")
        paths.append(reverse(f"{name}_history", args=[row.pk]))
    paths += [reverse(f"admin:{name}_add") for name in MADE]
    edited = (task, interval, crontab, user, Group.objects.create(name="g"))
    for row in edited:
        name = f"admin:{row._meta.app_label}_{row._meta.model_name}"
        paths += [reverse(f"{name}_changelist"), reverse(f"{name}_add")]
        kinds = ("change", "delete", "history")
        paths += [reverse(f"{name}_{kind}", args=[row.pk]) for kind in kinds]
    paths.append(reverse("admin:auth_user_password_change", args=[user.pk]))
    return paths


def test_every_page_obeys_the_content_policy_and_fits_a_phone(
    visit: Visit, rows: Rows, operator: User, password: str
) -> None:
    visit.log_in("operator", password)
    wide: list[str] = []

    for path in _paths(rows, operator):
        assert visit.open(path) == 200, path
        if visit.page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            wide.append(path)

    assert visit.complaints == []
    assert wide == []


def test_hostile_text_is_escaped(
    visit: Visit, rows: Rows, operator: User, password: str, hostile_text: str
) -> None:
    pool = rows.pool(PoolPhase.FAILED, reason="Bad", message=hostile_text)
    dialogs: list[str] = []

    def note(dialog: Dialog) -> None:
        dialogs.append(dialog.message)
        dialog.dismiss()

    visit.page.on("dialog", note)
    visit.log_in("operator", password)

    visit.open(reverse("admin:inventory_stockpool_changelist"))
    visit.open(reverse("admin:inventory_stockpool_change", args=[pool.pk]))

    expect(visit.page.locator("#live-detail .panel .words")).to_contain_text(
        "<script>alert(1)</script>"
    )
    assert dialogs == []
    assert visit.complaints == []


def test_a_wrong_password_is_an_error(visit: Visit, operator: User) -> None:
    visit.log_in("operator", "wrong")

    expect(visit.page.locator(".errornote")).to_be_visible()


def test_keyboard_reaches_the_content_first(
    visit: Visit, rows: Rows, operator: User, password: str
) -> None:
    visit.log_in("operator", password)

    visit.page.keyboard.press("Tab")

    focused = visit.page.locator(":focus")
    expect(focused).to_have_text("Skip to main content")
    expect(focused).to_be_in_viewport()


def test_a_list_is_refreshed_automatically(
    visit: Visit, rows: Rows, operator: User, password: str
) -> None:
    pool = rows.pool(PoolPhase.PROGRESSING)
    visit.log_in("operator", password)
    visit.open(reverse("admin:inventory_stockpool_changelist"))
    row = visit.page.locator("#result_list tbody tr")
    expect(row).to_contain_text("Starting")

    type(pool).objects.filter(pk=pool.pk).update(phase=PoolPhase.READY)

    expect(row).to_contain_text("Ready", timeout=15_000)
    assert visit.complaints == []


def test_a_new_interval_is_created_and_selected_in_a_popup(
    visit: Visit, operator: User, password: str
) -> None:
    visit.log_in("operator", password)
    visit.open(reverse("admin:django_celery_beat_periodictask_add"))

    with visit.page.expect_popup() as popup:
        visit.page.click("#add_id_interval")
    popup.value.fill("[name=every]", "77")
    popup.value.select_option("[name=period]", "seconds")
    popup.value.click("[name=_save]")

    chosen = visit.page.locator("#id_interval option:checked")
    expect(chosen).to_have_text(re.compile("every 77 seconds"))
    assert visit.complaints == []


def test_a_printed_page_is_light_and_has_no_controls(
    visit: Visit, rows: Rows, operator: User, password: str
) -> None:
    visit.log_in("operator", password)
    visit.page.emulate_media(media="print", color_scheme="dark")
    visit.open(reverse("admin:inventory_stockpool_change", args=[rows.pool(PoolPhase.FAILED).pk]))

    expect(visit.page.locator("#live-detail .panel")).to_be_visible()
    expect(visit.page.locator("#live-detail .panel")).to_have_css("color", "rgb(24, 32, 42)")
    for hidden in (".nav", ".top", ".head .actions", ".head .log"):
        expect(visit.page.locator(hidden)).to_be_hidden()


def test_swagger_obeys_the_content_policy_and_links_to_the_admin(visit: Visit) -> None:
    visit.page.set_default_timeout(SLOW_MS)
    visit.open(reverse("swagger"))
    expect(visit.page.locator("#operations-Stock_pools-listStockPools")).to_be_visible()

    assert visit.complaints == []
    visit.page.click("text=Admin")
    expect(visit.page).to_have_title(re.compile("Log in"))


def test_authorize_in_swagger_sends_the_token(visit: Visit, settings: Settings) -> None:
    settings.GPUPLATFORM_DEV = False  # Requests need a token.
    _, secret = token_create(tenant=tenant_by_name(), name="ci", scopes=(Scope.OPERATOR,))
    page = visit.page
    page.set_default_timeout(SLOW_MS)
    visit.open(reverse("swagger"))
    page.click("#operations-Stock_pools-listStockPools .opblock-summary-control")
    page.click("#operations-Stock_pools-listStockPools .try-out__btn")
    answered = page.locator("#operations-Stock_pools-listStockPools .live-responses-table")

    page.click("#operations-Stock_pools-listStockPools .execute")
    expect(answered).to_contain_text("unauthenticated")

    page.click(".scheme-container .authorize")
    page.fill(".auth-container input", secret)
    page.click(".auth-container .auth-btn-wrapper .authorize")
    page.click(".auth-container .btn-done")
    page.click("#operations-Stock_pools-listStockPools .execute")

    expect(answered.locator("tr.response td.response-col_status")).to_contain_text("200")
    expect(answered).to_contain_text('"data": []')


def test_stock_is_seeded_from_a_specs_page_and_its_progress_is_shown(
    visit: Visit, cluster: FakeCluster, operator: User, password: str
) -> None:
    spec = spec_row(gpu=2)
    page = visit.page
    visit.log_in("operator", password)
    visit.open(reverse("admin:inventory_gpuspec_change", args=[spec.pk]))

    page.click("text=Seed stock")
    page.fill("[name=replicas]", "0")
    page.click("text=Continue")
    expect(page.locator(".errorlist")).to_be_visible()
    page.fill("[name=replicas]", "3")
    page.click("text=Continue")
    expect(page.locator(".consequence")).to_contain_text("6 GPUs")
    page.click("button[name=key]")
    page.click(".messagelist a")
    facts = page.locator(".facts").first
    expect(facts).to_contain_text("0 of 3")

    job = Operation.objects.get()
    away = ClusterUnavailable("connection refused")
    _fail_at(cluster, 3, away)
    run_operation(job.pk)
    expect(facts).to_contain_text("2 of 3", timeout=15_000)
    release(job)
    run_operation(job.pk)
    expect(facts).to_contain_text("3 of 3", timeout=15_000)
    expect(page.locator("h1 + span")).to_contain_text("Succeeded")
    assert visit.complaints == []


def _fail_at(cluster: FakeCluster, post: int, error: ClusterUnavailable) -> None:
    """Let a POST to the cluster fail, including its immediate retry."""
    posts = 0

    def count(verb: str, kind: object) -> None:
        nonlocal posts
        posts += verb == "create" and kind == GPU_UNIT
        if posts == post:
            cluster.on_call = None
            cluster.fail("create", GPU_UNIT, error, times=2)

    cluster.on_call = count


def test_units_are_deleted_after_the_consequence_was_confirmed(
    visit: Visit, cluster: FakeCluster, operator: User, password: str
) -> None:
    units = [unit_row(gpu=2), unit_row(gpu=2), unit_row(deletion_requested_at=now())]
    page = visit.page
    visit.log_in("operator", password)
    visit.open(reverse("admin:units_activeunit_changelist"))

    page.check("#action-toggle")
    page.select_option("[name=action]", "delete")
    page.click("button[name=index]")
    expect(page.locator(".consequence")).to_contain_text("4 GPUs")
    expect(page.locator(".card h2").first).to_contain_text("1")
    assert not Operation.objects.exists()
    page.click("button[name=key]")

    expect(page.locator(".results tr")).to_have_count(2)
    expect(page.locator(".results")).to_contain_text("Accepted")
    page.reload()  # Sends the form again.
    expect(page.locator(".results tr")).to_have_count(2)
    assert Operation.objects.count() == 2
    terminating = GpuUnit.objects.filter(phase=UnitPhase.TERMINATING)
    assert set(terminating.values_list("pk", flat=True)) == {row.pk for row in units[:2]}
    assert visit.complaints == []


def test_a_viewer_sees_no_button_and_is_rejected(
    visit: Visit, cluster: FakeCluster, rows: Rows, operator: User, password: str
) -> None:
    pool = rows.pool()
    page = visit.page
    visit.log_in("operator", password)
    visit.open(reverse("admin:inventory_stockpool_change", args=[pool.pk]))
    page.click("button:has-text('Delete')")

    operator.is_superuser = False
    operator.save()
    operator.groups.add(Group.objects.get(name="viewer"))
    page.click("button[name=key]")

    expect(page.locator("h1")).not_to_have_text(pool.name)
    visit.open(reverse("admin:inventory_stockpool_change", args=[pool.pk]))
    expect(page.locator("h1")).to_have_text(pool.name)
    expect(page.locator("[formaction]")).to_have_count(0)
    assert not Operation.objects.exists()
