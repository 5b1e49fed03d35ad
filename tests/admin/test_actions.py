"""Actions on pools, units and stock: confirmation with numbers, effects and log entries.

The sentences are in tests/golden/admin; tests here assert their numbers.
"""

import json
import re
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.db.models import Model
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries

from gpuplatform.adminkit.actions.model_admin import MAX_ROWS
from gpuplatform.clock import now
from gpuplatform.operations.models import Operation
from gpuplatform.tenancy.models import Tenant
from gpuplatform.workloads.causes import StartupCause
from inventory.models import GpuSpec, StockPool
from tests.factories.admin_rows import Rows
from tests.factories.admin_steps import Page, address, choose, confirm, numbers, press
from tests.factories.unit_rows import spec_row, stock_row, unit_row
from tests.fakes.cluster import FakeCluster
from tests.fakes.installed import cluster
from units.models import ActiveUnit, GpuUnit, StockUnit
from units.phases import UnitPhase

__all__ = ["cluster"]

POOLS = reverse("admin:inventory_stockpool_changelist")
ADD_POOL = reverse("admin:inventory_stockpool_add")
SEED = reverse("admin:units_stockunit_add")
KEY = f"admin-{'0' * 32}"
FROM_SECRET = {"name": "T", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}}}
PLATFORM_SECRET = json.dumps({"envs": [FROM_SECRET]}).replace("hf", "fn-1-queue")

pytestmark = pytest.mark.django_db


def unit(phase: str = UnitPhase.READY, **changes: Any) -> ActiveUnit:
    return ActiveUnit.objects.get(pk=unit_row(phase, **changes).pk)


def stock(phase: str = UnitPhase.READY, **changes: Any) -> StockUnit:
    return StockUnit.objects.get(pk=stock_row(phase, **changes).pk)


def other_tenants_unit() -> ActiveUnit:
    tenant = Tenant.objects.create(name="other", namespace="tenant-other")
    return unit(tenant=tenant, namespace=tenant.namespace)


def _rejected(page: Page) -> list[list[str]]:
    """Return the names of the rejected rows, by obstacle."""
    return [[line.name for line in lines] for _obstacle, lines in page.context["impossible"]]


def kinds() -> list[str]:
    return list(Operation.objects.order_by("id").values_list("kind", flat=True))


