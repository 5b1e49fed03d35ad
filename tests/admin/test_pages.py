"""What the admin's pages show, to whom, and with how many queries."""

import html
import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.sites import site
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries, Settings

from gpuplatform.adminkit.lists.readonly import ReadOnlyAdmin
from gpuplatform.clock import now
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OperationPhase
from gpuplatform.reconciliation.heartbeats import FRESH_SECONDS, Part, report_heartbeat
from gpuplatform.reconciliation.models import ClusterState, ProcessHeartbeat
from gpuplatform.workloads.causes import FAILURE_CAUSES, StartupCause
from inventory.models import StockPool
from inventory.phases import PoolPhase
from tests.factories.admin_rows import Rows
from tests.factories.serverless import accept, function_row
from tests.fakes.installed import cluster

__all__ = ["cluster"]

INDEX = reverse("admin:index")
POOLS = reverse("admin:inventory_stockpool_changelist")
JOBS = reverse("admin:operations_operation_changelist")
MOST_QUERIES = 12

pytestmark = pytest.mark.django_db


def _page(client: Client, url: str, **query: str) -> str:
    answer = client.get(url, query)
    assert answer.status_code == 200, answer
    return answer.content.decode()


def _detail(client: Client, row: StockPool | Operation) -> str:
    return _page(
        client, reverse(f"admin:{row._meta.label_lower.replace('.', '_')}_change", args=[row.pk])
    )


def _names(page: str) -> list[str]:
    return re.findall(r'<th class="field-name">.*?>([^<]*)</a>', page)


class TestDashboard:
    def test_empty_platform_says_that_nothing_has_failed(self, operator_client: Client) -> None:
        page = _page(operator_client, INDEX)

        assert "Nothing has failed." in page
        assert "None yet" in page
        assert "Not all parts are running" in page

    def test_newest_failures_come_first_and_lead_to_their_pages(
        self, operator_client: Client, rows: Rows
    ) -> None:
        older = rows.pool(PoolPhase.FAILED, phase_since=now() - timedelta(hours=2))
        newer = rows.operation(OperationPhase.FAILED)

        page = _page(operator_client, INDEX)

        assert page.index(f"/operation/{newer.pk}/") < page.index(f"/stockpool/{older.pk}/")
        assert "manifest unknown" in page

    def test_all_parts_alive_is_healthy(self, operator_client: Client, settings: Settings) -> None:
        settings.KUBE_MODE = "required"
        ClusterState.objects.update_or_create(
            id=1, defaults={"node_count": 3, "ready_node_count": 2, "seen_at": now()}
        )
        for part in Part:
            report_heartbeat(part)

        page = _page(operator_client, INDEX)

        assert "Healthy" in page
        assert "2 of 3 nodes ready" in page

    def test_silent_part_is_named(self, operator_client: Client, settings: Settings) -> None:
        settings.KUBE_MODE = "required"
        ProcessHeartbeat.objects.create(part=Part.CONTROLLER, seen_at=now() - timedelta(hours=1))

        page = _page(operator_client, INDEX)

        assert "1 part unhealthy" in page
        assert f"No heartbeat for {FRESH_SECONDS} s" in page

    def test_cluster_that_does_not_answer_says_why(
        self, operator_client: Client, settings: Settings
    ) -> None:
        settings.KUBE_MODE = "required"
        state = {"closed_until": now(), "error": "connection refused", "failures": 3}
        ClusterState.objects.update_or_create(id=1, defaults=state)

        assert "connection refused" in _page(operator_client, INDEX)

    def test_viewer_sees_only_what_is_allowed(self, viewer_client: Client, rows: Rows) -> None:
        rows.pool(PoolPhase.FAILED)
        rows.operation(OperationPhase.FAILED)

        page = _page(viewer_client, INDEX)

        assert "/stockpool/" in page
        assert "/operation/" not in page


