"""The admin's pages: content, permissions and number of queries."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.sites import site
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries, Settings

from gpuplatform.adminkit.lists.model_admin import ReadOnlyAdmin
from gpuplatform.adminkit.site.pages import DEVELOPMENT_NOTICE
from gpuplatform.clock import now
from gpuplatform.operations.admin import CORRECT, RETRYABLE
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OperationPhase
from gpuplatform.reconciliation.heartbeats import Part, report_heartbeat
from gpuplatform.reconciliation.models import ClusterState, ProcessHeartbeat
from gpuplatform.workloads.causes import FAILURE_CAUSES, StartupCause
from inventory.models import StockPool
from inventory.phases import PoolPhase, PoolReason
from tests.factories.admin_rows import WORDS_OF_THE_CLUSTER, Rows
from tests.factories.serverless import accept, function_row
from tests.fakes.installed import cluster

__all__ = ["cluster"]

INDEX = reverse("admin:index")
POOLS = reverse("admin:inventory_stockpool_changelist")
JOBS = reverse("admin:operations_operation_changelist")
MOST_QUERIES = 12

pytestmark = pytest.mark.django_db


def _page(client: Client, url: str, **query: str) -> str:
    response = client.get(url, query)
    assert response.status_code == 200, response
    return response.content.decode()


def _detail(client: Client, row: StockPool | Operation) -> str:
    return _page(
        client, reverse(f"admin:{row._meta.label_lower.replace('.', '_')}_change", args=[row.pk])
    )


def _content(client: Client, row: StockPool | Operation) -> Any:
    name = f"admin:{row._meta.app_label}_{row._meta.model_name}_change"
    return client.get(reverse(name, args=[row.pk])).context["detail"]


def _names(page: str) -> list[str]:
    return re.findall(r'<th class="field-name">.*?>([^<]*)</a>', page)


class TestOverview:
    def test_an_empty_platform_has_no_failures(self, operator_client: Client) -> None:
        context = operator_client.get(INDEX).context

        assert (context["failing"].groups, context["latest"]) == ([], [])
        assert "phase waiting" in context["health_badge"]

    def test_the_newest_failures_are_first_and_link_to_their_pages(
        self, operator_client: Client, rows: Rows
    ) -> None:
        older = rows.pool(PoolPhase.FAILED, phase_since=now() - timedelta(hours=2))
        newer = rows.operation(OperationPhase.FAILED)

        page = _page(operator_client, INDEX)

        assert page.index(f"/operation/{newer.pk}/") < page.index(f"/stockpool/{older.pk}/")
        assert "manifest unknown" in page

    def test_all_parts_with_heartbeats_are_healthy(
        self, operator_client: Client, settings: Settings
    ) -> None:
        settings.KUBE_MODE = "required"
        ClusterState.objects.update_or_create(
            id=1, defaults={"node_count": 3, "ready_node_count": 2, "seen_at": now()}
        )
        for part in Part:
            report_heartbeat(part)

        page = _page(operator_client, INDEX)

        assert "Healthy" in page
        assert "2 of 3 nodes ready" in page

    def test_a_part_without_heartbeat_is_unhealthy(
        self, operator_client: Client, settings: Settings
    ) -> None:
        settings.KUBE_MODE = "required"
        ProcessHeartbeat.objects.create(part=Part.CONTROLLER, seen_at=now() - timedelta(hours=1))

        troubles = operator_client.get(INDEX).context["troubles"]

        assert [part.name for part in troubles] == [Part.CONTROLLER]

    def test_the_error_of_the_cluster_is_shown(
        self, operator_client: Client, settings: Settings
    ) -> None:
        settings.KUBE_MODE = "required"
        state = {"closed_until": now(), "error": "connection refused", "failures": 3}
        ClusterState.objects.update_or_create(id=1, defaults=state)

        assert "connection refused" in _page(operator_client, INDEX)

    def test_a_viewer_sees_only_permitted_rows(self, viewer_client: Client, rows: Rows) -> None:
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
            {"reason": "PodStartupFailed"},
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
            {"reason": "name_conflict"},
            {"namespace": "gpu"},
            {"q": "wanted"},
            {"q": "its-object"},
        ],
        ids=["phase", "reason", "namespace", "operationID", "object"],
    )
    def test_operations_are_found_by(
        self, operator_client: Client, rows: Rows, query: dict[str, str]
    ) -> None:
        rows.operation(operation_id="other")
        place = {"object_namespace": "gpu", "object_name": "its-object"}
        rows.operation(OperationPhase.FAILED, operation_id="wanted", **place)

        page = _page(operator_client, JOBS, **query)

        assert ">wanted</td>" in page
        assert ">other</td>" not in page

    def test_an_operation_has_a_title(self, operator_client: Client, rows: Rows) -> None:
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

    def test_a_filter_accepts_several_values_and_each_choice_toggles_its_own(
        self, operator_client: Client, rows: Rows
    ) -> None:
        for spec in ("a-1", "b-1", "c-1"):
            rows.pool(name=f"of-{spec}", spec_name=spec)

        text = _page(operator_client, POOLS, spec="a-1,b-1")

        assert set(re.findall(">of-([abc]-1)<", text)) == {"a-1", "b-1"}
        links = re.findall('href="([^"]*)"(?: class="(on)")?[^>]* title=', text)
        assert ("?spec=b-1", "on") in links
        assert ("?spec=a-1%2Cb-1%2Cc-1", "") in links

    @pytest.mark.parametrize(
        "reasons", ["NameConflict,PodStartupFailed:ImagePullFailed", "NameConflict"]
    )
    def test_several_reasons_are_found_together(
        self, operator_client: Client, rows: Rows, reasons: str
    ) -> None:
        rows.pool(PoolPhase.FAILED, name="of-name", reason="NameConflict")
        rows.pool(PoolPhase.FAILED, name="of-image")
        rows.pool(PoolPhase.FAILED, name="of-memory", cause=StartupCause.OUT_OF_MEMORY)

        found = re.findall(">of-([a-z]+)<", _page(operator_client, POOLS, reason=reasons))

        assert len(found) == len(reasons.split(","))

    def test_tabs_count_the_rows_of_the_other_filters(
        self, operator_client: Client, rows: Rows
    ) -> None:
        rows.pool(spec_name="h100")
        rows.pool(spec_name="h100")
        rows.pool(PoolPhase.FAILED, spec_name="a10")

        page = _page(operator_client, POOLS, spec="h100")

        assert re.search(r"Ready</span><b>2</b>", page)
        assert re.search(r"Failed</span><b>0</b>", page)

    def test_a_long_list_has_pages_and_stops_counting(
        self, operator_client: Client, rows: Rows, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("gpuplatform.adminkit.lists.model_admin.COUNT_CAP", 60)
        tenant = rows.pool().tenant
        StockPool.objects.bulk_create(
            StockPool(tenant=tenant, namespace="default", name=f"many-{i}") for i in range(80)
        )

        page = _page(operator_client, POOLS)

        assert len(_names(page)) == 50
        assert "60+ stock pools" in page

    @pytest.mark.parametrize(
        "query", ["q=%00", "phase=%00", "reason=%00", "phase=nonsense", "p=x", "p=99999", "o=zz"]
    )
    def test_invalid_parameters_are_ignored(self, operator_client: Client, query: str) -> None:
        response = operator_client.get(f"{POOLS}?{query}", follow=True)

        assert response.status_code == 200


class TestDetail:
    def test_a_failed_pool_shows_cause_message_age_and_next_step(
        self, operator_client: Client, rows: Rows
    ) -> None:
        panel = _content(operator_client, rows.pool(PoolPhase.FAILED)).panel

        explanation = FAILURE_CAUSES[StartupCause.IMAGE_PULL_FAILED]
        assert PoolReason.POD_STARTUP_FAILED in panel.title
        assert panel.text == WORDS_OF_THE_CLUSTER
        assert ">5 min</time>" in panel.since
        assert panel.next_step == explanation.next_step

    def test_differences_between_desired_and_actual_are_marked(
        self, operator_client: Client, rows: Rows
    ) -> None:
        content = _content(operator_client, rows.pool(generation=2, available_replicas=1))

        assert [one.label for one in content.comparisons if one.differs] == [
            "Replicas",
            "Generation",
        ]
        assert content.comparison_note

    def test_a_ready_pool_has_no_panel_and_no_difference(
        self, operator_client: Client, rows: Rows
    ) -> None:
        page = _detail(operator_client, rows.pool())

        assert 'class="panel' not in page
        assert "(differs)" not in page

    def test_pool_and_operation_link_to_each_other(
        self, operator_client: Client, rows: Rows
    ) -> None:
        operation = rows.operation()
        pool = rows.pool(operation=operation)
        Operation.objects.filter(pk=operation.pk).update(object_row=pool.pk)
        operation.refresh_from_db()

        assert f"/operation/{operation.pk}/change/" in _detail(operator_client, pool)
        assert f"/stockpool/{pool.pk}/change/" in _detail(operator_client, operation)

    @pytest.mark.parametrize(
        ("retryable", "step"),
        [(True, RETRYABLE), (False, CORRECT)],
        ids=["retryable", "final"],
    )
    def test_a_failed_operation_shows_the_next_step(
        self, operator_client: Client, rows: Rows, retryable: bool, step: str
    ) -> None:
        operation = rows.operation(OperationPhase.FAILED, error_retryable=retryable)

        assert step in _content(operator_client, operation).panel.next_step

    def test_a_waiting_operation_shows_its_reason(
        self, operator_client: Client, rows: Rows
    ) -> None:
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
    def test_a_resource_of_any_shape_is_shown(
        self, operator_client: Client, rows: Rows, odd: dict[str, Any]
    ) -> None:
        assert "pool-0" in _detail(operator_client, rows.pool(PoolPhase.FAILED, **odd))

    @pytest.mark.parametrize("row", ["0", "x", "99999999999999999999999", "%00"])
    def test_an_unknown_row_is_not_found(self, operator_client: Client, row: str) -> None:
        assert operator_client.get(f"{POOLS}{row}/change/").status_code == 404


class TestHostileText:
    def test_it_is_escaped_and_shortened(
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


class TestPermissions:
    @pytest.mark.parametrize("url", [INDEX, POOLS, JOBS])
    def test_pages_need_a_log_in(self, client: Client, url: str) -> None:
        response = client.get(url)

        assert response.status_code == 302
        assert response.headers["Location"].startswith(reverse("admin:login"))

    def test_a_viewer_without_the_permission_is_rejected(
        self, viewer_client: Client, rows: Rows
    ) -> None:
        operation = rows.operation()

        assert viewer_client.get(POOLS).status_code == 200
        assert viewer_client.get(JOBS).status_code == 403
        assert viewer_client.get(f"{JOBS}{operation.pk}/change/").status_code == 403

    def test_mirrored_rows_cannot_be_edited_or_deleted_without_the_services(
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
    def test_pages_of_mirrored_rows_are_read_only(self, model: type[Any]) -> None:
        assert isinstance(site._registry[model], ReadOnlyAdmin)


class TestQueries:
    @pytest.mark.parametrize("url", [INDEX, POOLS, JOBS, f"{POOLS}?q=a&phase=Ready&reason=x"])
    def test_the_number_of_queries_does_not_depend_on_the_rows(
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

    def test_a_page_costs_few_queries(
        self,
        operator_client: Client,
        rows: Rows,
        django_assert_max_num_queries: DjangoAssertNumQueries,
    ) -> None:
        pool = rows.pool(operation=rows.operation())

        with django_assert_max_num_queries(MOST_QUERIES):
            _detail(operator_client, pool)


def test_development_mode_is_shown_on_every_page(client: Client, operator_client: Client) -> None:
    assert DEVELOPMENT_NOTICE in _page(client, reverse("admin:login"))
    assert DEVELOPMENT_NOTICE in _page(operator_client, INDEX)


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    ("listed", "heading"),
    [
        ("operations_operation", "operationID"),
        ("serverless_invocation", "invocationID"),
        ("inventory_stockpool", "Namespace"),
    ],
)
def test_a_heading_keeps_its_spelling(
    operator_client: Client, rows: Rows, listed: str, heading: str
) -> None:
    rows.operation()
    rows.pool()
    accept(function_row())

    page = operator_client.get(reverse(f"admin:{listed}_changelist")).content.decode()

    assert f">{heading}</" in page
    assert "OperationID" not in page
