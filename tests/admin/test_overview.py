"""What the overview says beyond the phases: what fails and why, capacity, and what happens."""

import html
import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries, Settings

from gpuplatform.adminkit.overview import failing, sections
from gpuplatform.clock import now
from gpuplatform.operations.phases import OperationPhase
from gpuplatform.reconciliation.models import ClusterState
from gpuplatform.samples.capacity import Capacity, ProductCapacity, SpecCapacity
from gpuplatform.samples.models import CapacitySnapshot, PlatformSample
from gpuplatform.samples.services import capacity_store
from gpuplatform.workloads.causes import FAILURE_CAUSES
from inventory.phases import PoolPhase
from tests.factories.admin_rows import Rows
from tests.factories.unit_rows import stock_row, unit_row
from units.phases import UnitPhase

INDEX = reverse("admin:index")
MOST_QUERIES = 13

pytestmark = pytest.mark.django_db


def _page(client: Client, url: str = INDEX) -> str:
    answer = client.get(url)
    assert answer.status_code == 200, answer
    return answer.content.decode()


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


class TestFailing:
    def test_the_same_reason_is_one_line_with_count_newest_message_and_list(
        self, operator_client: Client, rows: Rows
    ) -> None:
        for age, message in ((9, "the oldest"), (2, "the newest <b>words</b>"), (5, "old")):
            since = now() - timedelta(minutes=age)
            rows.pool(PoolPhase.FAILED, message=message, phase_since=since)
        rows.pool(PoolPhase.FAILED, reason="NameConflict", message="in the way")

        page = _page(operator_client)

        assert "3 pools" in page
        assert "1 pool" in page
        assert "the newest &lt;b&gt;words&lt;/b&gt;" in page
        assert "the oldest" not in page
        assert re.search(r">2 more</a>, the first <time [^>]+>9 min</time> ago:", page)
        assert "/stockpool/?phase=Failed&amp;why=NameConflict" in page

    def test_what_keeps_pods_from_starting_is_told_apart_and_its_list_has_just_those(
        self, operator_client: Client
    ) -> None:
        for cause in FAILURE_CAUSES:
            unit_row(UnitPhase.FAILED, name=f"of-{cause.lower()}", cause=cause)

        page = _page(operator_client)

        for cause, explanation in FAILURE_CAUSES.items():
            assert explanation.title in html.unescape(page)
            (href,) = re.findall(f'href="([^"]+why=PodStartupFailed%3A{cause})"', page)
            listed = html.unescape(_page(operator_client, html.unescape(href)))
            assert re.findall(">of-([a-z]+)<", listed) == [cause.lower()]
            assert f'title="{explanation.title} (PodStartupFailed): ' in listed

    def test_a_unit_says_the_cause_with_the_reason_beside_it_and_what_to_do(
        self, operator_client: Client
    ) -> None:
        for cause, explanation in FAILURE_CAUSES.items():
            unit = unit_row(UnitPhase.FAILED, cause=cause)

            url = reverse("admin:units_activeunit_change", args=[unit.pk])
            page = html.unescape(operator_client.get(url).content.decode())

            assert (
                f'<h2>{explanation.title} <code class="off">PodStartupFailed</code></h2>' in page
            )
            assert explanation.next_step in page

    def test_what_fails_is_summed_by_kind(self, operator_client: Client, rows: Rows) -> None:
        rows.pool(PoolPhase.FAILED)
        unit_row(UnitPhase.FAILED)
        unit_row(UnitPhase.FAILED)
        stock_row(UnitPhase.FAILED)
        rows.operation(OperationPhase.FAILED)

        page = _page(operator_client)

        assert "5 <small>failing</small>" in page
        assert "1 pool" in page
        assert "2 units" in page
        assert "1 stock unit" in page
        assert "1 job" in page

    def test_what_is_healed_gone_or_long_ago_fails_no_more(
        self, operator_client: Client, rows: Rows
    ) -> None:
        rows.pool(PoolPhase.READY)
        rows.pool(PoolPhase.FAILED, deleted_at=now())
        rows.operation(OperationPhase.FAILED, ended_at=now() - timedelta(hours=2))

        page = _page(operator_client)

        assert "0 <small>failing</small>" in page
        assert "Nothing has failed. Nothing waits for longer than 15 minutes." in page

    def test_what_waits_for_long_is_told_apart_the_longest_first(
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

        assert "0 <small>failing</small>" in page
        assert "3 waiting long" in page
        assert "2 units" in page
        assert ">slower<" in page
        assert "usual" not in page
        listed = "/activeunit/?phase=Progressing&amp;why=UnitProgressing&amp;age=over15min"
        assert listed in page
        assert page.index("2 units") < page.index("Cluster forbidden")

    def test_very_many_are_counted_up_to_a_cap(
        self, operator_client: Client, rows: Rows, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(failing, "MOST_ROWS", 3)
        for _ in range(5):
            rows.pool(PoolPhase.FAILED)

        page = _page(operator_client)

        assert "3+ pools" in page
        assert "3+ <small>failing</small>" in page

    def test_of_very_many_rows_the_samples_say_how_many(
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

    def test_very_many_reasons_are_cut_with_a_word(
        self, operator_client: Client, rows: Rows
    ) -> None:
        for number in range(failing.SHOWN_GROUPS + 2):
            rows.pool(PoolPhase.FAILED, reason=f"Reason{number}")

        page = _page(operator_client)

        assert page.count("why=Reason") == failing.SHOWN_GROUPS
        assert "2 further reasons." in page

    def test_who_may_see_nothing_is_not_told_that_nothing_fails(
        self, client: Client, rows: Rows
    ) -> None:
        rows.pool(PoolPhase.FAILED)
        client.force_login(User.objects.create_user("looks", is_staff=True))

        page = _page(client)

        assert "Nothing has failed" not in page
        assert "You may not see what could fail." in page
        assert "Ask for the group viewer." in page

    def test_the_numbers_lead_to_their_lists(self, operator_client: Client, rows: Rows) -> None:
        rows.pool(PoolPhase.FAILED)
        rows.pool(PoolPhase.FAILED, reason="NameConflict")

        page = _page(operator_client)

        assert re.search(r'<a href="[^"]+/stockpool/\?phase=Failed">2 pools</a>', page)


class TestHealth:
    def test_what_waits_for_the_cluster_is_not_to_blame(
        self, operator_client: Client, settings: Settings
    ) -> None:
        settings.KUBE_MODE = "required"
        words = "connection refused by 10.0.0.1"
        ClusterState.objects.update_or_create(
            pk=ClusterState.SINGLETON,
            defaults={"error": words, "failures": 1},
        )

        page = _page(operator_client)

        assert "Waiting for the cluster" in page
        assert page.count(words) == 1
        assert "<bdi>Does not answer</bdi>" in page
        assert "The cluster does not answer." in _page(operator_client, reverse("admin:health"))

    def test_a_broker_that_is_away_is_told(
        self, operator_client: Client, settings: Settings
    ) -> None:
        settings.CELERY_BROKER_URL = "redis://127.0.0.1:1/0"

        page = _page(operator_client)

        assert "1 part unhealthy" in page
        assert "1 part of the platform is not well" in page

    @pytest.mark.parametrize(
        ("columns", "text"),
        [
            ({"oldest_due_seconds": None}, "nothing is due"),
            ({"oldest_due_seconds": 12.0}, ">12 s</time>"),
            ({"oldest_due_seconds": 700.0}, ">11 min</time>"),
            ({"at": now() - timedelta(minutes=9)}, "No recent sample; check beat"),
        ],
        ids=["none", "some", "late", "old sample"],
    )
    def test_due_work_is_told(
        self, operator_client: Client, columns: dict[str, Any], text: str
    ) -> None:
        _sample(**columns)

        page = _page(operator_client)

        assert text in page
        assert ("part unhealthy" in page) is (columns.get("oldest_due_seconds") == 700.0)

    def test_parts_that_are_off_by_choice_are_no_fault(
        self, operator_client: Client, settings: Settings
    ) -> None:
        settings.NATS_URL = ""
        settings.KUBE_MODE = "off"

        assert _page(operator_client).count("off by configuration") == 4


class TestCapacity:
    def test_a_spec_is_a_bar_with_its_target_in_words_too(self, operator_client: Client) -> None:
        gpus = {"active": 6, "ready": 2, "starting": 2, "failed": 1}
        spec = SpecCapacity(name="h100", product="H100", gpu=2, warm_target=3, ready=1, gpus=gpus)
        product = ProductCapacity(
            name="H100", nodes=2, total=16, allocatable=14, free=3, gpus=gpus
        )
        capacity_store(Capacity(specs=[spec], products=[product]))

        page = _page(operator_client)

        assert "1 ready of 3" in page
        assert (
            'aria-label="h100: 6 GPUs in units, 2 GPUs stock ready, 2 GPUs starting,'
            ' 1 GPUs failed, 3 GPUs free; warm target 3 units."' in page
        )
        (at,) = re.findall(r'<path class="mark" d="M([\d.]+) 0V20"/>', page)
        assert float(at) == pytest.approx((6 + 3 * 2) / 14 * 1000, abs=1)
        assert "3 free of 14" in page
        assert "2 not allocatable" in page

    def test_specs_that_lack_stock_come_first_and_very_many_are_cut(
        self, operator_client: Client
    ) -> None:
        specs = [SpecCapacity(name=f"a{number:03d}") for number in range(40)]
        capacity_store(Capacity(specs=[*specs, SpecCapacity(name="z", warm_target=1)]))

        page = _page(operator_client)

        assert page.index("<b>z</b>") < page.index("<b>a000</b>")
        assert "29 further specs" in page

    def test_without_nodes_specs_or_sample_it_says_so(self, operator_client: Client) -> None:
        assert "No sample yet" in _page(operator_client)

        capacity_store(Capacity(products=[]))
        page = _page(operator_client)

        assert "The catalogue has no GPU spec yet." in page
        assert "No node has a GPU." in page

    def test_a_document_of_another_release_is_no_fault(self, operator_client: Client) -> None:
        CapacitySnapshot.objects.create(document={"specs": 7})

        assert "No sample yet" in _page(operator_client)

    def test_hostile_names_do_nothing(self, operator_client: Client) -> None:
        name = '"><script>alert(1)</script>'
        capacity_store(Capacity(specs=[SpecCapacity(name=name, product=name, gpu=1)]))

        assert "<script>alert" not in _page(operator_client)


class TestPace:
    def test_jobs_a_minute_and_claims_are_told_for_hour_and_day(
        self, operator_client: Client
    ) -> None:
        _sample(at=now() - timedelta(hours=5), seconds=60.0, accepted=60, failed=6)
        for ago in (20, 10):
            _sample(at=now() - timedelta(minutes=ago), accepted=4)
        _sample(hour_claims=7, hour_p50=0.28, hour_p95=1.61, day_claims=90, day_p50=0.3)

        page = _page(operator_client)

        assert "<b>5.3</b> a minute, last hour" in page
        assert "8 accepted, 0 failed" in page
        assert "68 accepted, 6 failed" in page
        assert "280 ms <small>p50</small>" in page
        assert "p95 1.6 s · 7 in the last hour" in page
        assert 'aria-label="Seconds from claim to ready over the last day, at most 1.6 s."' in page

    def test_a_quiet_hour_shows_the_day(self, operator_client: Client) -> None:
        _sample(day_claims=90, day_p50=0.3, day_p95=0.9)

        assert "90 in the last day" in _page(operator_client)


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

    def test_who_sees_one_kind_is_asked_for_no_more(
        self, viewer_client: Client, rows: Rows
    ) -> None:
        rows.pool(PoolPhase.FAILED)
        unit_row(UnitPhase.FAILED)

        page = _page(viewer_client)

        assert "1 <small>failing</small>" in page
        for absent in ("Capacity by spec", "Jobs a minute", "Claim to ready", "Latest jobs"):
            assert absent not in page
