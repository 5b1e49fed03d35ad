"""The overview: failures and their causes, health, capacity and charts."""

import html
import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries, Settings

from gpuplatform.adminkit.display.badges import Shape
from gpuplatform.adminkit.overview import failing, sections
from gpuplatform.clock import now
from gpuplatform.operations.phases import OperationPhase
from gpuplatform.reconciliation.models import ClusterState
from gpuplatform.samples.capacity import Capacity, ProductCapacity, SpecCapacity
from gpuplatform.samples.models import CapacitySnapshot, PlatformSample
from gpuplatform.samples.services import capacity_store
from gpuplatform.workloads.causes import FAILURE_CAUSES
from gpuplatform.workloads.resources import GPU_RESOURCE
from inventory.phases import PoolPhase
from tests.factories.admin_rows import Rows
from tests.factories.admin_steps import numbers
from tests.factories.unit_rows import stock_row, unit_row
from units.phases import UnitPhase

INDEX = reverse("admin:index")
MOST_QUERIES = 13

pytestmark = pytest.mark.django_db


def _page(client: Client, url: str = INDEX) -> str:
    response = client.get(url)
    assert response.status_code == 200, response
    return response.content.decode()


def _context(client: Client) -> Any:
    return client.get(INDEX).context


def _sample(**changes: Any) -> PlatformSample:
    columns: dict[str, Any] = {
        "at": now() - timedelta(seconds=10),
        "seconds": 30.0,
        "accepted": 0,
        "failed": 0,
        "hour_claims": 0,
        "day_claims": 0,
    }
    return PlatformSample.objects.create(**{**columns, **changes})


def _count(group: failing.FailingGroup) -> int:
    return group.count