class TestPools:
    def test_scaling_shows_pods_and_gpus_before_and_after(
        self, operator_client: Client, cluster: FakeCluster, rows: Rows
    ) -> None:
        pools = [rows.pool(), rows.pool()]

        fields = choose(operator_client, "scale", *pools)
        page = confirm(operator_client, fields, replicas="5")
        before = kinds()
        result = confirm(operator_client, page)

        assert numbers(page.context["consequence"]) == [2, 4, 10, +6]
        assert before == []
        assert kinds() == ["stockpool.update"] * 2
        assert [row.payload for row in Operation.objects.all()[:1]] == [{"replicas": 5}]
        assert [result.context[key] for key in ("done", "rejected")] == [2, 0]

    def test_the_scale_form_starts_with_the_present_replicas(
        self, operator_client: Client, rows: Rows
    ) -> None:
        page = press(operator_client, "scale", rows.pool(desired_replicas=7))

        assert re.search(r'name="replicas" value="7"', page)

    @pytest.mark.parametrize("entered", ["-1", "x", "10001", ""])
    def test_an_invalid_number_is_an_error_of_its_field(
        self, operator_client: Client, cluster: FakeCluster, rows: Rows, entered: str
    ) -> None:
        page = press(operator_client, "scale", rows.pool(), replicas=entered)

        assert list(page.context["form"].errors) == ["replicas"]

    def test_a_deletion_shows_released_gpus_and_returns_to_the_pool(
        self, operator_client: Client, cluster: FakeCluster, rows: Rows
    ) -> None:
        pool = rows.pool()

        page = press(operator_client, "delete", pool)
        after = confirm(operator_client, page)

        assert numbers(page.context["consequence"]) == [1, 2, 2]
        assert "Terminating" in after.context["detail"].badge
        entry = LogEntry.objects.get()
        assert entry.object_id == str(pool.pk)
        assert Operation.objects.get().operation_id in entry.change_message

    def test_a_pool_without_running_pods_holds_no_gpus(
        self, operator_client: Client, rows: Rows
    ) -> None:
        pool = rows.pool("Failed")

        deletion = press(operator_client, "delete", pool)
        scaling = press(operator_client, "scale", pool, replicas="1")

        assert numbers(deletion.context["consequence"]) == [1, 2, 0]
        assert numbers(scaling.context["consequence"]) == [2, 1, +1]

    def test_pools_in_deletion_are_rejected_and_listed(
        self, operator_client: Client, cluster: FakeCluster, rows: Rows
    ) -> None:
        pool, terminating = rows.pool(), rows.pool("Terminating", deletion_requested_at=now())

        page = choose(operator_client, "delete", pool, terminating)
        confirm(operator_client, page)

        assert [line.name for _, line in page.context["lines"]] == [str(pool)]
        assert _rejected(page) == [[str(terminating)]]
        assert kinds() == ["stockpool.delete"]

    def test_no_button_is_offered_where_every_row_is_rejected(
        self, operator_client: Client, cluster: FakeCluster, rows: Rows
    ) -> None:
        page = press(operator_client, "delete", rows.pool(deletion_requested_at=now()))

        assert 'name="key"' not in page

    def test_a_pool_that_waits_to_retry_is_reconciled_immediately(
        self, operator_client: Client, rows: Rows
    ) -> None:
        pool = rows.pool(failures=3)

        page = press(operator_client, "reconcile", pool)
        after = confirm(operator_client, page)

        assert numbers(page.context["consequence"]) == [1, 1]
        assert len(after.messages) == 1
        pool.refresh_from_db()
        assert pool.due_at is not None
        assert pool.due_seq == 1

    def test_a_refusal_by_the_service_is_the_result_of_its_row(
        self, operator_client: Client, cluster: FakeCluster, rows: Rows
    ) -> None:
        pools = [rows.pool(), rows.pool()]
        page = confirm(operator_client, choose(operator_client, "scale", *pools), replicas="5")
        StockPool.objects.filter(pk=pools[0].pk).update(deletion_requested_at=now())

        response = confirm(operator_client, page).context

        assert [response[key] for key in ("done", "rejected")] == [1, 1]
        listed = operator_client.get(response["operations_url"]).context["cl"]
        assert list(listed.queryset) == [Operation.objects.get()]
        results = [(one.row, one.is_done, bool(one.result.url)) for one in response["results"]]
        assert results == [(pools[0], False, False), (pools[1], True, True)]
        assert LogEntry.objects.count() == 1

    def test_a_pool_is_created_as_by_the_api(
        self, operator_client: Client, cluster: FakeCluster
    ) -> None:
        entered = {
            "key": KEY,
            "specName": "g1.1",
            "name": "h100",
            "replicas": "2",
            "gpu": "1",
            "resourceName": "amd.com/gpu",
            "resources": '{"rdma/hca": "1"}',
            "placement": "{}",
            "template": json.dumps({"envs": [FROM_SECRET]}),
        }
        spec_row(placement={"nodeSelector": {"zone": "a"}}, product="H100")

        responses = [operator_client.post(ADD_POOL, entered) for _ in range(2)]

        pool = StockPool.objects.get()
        assert [response.headers["Location"] for response in responses] == (
            [address(pool, "change", pool.pk)] * 2
        )
        assert (pool.namespace, pool.name) == ("runtime-pools", "h100")
        assert pool.spec["template"]["envs"] == [FROM_SECRET]
        assert (pool.spec["resourceName"], pool.spec["resources"]) == (
            "amd.com/gpu",
            {"rdma/hca": "1"},
        )
        assert "placement" not in pool.spec
        assert kinds() == ["stockpool.create"]
        assert Operation.objects.get().operation_id == KEY

    def test_gpus_of_different_resources_are_not_added(
        self, operator_client: Client, rows: Rows, cluster: FakeCluster
    ) -> None:
        pools = [rows.pool(), rows.pool()]
        pools[1].spec["resourceName"] = "amd.com/gpu"
        pools[1].save()

        page = choose(operator_client, "delete", *pools)

        released = page.context["consequence"].partition("releases ")[2]
        assert re.match(r"\d+ GPUs? and \d+ amd\.com/gpu\.", released)

    @pytest.mark.parametrize(
        ("field", "value", "error"),
        [
            ("specName", "", ""),
            ("specName", "No spec", "No spec"),
            ("name", "Upper", "Upper"),
            ("namespace", "a b", "a b"),
            ("replicas", "", ""),
            ("memory", "lots", "lots"),
            ("image", "a b", "a b"),
            ("resourceName", "gpu", "gpu"),
            ("resources", '{"a/b": "0"}', "a/b"),
            ("placement", '{"nodeSelector": {"a b": "c"}}', "nodeSelector"),
            ("template", '{"ports": [{"name": "web", "port": 0}]}', "ports[0].port: "),
            ("template", PLATFORM_SECRET, "fn-1-queue"),
        ],
    )
    def test_an_error_of_the_api_is_shown_at_its_field(
        self,
        operator_client: Client,
        cluster: FakeCluster,
        field: str,
        value: str,
        error: str,
    ) -> None:
        valid = {"key": KEY, "specName": "g1.1", "name": "a", "replicas": "1"}

        page = operator_client.post(ADD_POOL, {**valid, field: value})

        errors = page.context["form"].errors
        assert list(errors) == [field]
        assert error in errors[field][0]
        assert not StockPool.objects.exists()

    def test_a_name_in_use_keeps_the_entered_values(
        self, operator_client: Client, cluster: FakeCluster, rows: Rows
    ) -> None:
        spec_row("g9")
        entered = {"key": KEY, "specName": "g9", "name": rows.pool().name, "replicas": "1"}

        form = operator_client.post(ADD_POOL, entered).context["form"]

        assert list(form.errors) == ["name"]
        assert form["specName"].value() == "g9"