class TestLists:
    def test_row_shows_phase_reason_message_and_age_with_exact_time(
        self, operator_client: Client, rows: Rows
    ) -> None:
        pool = rows.pool(PoolPhase.FAILED)

        page = _page(operator_client, POOLS)

        assert '<span class="phase failed"><svg' in page
        assert ">Back-off pulling image" in page
        assert f'title="{pool.phase_since:%Y-%m-%d %H:%M:%S} UTC">5 min</time>' in page

    def test_deleted_pools_are_history(self, operator_client: Client, rows: Rows) -> None:
        rows.pool(name="alive")
        rows.pool(PoolPhase.TERMINATING, name="gone", deleted_at=now())

        assert _names(_page(operator_client, POOLS)) == ["alive"]
        assert _names(_page(operator_client, POOLS, history="deleted")) == ["gone"]
        assert _names(_page(operator_client, POOLS, history="all")) == ["gone", "alive"]

    @pytest.mark.parametrize(
        "query",
        [
            {"phase": "Failed"},
            {"why": "PodStartupFailed"},
            {"spec": "h100"},
            {"namespace": "gpu"},
            {"q": "wanted"},
            {"q": "op-of-it"},
        ],
        ids=["phase", "reason", "spec", "namespace", "name", "operationID"],
    )
    def test_pools_are_found_by(
        self, operator_client: Client, rows: Rows, query: dict[str, str]
    ) -> None:
        rows.pool(name="other")
        operation = rows.operation(operation_id="op-of-it")
        changed = {"spec_name": "h100", "namespace": "gpu", "operation": operation}
        rows.pool(PoolPhase.FAILED, name="wanted", **changed)

        assert _names(_page(operator_client, POOLS, **query)) == ["wanted"]

    @pytest.mark.parametrize(
        "query",
        [
            {"phase": "Failed"},
            {"why": "name_conflict"},
            {"namespace": "gpu"},
            {"q": "wanted"},
            {"q": "its-object"},
        ],
        ids=["phase", "why", "namespace", "operationID", "object"],
    )
    def test_jobs_are_found_by(
        self, operator_client: Client, rows: Rows, query: dict[str, str]
    ) -> None:
        rows.operation(operation_id="other")
        place = {"object_namespace": "gpu", "object_name": "its-object"}
        rows.operation(OperationPhase.FAILED, operation_id="wanted", **place)

        page = _page(operator_client, JOBS, **query)

        assert ">wanted</td>" in page
        assert ">other</td>" not in page

    def test_a_job_is_called_by_what_it_does(self, operator_client: Client, rows: Rows) -> None:
        key = f"admin-{'0' * 32}"
        made = {"kind": "stockpool.update", "object_name": "h100"}
        for number in (1, 2):
            rows.operation(operation_id=f"{key}-{number}", **made)
        seeding = {"kind": "stock.seed", "object_name": "stock-a-001"}
        rows.operation(payload={"specName": "g8.1"}, progress_total=2, **seeding)

        text = re.sub(r"<[^>]+>", "", _page(operator_client, JOBS))

        assert text.count("Change stock pool h100") == 2
        assert "0000000-1" in text
        assert "0000000-2" in text
        assert "Seed stock g8.1" in text

    def test_a_filter_takes_several_values_and_each_choice_adds_or_takes_away_its_own(
        self, operator_client: Client, rows: Rows
    ) -> None:
        for spec in ("a-1", "b-1", "c-1"):
            rows.pool(name=f"of-{spec}", spec_name=spec)

        text = _page(operator_client, POOLS, spec="a-1,b-1")

        assert set(re.findall(">of-([abc]-1)<", text)) == {"a-1", "b-1"}
        links = re.findall('href="([^"]*)"[^>]* title="(Take it away|Show these too)"', text)
        assert ("?spec=b-1", "Take it away") in links
        assert ("?spec=a-1%2Cb-1%2Cc-1", "Show these too") in links

    @pytest.mark.parametrize(
        "reasons", ["NameConflict,PodStartupFailed:ImagePullFailed", "NameConflict"]
    )
    def test_several_reasons_are_found_together(
        self, operator_client: Client, rows: Rows, reasons: str
    ) -> None:
        rows.pool(PoolPhase.FAILED, name="of-name", reason="NameConflict")
        rows.pool(PoolPhase.FAILED, name="of-image")
        rows.pool(PoolPhase.FAILED, name="of-memory", cause=StartupCause.OUT_OF_MEMORY)

        found = re.findall(">of-([a-z]+)<", _page(operator_client, POOLS, why=reasons))

        assert len(found) == len(reasons.split(","))

    def test_tabs_count_what_the_other_filters_leave(
        self, operator_client: Client, rows: Rows
    ) -> None:
        rows.pool(spec_name="h100")
        rows.pool(spec_name="h100")
        rows.pool(PoolPhase.FAILED, spec_name="a10")

        page = _page(operator_client, POOLS, spec="h100")

        assert re.search(r"Ready</span><b>2</b>", page)
        assert re.search(r"Failed</span><b>0</b>", page)

    def test_long_list_has_pages_and_stops_counting(
        self, operator_client: Client, rows: Rows, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("gpuplatform.adminkit.lists.paginator.CAP", 60)
        tenant = rows.pool().tenant
        StockPool.objects.bulk_create(
            StockPool(tenant=tenant, namespace="default", name=f"many-{i}") for i in range(80)
        )

        page = _page(operator_client, POOLS)

        assert len(_names(page)) == 50
        assert "60+ stock pools" in page

    @pytest.mark.parametrize(
        "query", ["q=%00", "phase=%00", "why=%00", "phase=nonsense", "p=x", "p=99999", "o=zz"]
    )
    def test_nonsense_in_the_address_is_no_error(
        self, operator_client: Client, query: str
    ) -> None:
        answer = operator_client.get(f"{POOLS}?{query}", follow=True)

        assert answer.status_code == 200


class TestDetail:
    def test_failed_pool_says_what_happened_since_when_and_what_next(
        self, operator_client: Client, rows: Rows
    ) -> None:
        page = _detail(operator_client, rows.pool(PoolPhase.FAILED))

        explanation = FAILURE_CAUSES[StartupCause.IMAGE_PULL_FAILED]
        assert explanation.title in page
        assert "manifest unknown" in page
        assert ">5 min</time>" in page
        assert explanation.next_step in html.unescape(page)

    def test_differences_between_wanted_and_seen_are_marked(
        self, operator_client: Client, rows: Rows
    ) -> None:
        page = _detail(operator_client, rows.pool(generation=2, available_replicas=1))

        assert page.count("(differs)") == 2
        assert "has not been worked on yet" in page

    def test_ready_pool_has_no_panel_and_no_difference(
        self, operator_client: Client, rows: Rows
    ) -> None:
        page = _detail(operator_client, rows.pool())

        assert 'class="panel' not in page
        assert "(differs)" not in page

    def test_pool_and_job_lead_to_each_other(self, operator_client: Client, rows: Rows) -> None:
        operation = rows.operation()
        pool = rows.pool(operation=operation)
        Operation.objects.filter(pk=operation.pk).update(object_row=pool.pk)
        operation.refresh_from_db()

        assert f"/operation/{operation.pk}/change/" in _detail(operator_client, pool)
        assert f"/stockpool/{pool.pk}/change/" in _detail(operator_client, operation)

    @pytest.mark.parametrize(
        ("retryable", "step"), [(True, "it can succeed"), (False, "Correct the request")]
    )
    def test_failed_job_says_what_next(
        self, operator_client: Client, rows: Rows, retryable: bool, step: str
    ) -> None:
        operation = rows.operation(OperationPhase.FAILED, error_retryable=retryable)

        assert step in _detail(operator_client, operation)

    def test_waiting_job_says_why(self, operator_client: Client, rows: Rows) -> None:
        waits = {"reason": "cluster_unavailable", "message": "Connection refused."}

        page = _detail(operator_client, rows.operation(OperationPhase.PENDING, **waits))

        assert "Cluster unavailable" in page
        assert "Connection refused." in page

    @pytest.mark.parametrize(
        "odd",
        [
            {"conditions": "no list"},
            {"conditions": [1, None, {}, {"type": {"a": 1}, "lastTransitionTime": 5}]},
            {"spec": ["no", "object"]},
            {"spec": {"template": "no object", "image": {"a": 1}}},
            {"reason": "NobodyKnowsIt", "message": ""},
        ],
        ids=["text", "odd entries", "list", "odd fields", "unknown reason"],
    )
    def test_odd_content_of_a_resource_is_shown(
        self, operator_client: Client, rows: Rows, odd: dict[str, Any]
    ) -> None:
        assert "pool-0" in _detail(operator_client, rows.pool(PoolPhase.FAILED, **odd))

    @pytest.mark.parametrize("row", ["0", "x", "99999999999999999999999", "%00"])
    def test_unknown_row_is_not_found(self, operator_client: Client, row: str) -> None:
        assert operator_client.get(f"{POOLS}{row}/change/").status_code == 404


class TestHostileText:
    def test_it_is_escaped_shortened_and_made_visible(
        self, operator_client: Client, rows: Rows, hostile_text: str
    ) -> None:
        text = {"message": hostile_text, "reason": "<b>Reason</b>"}
        pool = rows.pool(PoolPhase.FAILED, spec={"image": hostile_text}, **text)
        wrong = {"error_code": "<i>code</i>", "error_message": hostile_text}
        job = rows.operation(OperationPhase.FAILED, payload={"a": hostile_text}, **wrong)

        pages = [_page(operator_client, url) for url in (INDEX, POOLS, JOBS)]
        details = [_detail(operator_client, row) for row in (pool, job)]

        for page in [*pages, *details]:
            assert "<script>alert" not in page
            assert "<img src=x" not in page
            assert "<b>Reason" not in page
            assert "<i>code" not in page
            assert "\u202e" not in page
            assert "\\u202e" in page
        for page in pages:
            assert len(page) < 40_000
        for page in details:
            assert 10_000 * "y" in page


class TestRights:
    @pytest.mark.parametrize("url", [INDEX, POOLS, JOBS])
    def test_nobody_looks_without_logging_in(self, client: Client, url: str) -> None:
        answer = client.get(url)

        assert answer.status_code == 302
        assert answer.headers["Location"].startswith(reverse("admin:login"))

    def test_viewer_without_the_right_is_refused(self, viewer_client: Client, rows: Rows) -> None:
        operation = rows.operation()

        assert viewer_client.get(POOLS).status_code == 200
        assert viewer_client.get(JOBS).status_code == 403
        assert viewer_client.get(f"{JOBS}{operation.pk}/change/").status_code == 403

    def test_mirrored_rows_cannot_be_edited_or_deleted_past_the_services(
        self, operator_client: Client, rows: Rows
    ) -> None:
        pool = rows.pool()

        assert operator_client.post(f"{POOLS}{pool.pk}/change/", {"name": "x"}).status_code == 403
        assert (
            operator_client.post(f"{POOLS}{pool.pk}/delete/", {"post": "yes"}).status_code == 403
        )
        action = {"action": "delete_selected", "_selected_action": pool.pk, "post": "yes"}
        assert operator_client.post(POOLS, action).status_code == 403
        assert StockPool.objects.get().name == "pool-0"

    @pytest.mark.parametrize("model", [StockPool, Operation])
    def test_what_reconcilers_write_is_read_only(self, model: type[Any]) -> None:
        assert isinstance(site._registry[model], ReadOnlyAdmin)


class TestQueries:
    @pytest.mark.parametrize("url", [INDEX, POOLS, JOBS, f"{POOLS}?q=a&phase=Ready&why=x"])
    def test_number_of_queries_does_not_grow_with_the_rows(
        self,
        operator_client: Client,
        rows: Rows,
        django_assert_max_num_queries: DjangoAssertNumQueries,
        url: str,
    ) -> None:
        for _ in range(12):
            rows.pool(PoolPhase.FAILED, operation=rows.operation(OperationPhase.FAILED))

        with django_assert_max_num_queries(MOST_QUERIES):
            operator_client.get(url)

    def test_detail_needs_few_queries(
        self,
        operator_client: Client,
        rows: Rows,
        django_assert_max_num_queries: DjangoAssertNumQueries,
    ) -> None:
        pool = rows.pool(operation=rows.operation())

        with django_assert_max_num_queries(MOST_QUERIES):
            _detail(operator_client, pool)


def test_development_mode_is_said_on_every_page(client: Client, operator_client: Client) -> None:
    notice = "Development mode: the API is open on this machine only."

    assert notice in _page(client, reverse("admin:login"))
    assert notice in _page(operator_client, INDEX)


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    ("listed", "heading"),
    [
        ("operations_operation", "operationID"),
        ("serverless_invocation", "invocationID"),
        ("inventory_stockpool", "Namespace"),
    ],
)
def test_a_heading_is_spelled_as_it_is_everywhere(
    operator_client: Client, rows: Rows, listed: str, heading: str
) -> None:
    rows.operation()
    rows.pool()
    accept(function_row())

    page = operator_client.get(reverse(f"admin:{listed}_changelist")).content.decode()

    assert f">{heading}</" in page
    assert "OperationID" not in page