class TestFailing:
    def test_failures_of_one_reason_are_one_group_with_the_newest_message(
        self, operator_client: Client, rows: Rows
    ) -> None:
        for age, message in ((9, "the oldest"), (2, "the newest <b>text</b>"), (5, "old")):
            since = now() - timedelta(minutes=age)
            rows.pool(PoolPhase.FAILED, message=message, phase_since=since)
        rows.pool(PoolPhase.FAILED, reason="NameConflict", message="in the way")

        page = _page(operator_client)

        assert "the newest &lt;b&gt;text&lt;/b&gt;" in page
        assert "the oldest" not in page
        first, second = sorted(_context(operator_client)["failing"].groups, key=_count)
        assert [(first.count, first.others), (second.count, second.others)] == [(1, ""), (3, "2")]
        assert ">9 min<" in second.first
        assert "/stockpool/?phase=Failed&amp;reason=NameConflict" in page

    def test_each_cause_is_a_group_and_a_filter_of_its_list(self, operator_client: Client) -> None:
        for cause in FAILURE_CAUSES:
            unit_row(UnitPhase.FAILED, name=f"of-{cause.lower()}", cause=cause)

        page = _page(operator_client)

        for cause, explanation in FAILURE_CAUSES.items():
            assert explanation.title in html.unescape(page)
            (href,) = re.findall(f'href="([^"]+reason=PodStartupFailed%3A{cause})"', page)
            listed = html.unescape(_page(operator_client, html.unescape(href)))
            assert re.findall(">of-([a-z]+)<", listed) == [cause.lower()]
            assert f'title="{explanation.title} (PodStartupFailed): ' in listed

    def test_a_units_page_shows_cause_reason_and_next_step(self, operator_client: Client) -> None:
        for cause, explanation in FAILURE_CAUSES.items():
            unit = unit_row(UnitPhase.FAILED, cause=cause)

            url = reverse("admin:units_activeunit_change", args=[unit.pk])
            panel = operator_client.get(url).context["detail"].panel

            assert explanation.title in html.unescape(panel.title)
            assert "PodStartupFailed" in panel.title
            assert panel.next_step == explanation.next_step

    def test_failures_are_summed_by_kind(self, operator_client: Client, rows: Rows) -> None:
        rows.pool(PoolPhase.FAILED)
        unit_row(UnitPhase.FAILED)
        unit_row(UnitPhase.FAILED)
        stock_row(UnitPhase.FAILED)
        rows.operation(OperationPhase.FAILED)

        failing_rows = _context(operator_client)["failing"]

        assert failing_rows.total == "5"
        sums = {text for text, _url in failing_rows.sums}
        assert sums == {"1 pool", "2 units", "1 stock unit", "1 operation"}

    def test_recovered_deleted_and_old_failures_do_not_count(
        self, operator_client: Client, rows: Rows
    ) -> None:
        rows.pool(PoolPhase.READY)
        rows.pool(PoolPhase.FAILED, deleted_at=now())
        rows.operation(OperationPhase.FAILED, ended_at=now() - timedelta(hours=2))

        failing_rows = _context(operator_client)["failing"]

        assert (failing_rows.groups, failing_rows.waiting) == ([], [])

    def test_long_waits_are_groups_the_longest_first(
        self, operator_client: Client, rows: Rows
    ) -> None:
        long, longer = (now() - timedelta(minutes=age) for age in (20, 50))
        unit_row(UnitPhase.PROGRESSING, reason="UnitProgressing", phase_since=long, name="slow")
        unit_row(
            UnitPhase.PROGRESSING, reason="UnitProgressing", phase_since=longer, name="slower"
        )
        unit_row(UnitPhase.PROGRESSING, reason="WaitingForStock", name="usual")
        rows.operation(OperationPhase.PENDING, reason="ClusterForbidden", created_at=long)

        page = _page(operator_client)

        failing_rows = _context(operator_client)["failing"]
        assert (failing_rows.total, failing_rows.waiting_total) == ("0", "3")
        groups = [(group.kind.noun, group.count, group.name) for group in failing_rows.waiting]
        assert groups[0] == ("unit", 2, "slower")
        assert "usual" not in page
        listed = "/activeunit/?phase=Progressing&amp;reason=UnitProgressing&amp;age=over15min"
        assert listed in page
        assert [noun for noun, *_ in groups] == ["unit", "operation"]

    def test_failures_are_counted_up_to_a_cap(
        self, operator_client: Client, rows: Rows, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(failing, "MAX_ROWS", 3)
        for _ in range(5):
            rows.pool(PoolPhase.FAILED)

        failing_rows = _context(operator_client)["failing"]

        assert failing_rows.total == "3+"
        assert [text for text, _url in failing_rows.sums] == ["3+ pools"]

    def test_samples_have_the_counts_beyond_the_cap(
        self, operator_client: Client, rows: Rows, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sections, "LIVE_CAP", 3)
        for _ in range(4):
            rows.pool()
            unit_row()
        unit_row(UnitPhase.STOPPED)
        capacity_store(Capacity(counts={"pools": {"Ready": 95_000}}))

        page = _page(operator_client)

        assert "Ready</span><b>95,000</b>" in page
        assert "Ready</span><b>3+</b>" in page
        assert "Stopped</span><b>1</b>" in page

    def test_the_number_of_reasons_is_limited(self, operator_client: Client, rows: Rows) -> None:
        for number in range(failing.SHOWN_GROUPS + 2):
            rows.pool(PoolPhase.FAILED, reason=f"Reason{number}")

        page = _page(operator_client)

        assert page.count("reason=Reason") == failing.SHOWN_GROUPS
        assert _context(operator_client)["failing"].further == 2

    def test_a_user_without_permissions_does_not_see_that_nothing_fails(
        self, client: Client, rows: Rows
    ) -> None:
        rows.pool(PoolPhase.FAILED)
        client.force_login(User.objects.create_user("looks", is_staff=True))

        page = _page(client)

        assert not _context(client)["sees_failing"]
        assert 'id="live-failing"><p class="empty">' in page

    def test_the_sums_are_links_to_their_lists(self, operator_client: Client, rows: Rows) -> None:
        rows.pool(PoolPhase.FAILED)
        rows.pool(PoolPhase.FAILED, reason="NameConflict")

        page = _page(operator_client)

        assert re.search(r'<a href="[^"]+/stockpool/\?phase=Failed">2 pools</a>', page)


class TestHealth:
    def test_parts_that_wait_for_the_cluster_are_not_unhealthy(
        self, operator_client: Client, settings: Settings
    ) -> None:
        settings.KUBE_MODE = "required"
        error = "connection refused by 10.0.0.1"
        ClusterState.objects.update_or_create(
            pk=ClusterState.SINGLETON, defaults={"error": error, "failures": 1}
        )

        (cluster,) = _context(operator_client)["troubles"]

        assert (cluster.name, cluster.detail) == ("cluster", error)
        badge = operator_client.get(reverse("admin:health")).context
        assert badge["cluster"].detail == error

    def test_an_unavailable_broker_is_unhealthy(
        self, operator_client: Client, settings: Settings
    ) -> None:
        settings.CELERY_BROKER_URL = "redis://127.0.0.1:1/0"

        assert [part.name for part in _context(operator_client)["troubles"]] == ["broker"]

    @pytest.mark.parametrize(
        ("columns", "shape"),
        [
            ({"oldest_due_seconds": None}, Shape.READY),
            ({"oldest_due_seconds": 12.0}, Shape.READY),
            ({"oldest_due_seconds": 700.0}, Shape.FAILED),
            ({"at": now() - timedelta(minutes=9)}, Shape.WAITING),
        ],
        ids=["none", "some", "late", "old sample"],
    )
    def test_due_work_is_healthy_unless_it_is_late(
        self, operator_client: Client, columns: dict[str, Any], shape: Shape
    ) -> None:
        _sample(**columns)

        shapes = {part.name: part.shape for part in _context(operator_client)["health"]}

        assert shapes["due work"] is shape

    def test_disabled_parts_are_not_unhealthy(
        self, operator_client: Client, settings: Settings
    ) -> None:
        settings.NATS_URL = ""
        settings.KUBE_MODE = "off"

        health = _context(operator_client)["health"]

        off = {part.name for part in health if part.shape is Shape.OFF}
        assert {"cluster", "controller", "activator", "results"} <= off


class TestCapacity:
    def test_a_spec_is_a_bar_with_a_mark_and_a_text(self, operator_client: Client) -> None:
        gpus = {"active": 6, "ready": 2, "starting": 2, "failed": 1}
        spec = SpecCapacity(
            name="h100",
            product="H100",
            gpu=2,
            warm_target=3,
            ready=1,
            gpus_by_resource={GPU_RESOURCE: gpus},
            free=1,
        )
        product = ProductCapacity(
            name="H100",
            nodes=2,
            total=16,
            allocatable=14,
            free=3,
            largest_free=3,
            gpus=gpus,
        )
        capacity_store(Capacity(specs=[spec], products=[product]))

        page = _page(operator_client)

        capacity = _context(operator_client)["capacity"]
        (label,) = re.findall('aria-label="h100: ([^"]+)"', capacity.specs[0].drawing)
        assert numbers(label) == [6, 2, 2, 1, 2, 3]
        assert numbers(capacity.specs[0].summary) == [1, 3]
        assert numbers(capacity.products[0].summary) == [3, 14]
        assert numbers(capacity.products[0].about) == [2, 2]
        (at,) = re.findall(r'<path class="mark" d="M([\d.]+) 0V20"/>', page)
        assert float(at) == pytest.approx((6 + 3 * 2) / 13 * 1000, abs=1)

    def test_gpus_of_different_resources_are_not_added(self, operator_client: Client) -> None:
        slices = "nvidia.com/mig-1g.10gb"
        held = {GPU_RESOURCE: {"active": 2}, slices: {"active": 5}}
        spec = SpecCapacity(
            name="mig", product="H100", gpu=1, resource_name=slices, free=23, gpus_by_resource=held
        )
        whole = ProductCapacity(
            name="H100", nodes=2, total=12, allocatable=12, free=10, gpus={"active": 2}
        )
        sliced = ProductCapacity(
            name="H100", resource_name=slices, nodes=1, total=28, allocatable=28, free=23
        )
        capacity_store(Capacity(specs=[spec], products=[whole, sliced]))

        capacity = _context(operator_client)["capacity"]

        assert (capacity.total, capacity.allocatable) == ("12", "")
        assert numbers(capacity.gpu_sums.partition(slices)[0])[:5] == [2, 0, 0, 10, 23]
        (label,) = re.findall('aria-label="mig: ([^"]+)"', capacity.specs[0].drawing)
        assert label.startswith(f"5 {slices} in units, 23 {slices} free")
        assert {product.name for product in capacity.products} == {"H100", f"H100 \u00b7 {slices}"}

    def test_fragments_and_closed_nodes_are_shown(self, operator_client: Client) -> None:
        product = ProductCapacity(
            name="H100", allocatable=24, free=12, free_unschedulable=4, largest_free=5, excess=1
        )
        capacity_store(Capacity(products=[product]))

        [shown] = _context(operator_client)["capacity"].products

        assert numbers(shown.summary) == [12, 24, 5, 4, 1]

    def test_withheld_and_wanted_numbers_are_notes(self, operator_client: Client) -> None:
        spec = SpecCapacity(name="a", gpu=2, withheld=3, wanted_by_resource={GPU_RESOURCE: 4})
        capacity_store(Capacity(specs=[spec]))

        [shown] = _context(operator_client)["capacity"].specs

        assert numbers(shown.notes) == [3, 4]

    def test_a_cluster_without_the_default_resource_has_totals(
        self, operator_client: Client
    ) -> None:
        amd = ProductCapacity(
            name="", resource_name="amd.com/gpu", nodes=1, total=8, allocatable=6, free=6
        )
        capacity_store(Capacity(products=[amd]))

        capacity = _context(operator_client)["capacity"]

        assert (capacity.total, capacity.allocatable) == ("8", "6")

    def test_specs_that_lack_stock_are_first_and_their_number_is_limited(
        self, operator_client: Client
    ) -> None:
        specs = [SpecCapacity(name=f"a{number:03d}") for number in range(40)]
        capacity_store(Capacity(specs=[*specs, SpecCapacity(name="z", warm_target=1)]))

        page = _page(operator_client)

        assert page.index("<b>z</b>") < page.index("<b>a000</b>")
        assert _context(operator_client)["capacity"].further_specs == 29

    def test_empty_states_without_nodes_specs_or_sample(self, operator_client: Client) -> None:
        assert _context(operator_client)["capacity"] is None

        capacity_store(Capacity(products=[]))
        capacity = _context(operator_client)["capacity"]

        assert (capacity.specs, capacity.products) == ([], [])

    def test_a_document_of_another_release_is_ignored(self, operator_client: Client) -> None:
        CapacitySnapshot.objects.create(document={"specs": 7})

        assert _context(operator_client)["capacity"] is None

    def test_hostile_names_are_escaped(self, operator_client: Client) -> None:
        name = '"><script>alert(1)</script>'
        capacity_store(Capacity(specs=[SpecCapacity(name=name, product=name, gpu=1)]))

        assert "<script>alert" not in _page(operator_client)


class TestPace:
    def test_operations_per_minute_and_claims_for_hour_and_day(
        self, operator_client: Client
    ) -> None:
        _sample(at=now() - timedelta(hours=5), seconds=60.0, accepted=60, failed=6)
        for ago in (20, 10):
            _sample(at=now() - timedelta(minutes=ago), accepted=4)
        _sample(hour_claims=7, hour_p50=0.28, hour_p95=1.61, day_claims=90, day_p50=0.3)

        context = _context(operator_client)

        hour, day = context["pace"].operations
        assert (hour.rate, numbers(hour.sums), numbers(day.sums)) == ("5.3", [8, 0], [68, 6])
        recent = context["pace"].recent_claims
        assert (recent.p50, recent.p95, numbers(recent.count)) == ("280 ms", "1.6 s", [7])
        assert context["pace"].claims_top == "1.6 s"

    def test_an_hour_without_claims_shows_the_day(self, operator_client: Client) -> None:
        _sample(day_claims=90, day_p50=0.3, day_p95=0.9)

        assert numbers(_context(operator_client)["pace"].recent_claims.count) == [90]


class TestCost:
    def test_a_full_page_costs_few_queries(
        self,
        rows: Rows,
        django_assert_max_num_queries: DjangoAssertNumQueries,
    ) -> None:
        viewer = User.objects.create_user("viewer", is_staff=True)
        viewer.user_permissions.set(Permission.objects.filter(codename__startswith="view_"))
        client = Client()
        client.force_login(viewer)
        _sample(accepted=3)
        capacity_store(Capacity(specs=[SpecCapacity(name="a")], products=[]))
        for phase in (PoolPhase.READY, PoolPhase.FAILED):
            rows.pool(phase)
        unit_row(UnitPhase.FAILED)
        rows.operation(OperationPhase.FAILED)

        with django_assert_max_num_queries(MOST_QUERIES):
            page = _page(client)

        assert "3 <small>failing</small>" in page

    def test_a_user_sees_only_the_cards_of_their_permissions(
        self, viewer_client: Client, rows: Rows
    ) -> None:
        rows.pool(PoolPhase.FAILED)
        unit_row(UnitPhase.FAILED)

        page = _page(viewer_client)

        assert "1 <small>failing</small>" in page
        for absent in ("h-capacity", "h-operations", "h-claims", "h-latest"):
            assert absent not in page