def test_the_rows_of_a_scale_form_show_their_number_of_pods(
    operator_client: Client, cluster: FakeCluster, rows: Rows
) -> None:
    failed = rows.pool("Failed", message="No node.")
    ready = rows.pool(reason="DeploymentReady", message="2 of 2 pods are available.")

    page = choose(operator_client, "scale", failed, ready)

    texts = {line.name: line.text for _, line in page.context["lines"]}
    assert texts[str(failed)] == "0 of 2 pods · No node."
    assert texts[str(ready)] == ready.message


class TestUnits:
    def test_a_deletion_shows_units_tenants_gpus_and_replacements(
        self, operator_client: Client, cluster: FakeCluster
    ) -> None:
        spec_row(restocks_on_delete=True)
        units = [
            unit(gpu=2, source_uid="a"),
            unit(UnitPhase.STOPPED, gpu=2, is_suspended=True),
            other_tenants_unit(),
        ]

        page = choose(operator_client, "delete", *units)
        confirm(operator_client, page)

        assert numbers(page.context["consequence"]) == [3, 2, 3, 1]
        assert kinds() == ["unit.delete"] * 3
        assert set(Operation.objects.values_list("tenant__name", flat=True)) == {
            "default",
            "other",
        }

    def test_stop_and_start_are_offered_where_they_are_possible(
        self, operator_client: Client, cluster: FakeCluster
    ) -> None:
        def offers(row: ActiveUnit) -> list[str]:
            page = operator_client.get(address(row, "change", row.pk))
            return [one["url"].split("/")[-2] for one in page.context["row_actions"]]

        assert offers(unit()) == ["stop", "reconcile", "delete"]
        assert offers(unit(is_suspended=True)) == ["start", "reconcile", "delete"]
        ended = unit(UnitPhase.SUCCEEDED, is_ended=True)
        assert offers(ended) == ["stop", "start", "reconcile", "delete"]
        assert offers(unit(deletion_requested_at=now())) == ["reconcile"]
        gone = unit(deletion_requested_at=now(), deleted_at=now())
        assert offers(gone) == []

    def test_a_stop_shows_released_gpus(
        self, operator_client: Client, cluster: FakeCluster
    ) -> None:
        page = press(operator_client, "stop", unit(gpu=4))
        confirm(operator_client, page)

        assert numbers(page.context["consequence"]) == [1, 4]
        assert kinds() == ["unit.stop"]

    def test_a_start_shows_the_ready_stock(
        self, operator_client: Client, cluster: FakeCluster
    ) -> None:
        stock()

        page = press(operator_client, "start", unit(UnitPhase.STOPPED, is_suspended=True))
        confirm(operator_client, page)

        assert "(1 of 'g1.1', 1 ready)" in page.context["consequence"]
        assert kinds() == ["unit.start"]
        assert GpuUnit.objects.filter(claimed_by__kind="unit.start").count() == 1

    def test_a_unit_in_a_namespace_without_a_tenant_is_rejected(
        self, operator_client: Client, cluster: FakeCluster
    ) -> None:
        row = unit(tenant=None, namespace="by-hand")

        after = confirm(operator_client, press(operator_client, "stop", row))

        assert f"by-hand/{row.name}" in after.messages[0]
        assert not Operation.objects.exists()


class TestStock:
    def test_exactly_the_selected_stock_is_removed(
        self, operator_client: Client, cluster: FakeCluster
    ) -> None:
        spec_row(warm_target=1)
        selected = [stock(), stock(UnitPhase.FAILED)]
        kept = stock()

        page = choose(operator_client, "remove", *selected)
        confirm(operator_client, page)

        assert numbers(page.context["consequence"])[:4] == [2, 1, 2, 2]
        assert "(g1.1)" in page.context["consequence"]
        removed = StockUnit.objects.filter(deletion_requested_at__isnull=False)
        assert set(removed.values_list("pk", flat=True)) == {row.pk for row in selected}
        assert not StockUnit.objects.get(pk=kept.pk).claimed_by_id
        assert kinds() == ["stock.remove"] * 2

    def test_unscheduled_stock_releases_no_gpu(
        self, operator_client: Client, cluster: FakeCluster
    ) -> None:
        no_node = {"cause": StartupCause.UNSCHEDULABLE, "gpu": 16}
        unplaced = [stock(UnitPhase.FAILED, **no_node) for _ in range(2)]
        page = choose(operator_client, "remove", *unplaced)
        assert numbers(page.context["consequence"]) == [2, 0, 0]

        page = choose(operator_client, "remove", *unplaced, stock(gpu=4))
        assert numbers(page.context["consequence"]) == [3, 1, 4]

    def test_an_obstacle_is_shown_once_with_all_of_its_rows(
        self, operator_client: Client, cluster: FakeCluster
    ) -> None:
        terminating = [stock(deletion_requested_at=now()) for _ in range(5)]

        page = choose(operator_client, "remove", *terminating, stock())

        (rejected,) = _rejected(page)
        assert sorted(rejected) == sorted(str(row) for row in terminating)
        assert page.context["impossible_count"] == 5

    def test_claimed_and_consumed_stock_is_rejected(
        self, operator_client: Client, cluster: FakeCluster, rows: Rows
    ) -> None:
        claimed = stock(claimed_by=rows.operation("Pending"))
        consumed = stock(consumed_by="x", consumed_at=now())

        page = choose(operator_client, "remove", claimed, consumed)

        assert sorted(_rejected(page)) == sorted([[str(claimed)], [str(consumed)]])

    def test_stock_claimed_before_the_confirmation_is_rejected(
        self, operator_client: Client, cluster: FakeCluster, rows: Rows
    ) -> None:
        row = stock()
        page = press(operator_client, "remove", row)
        StockUnit.objects.filter(pk=row.pk).update(claimed_by=rows.operation("Pending"))

        after = confirm(operator_client, page)

        assert row.name in after.messages[0]
        assert kinds() == ["stockpool.create"]  # the operation that claims

    def test_a_seeding_is_confirmed_with_its_numbers(
        self, operator_client: Client, cluster: FakeCluster
    ) -> None:
        spec_row("h2", gpu=2)
        stock_row(spec_name="h2")
        entered = {"key": KEY, "specName": "h2", "replicas": "3"}

        page = Page(operator_client.post(SEED, entered))
        before = Operation.objects.count()
        confirm(operator_client, page)
        after = confirm(operator_client, page)

        assert numbers(page.context["consequence"]) == [3, 1, 6, 1]
        assert before == 0
        operation = Operation.objects.get()
        assert (operation.kind, operation.operation_id) == ("stock.seed", KEY)
        assert GpuUnit.objects.filter(spec_name="h2").count() == 4
        link = reverse("admin:operations_operation_change", args=[operation.pk])
        assert f'href="{link}"' in after.messages[0]

    def test_a_confirmed_seeding_can_be_edited_first(
        self, operator_client: Client, cluster: FakeCluster
    ) -> None:
        spec_row()
        page = Page(operator_client.post(SEED, {"key": KEY, "specName": "g1.1", "replicas": "3"}))

        form = confirm(operator_client, page, edit="1").context["form"]

        assert (form["specName"].value(), form["replicas"].value()) == ("g1.1", "3")
        assert not Operation.objects.exists()

    @pytest.mark.parametrize("confirmed", [{}, {"confirmed": "1"}], ids=["first", "confirmed"])
    def test_an_unknown_spec_is_an_error_of_its_field_and_not_created(
        self, operator_client: Client, cluster: FakeCluster, confirmed: dict[str, str]
    ) -> None:
        entered = {"key": KEY, "specName": "typo", "replicas": "2", **confirmed}

        errors = operator_client.post(SEED, entered).context["form"].errors

        assert list(errors) == ["specName"]
        assert not GpuSpec.objects.exists()
        assert not GpuUnit.objects.exists()


class TestChoices:
    @pytest.mark.parametrize("address", [ADD_POOL, SEED])
    def test_enabled_specs_can_be_selected(
        self, operator_client: Client, cluster: FakeCluster, address: str
    ) -> None:
        for name, enabled in (("g2.1", True), ("old", False), ("g1.1", True)):
            spec_row(name, is_enabled=enabled)

        page = operator_client.get(address).content.decode()

        (offered,) = re.findall('<select name="specName"[^>]*>(.*?)</select>', page, re.DOTALL)
        assert re.findall('value="([^"]*)"', offered) == ["", "g1.1", "g2.1"]

    def test_the_number_of_choices_is_limited(
        self, operator_client: Client, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("inventory.selectors.MOST_OFFERED", 1)
        spec_row("g1.1")
        spec_row("g2.1")

        assert operator_client.get(SEED).content.decode().count("<option") == 2


@pytest.mark.parametrize(
    "body",
    [{}, {"_selected_action": "0"}, {"_selected_action": "x' OR 1"}],
    ids=["none", "unknown", "not-an-id"],
)
def test_an_empty_selection_is_an_error(
    operator_client: Client, rows: Rows, body: dict[str, str]
) -> None:
    row: Model = rows.pool()

    response = operator_client.post(address(row, "do", "delete"), body, follow=True)

    assert [message.level_tag for message in response.context["messages"]] == ["error"]
    assert not Operation.objects.exists()


def test_the_admin_log_of_a_row_has_user_and_operation(
    operator_client: Client, cluster: FakeCluster, rows: Rows
) -> None:
    pool = rows.pool()
    confirm(operator_client, press(operator_client, "delete", pool))
    page = operator_client.get(address(pool, "change", pool.pk)).content.decode()
    (log,) = re.findall(r'<a class="log off" href="([^"]+)">Admin log', page)

    (entry,) = operator_client.get(log).context["action_list"]

    assert str(Operation.objects.get()) in entry.get_change_message()
    assert entry.user.username == "operator"


def test_an_action_without_an_operation_is_logged_once_with_its_operation_id(
    operator_client: Client, rows: Rows
) -> None:
    pool = rows.pool()
    page = press(operator_client, "reconcile", pool)

    confirm(operator_client, page)
    confirm(operator_client, page)

    (key,) = re.findall(r'name="key" value="([^"]+)"', page)
    entry = LogEntry.objects.get()
    assert f"'{key}-{pool.pk}'" in entry.get_change_message()


@pytest.mark.parametrize("action", ["delete", "stop", "start"])
def test_the_consequence_has_no_query_per_row(
    operator_client: Client,
    django_assert_max_num_queries: DjangoAssertNumQueries,
    action: str,
) -> None:
    units = [unit(is_suspended=action == "start") for _ in range(15)]

    with django_assert_max_num_queries(15):
        choose(operator_client, action, *units)


def test_settings_are_changed_for_one_row_only(
    operator_client: Client, cluster: FakeCluster
) -> None:
    page = choose(operator_client, "edit", spec_row("a"), spec_row("b"))

    assert "form" not in page.context
    assert len(page.messages) == 1


def test_too_many_rows_are_rejected(operator_client: Client, rows: Rows) -> None:
    many = [rows.pool() for _ in range(MAX_ROWS + 1)]

    assert numbers(choose(operator_client, "delete", *many).messages[0]) == [MAX_ROWS]


def test_an_unknown_action_is_not_found(operator_client: Client, rows: Rows) -> None:
    response = operator_client.post(address(rows.pool(), "do", "explode"))

    assert response.status_code == 404


def test_a_get_of_an_action_redirects_to_the_list(operator_client: Client, rows: Rows) -> None:
    response = operator_client.get(address(rows.pool(), "do", "delete"))

    assert (response.status_code, response.headers["Location"]) == (302, POOLS)
