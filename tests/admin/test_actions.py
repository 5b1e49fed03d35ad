"""Actions on pools, units and stock: said first in numbers, done by the services, written down."""

import json
import re
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.db.models import Model
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries

from gpuplatform.adminkit.actions.action import MOST_AT_ONCE
from gpuplatform.clock import now
from gpuplatform.operations.models import Operation
from gpuplatform.tenancy.models import Tenant
from gpuplatform.workloads.causes import StartupCause
from inventory.models import StockPool
from tests.factories.admin_rows import Rows
from tests.factories.admin_steps import address, choose, confirm, press, told
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
OF_THE_PLATFORM = json.dumps({"envs": [FROM_SECRET]}).replace("hf", "fn-1-queue")

pytestmark = pytest.mark.django_db


def unit(phase: str = UnitPhase.READY, **changes: Any) -> ActiveUnit:
    return ActiveUnit.objects.get(pk=unit_row(phase, **changes).pk)


def stock(phase: str = UnitPhase.READY, **changes: Any) -> StockUnit:
    return StockUnit.objects.get(pk=stock_row(phase, **changes).pk)


def other_tenants_unit() -> ActiveUnit:
    tenant = Tenant.objects.create(name="other", namespace="tenant-other")
    return unit(tenant=tenant, namespace=tenant.namespace)


def kinds() -> list[str]:
    return list(Operation.objects.order_by("id").values_list("kind", flat=True))


class TestPools:
    def test_scaling_says_pods_and_gpus_before_and_after(
        self, operator_client: Client, cluster: FakeCluster, rows: Rows
    ) -> None:
        pools = [rows.pool(), rows.pool()]

        fields = choose(operator_client, "scale", *pools)
        page = confirm(operator_client, fields, replicas="5")
        before = kinds()
        result = confirm(operator_client, page)

        assert "2 pools with 4 pods now: 5 a pool makes 10 pods; 6 GPUs more." in told(page)
        assert before == []
        assert kinds() == ["stockpool.update"] * 2
        assert [row.payload for row in Operation.objects.all()[:1]] == [{"replicas": 5}]
        assert result.count("Accepted") == 2

    def test_the_field_holds_what_a_pool_has_now(
        self, operator_client: Client, rows: Rows
    ) -> None:
        page = press(operator_client, "scale", rows.pool(desired_replicas=7))

        assert re.search(r'name="replicas" value="7"', page)

    @pytest.mark.parametrize("entered", ["-1", "x", "10001", ""])
    def test_a_wrong_number_is_refused_at_its_field(
        self, operator_client: Client, cluster: FakeCluster, rows: Rows, entered: str
    ) -> None:
        page = press(operator_client, "scale", rows.pool(), replicas=entered)

        assert "errorlist" in page
        assert "What happens" not in page

    def test_a_deletion_says_what_becomes_free_and_leads_back_to_the_pool(
        self, operator_client: Client, cluster: FakeCluster, rows: Rows
    ) -> None:
        pool = rows.pool()

        page = press(operator_client, "delete", pool)
        after = confirm(operator_client, page)

        assert "Deletes 1 stock pool: 2 pods end and 2 GPUs become free." in told(page)
        assert "Terminating" in after
        entry = LogEntry.objects.get()
        assert entry.object_id == str(pool.pk)
        assert Operation.objects.get().operation_id in entry.change_message

    def test_a_pool_whose_pods_do_not_run_holds_no_gpus(
        self, operator_client: Client, rows: Rows
    ) -> None:
        pool = rows.pool("Failed")

        deletion = told(press(operator_client, "delete", pool))
        scaling = told(press(operator_client, "scale", pool, replicas="1"))

        assert "2 pods end and 0 GPUs become free." in deletion
        assert "1 a pool makes 1 pod; 1 GPU more." in scaling

    def test_what_is_being_deleted_is_left_out_and_says_so(
        self, operator_client: Client, cluster: FakeCluster, rows: Rows
    ) -> None:
        pool, going = rows.pool(), rows.pool("Terminating", deletion_requested_at=now())

        page = choose(operator_client, "delete", pool, going)
        confirm(operator_client, page)

        assert "Not possible for 1" in page
        assert "It is being deleted." in page
        assert kinds() == ["stockpool.delete"]

    def test_when_nothing_is_possible_nothing_is_offered(
        self, operator_client: Client, cluster: FakeCluster, rows: Rows
    ) -> None:
        page = press(operator_client, "delete", rows.pool(deletion_requested_at=now()))

        assert 'name="key"' not in page

    def test_a_pool_in_its_pause_is_looked_at_now(
        self, operator_client: Client, rows: Rows
    ) -> None:
        pool = rows.pool(failures=3)

        page = press(operator_client, "reconcile", pool)
        after = confirm(operator_client, page)

        assert "1 of them waited out a pause" in told(page)
        assert "It is looked at now." in told(after)
        pool.refresh_from_db()
        assert pool.due_at is not None
        assert pool.due_seq == 1

    def test_a_refusal_of_the_service_is_the_rows_result(
        self, operator_client: Client, cluster: FakeCluster, rows: Rows
    ) -> None:
        pools = [rows.pool(), rows.pool()]
        page = confirm(operator_client, choose(operator_client, "scale", *pools), replicas="5")
        StockPool.objects.filter(pk=pools[0].pk).update(deletion_requested_at=now())

        answer = confirm(operator_client, page)
        result = told(answer)
        (jobs,) = re.findall('<a href="([^"]+)">follow the jobs</a>', answer)

        assert "1 accepted, 1 refused." in result
        assert list(operator_client.get(jobs).context["cl"].queryset) == [Operation.objects.get()]
        assert "Accepteddefault/pool-1" in re.sub(r"\s", "", result)
        assert "Refuseddefault/pool-0" in re.sub(r"\s", "", result)
        assert "is being deleted. Wait until it is deleted." in result
        assert LogEntry.objects.count() == 1

    def test_a_pool_is_made_as_by_the_api(
        self, operator_client: Client, cluster: FakeCluster
    ) -> None:
        entered = {
            "key": KEY,
            "specName": "g1.1",
            "name": "h100",
            "replicas": "2",
            "gpu": "1",
            "template": json.dumps({"envs": [FROM_SECRET]}),
        }

        answers = [operator_client.post(ADD_POOL, entered) for _ in range(2)]

        pool = StockPool.objects.get()
        assert [answer.headers["Location"] for answer in answers] == (
            [address(pool, "change", pool.pk)] * 2
        )
        assert (pool.namespace, pool.name) == ("default", "h100")
        assert pool.spec["template"]["envs"] == [FROM_SECRET]
        assert kinds() == ["stockpool.create"]
        assert Operation.objects.get().operation_id == KEY

    @pytest.mark.parametrize(
        ("field", "value", "complaint"),
        [
            ("specName", "", "Is required."),
            ("specName", "No spec", "is not possible"),
            ("name", "Upper", "is not possible"),
            ("namespace", "a b", "is not possible"),
            ("replicas", "", "Is required."),
            ("memory", "lots", "is not a quantity"),
            ("image", "a b", "is not"),
            ("template", '{"ports": [{"name": "web", "port": 0}]}', "ports[0].port: Must be 1"),
            ("template", OF_THE_PLATFORM, "'fn-1-queue' is the platform's own"),
        ],
    )
    def test_a_fault_is_said_at_its_field_in_the_words_of_the_api(
        self,
        operator_client: Client,
        cluster: FakeCluster,
        field: str,
        value: str,
        complaint: str,
    ) -> None:
        sound = {"key": KEY, "specName": "g1.1", "name": "a", "replicas": "1"}

        page = operator_client.post(ADD_POOL, {**sound, field: value}).content.decode()

        near = page[page.index(f'for="id_{field}"') : page.index(f'id="id_{field}_helptext"')]
        assert complaint in told(near)
        assert not StockPool.objects.exists()

    def test_a_name_in_use_keeps_what_was_entered(
        self, operator_client: Client, cluster: FakeCluster, rows: Rows
    ) -> None:
        entered = {"key": KEY, "specName": "g9", "name": rows.pool().name, "replicas": "1"}

        page = operator_client.post(ADD_POOL, entered).content.decode()

        assert "Is in use." in page
        assert 'value="g9"' in page


def test_a_row_to_be_scaled_says_how_many_pods_it_has_now(
    operator_client: Client, cluster: FakeCluster, rows: Rows
) -> None:
    failed = rows.pool("Failed", message="No node.")
    ready = rows.pool(reason="DeploymentReady", message="2 of 2 pods are available.")

    page = choose(operator_client, "scale", failed, ready)

    assert "<bdi>0 of 2 pods · No node.</bdi>" in page
    assert "<bdi>2 of 2 pods are available.</bdi>" in page


class TestUnits:
    def test_deleting_says_units_tenants_gpus_and_what_is_made_again(
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

        said = told(page)
        assert "Deletes 3 units of 2 tenants; 3 GPUs become free." in said
        assert "1 stock unit is made in their place." in said
        assert kinds() == ["unit.delete"] * 3
        assert set(Operation.objects.values_list("tenant__name", flat=True)) == {
            "default",
            "other",
        }

    def test_stopping_and_starting_are_offered_where_they_are_possible(
        self, operator_client: Client, cluster: FakeCluster
    ) -> None:
        def offers(row: ActiveUnit) -> list[str]:
            page = operator_client.get(address(row, "change", row.pk)).content.decode()
            return re.findall(r'formaction="[^"]*/do/(\w+)/"', page)

        assert offers(unit()) == ["stop", "reconcile", "delete"]
        assert offers(unit(is_suspended=True)) == ["start", "reconcile", "delete"]
        assert offers(unit(deletion_requested_at=now())) == ["reconcile"]
        gone = unit(deletion_requested_at=now(), deleted_at=now())
        assert offers(gone) == []

    def test_a_stop_says_what_becomes_free(
        self, operator_client: Client, cluster: FakeCluster
    ) -> None:
        page = press(operator_client, "stop", unit(gpu=4))
        confirm(operator_client, page)

        assert "Stops 1 unit; 4 GPUs become free. What runs in it ends;" in told(page)
        assert kinds() == ["unit.stop"]

    def test_a_start_says_how_much_is_ready(
        self, operator_client: Client, cluster: FakeCluster
    ) -> None:
        stock()

        page = press(operator_client, "start", unit(UnitPhase.STOPPED, is_suspended=True))
        confirm(operator_client, page)

        assert "1 GPU is taken from stock (1 of 'g1.1', 1 ready)." in told(page)
        assert kinds() == ["unit.start"]
        assert GpuUnit.objects.filter(claimed_by__kind="unit.start").count() == 1

    def test_a_unit_in_nobodys_namespace_says_so(
        self, operator_client: Client, cluster: FakeCluster
    ) -> None:
        row = unit(tenant=None, namespace="by-hand")

        after = confirm(operator_client, press(operator_client, "stop", row))

        assert "The namespace 'by-hand' belongs to no tenant." in told(after)
        assert not Operation.objects.exists()


class TestStock:
    def test_exactly_what_was_chosen_is_removed_ready_or_failed(
        self, operator_client: Client, cluster: FakeCluster
    ) -> None:
        spec_row(warm_target=1)
        chosen = [stock(), stock(UnitPhase.FAILED)]
        kept = stock()

        page = choose(operator_client, "remove", *chosen)
        confirm(operator_client, page)

        said = told(page)
        assert "Removes 2 stock units, 1 of them ready; 2 GPUs become free." in said
        assert "2 of them are of GPU specs with a warm target (g1.1)" in said
        going = StockUnit.objects.filter(deletion_requested_at__isnull=False)
        assert set(going.values_list("pk", flat=True)) == {row.pk for row in chosen}
        assert not StockUnit.objects.get(pk=kept.pk).claimed_by_id
        assert kinds() == ["stock.remove"] * 2

    def test_stock_that_no_node_could_take_frees_no_gpu(
        self, operator_client: Client, cluster: FakeCluster
    ) -> None:
        no_node = {"cause": StartupCause.UNSCHEDULABLE, "gpu": 16}
        unplaced = [stock(UnitPhase.FAILED, **no_node) for _ in range(2)]
        page = choose(operator_client, "remove", *unplaced)
        assert "Removes 2 stock units, 0 of them ready; no GPU becomes free." in told(page)

        page = choose(operator_client, "remove", *unplaced, stock(gpu=4))
        assert "4 GPUs become free." in told(page)

    def test_an_obstacle_is_said_once_with_all_that_it_is_in_the_way_of(
        self, operator_client: Client, cluster: FakeCluster
    ) -> None:
        going = [stock(deletion_requested_at=now()) for _ in range(5)]

        page = choose(operator_client, "remove", *going, stock())

        assert "Not possible for 5" in page
        assert page.count("It is being deleted.") == 1
        assert "5 stock units</summary>" in page
        assert all(f"<bdi>runtime-stock/{row.name}</bdi>" in page for row in going)

    def test_what_is_set_aside_or_taken_says_who_has_it(
        self, operator_client: Client, cluster: FakeCluster, rows: Rows
    ) -> None:
        claimed = stock(claimed_by=rows.operation("Pending"))
        taken = stock(consumed_by="x", consumed_at=now())

        page = told(choose(operator_client, "remove", claimed, taken))

        assert "It is set aside for a job; cancel that job, or let it end." in page
        assert "A unit has taken it; delete that unit." in page

    def test_what_was_taken_meanwhile_is_refused(
        self, operator_client: Client, cluster: FakeCluster, rows: Rows
    ) -> None:
        row = stock()
        page = press(operator_client, "remove", row)
        StockUnit.objects.filter(pk=row.pk).update(claimed_by=rows.operation("Pending"))

        after = told(confirm(operator_client, page))

        assert "is claimed, consumed or being deleted" in after
        assert kinds() == ["stockpool.create"]  # that of the claim

    def test_the_first_seeding_of_a_spec_enters_it(
        self, operator_client: Client, cluster: FakeCluster
    ) -> None:
        entered = {"key": KEY, "specName": "new-1", "replicas": "2", "gpu": "1", "memory": "1Gi"}

        answer = operator_client.post(SEED, entered, follow=True)

        assert GpuUnit.objects.filter(spec_name="new-1").count() == 2
        page = answer.content.decode()
        assert "Creation accepted. See its job" in told(page)
        assert re.search(
            r'<a href="/admin/operations/operation/\d+/change/">See its job</a>', page
        )

    def test_a_value_against_the_catalogue_is_said_at_its_field(
        self, operator_client: Client, cluster: FakeCluster
    ) -> None:
        spec_row()
        entered = {"key": KEY, "specName": "g1.1", "replicas": "2", "gpu": "4"}

        page = operator_client.post(SEED, entered).content.decode()

        near = page[page.index('for="id_gpu"') : page.index('id="id_gpu_helptext"')]
        assert "The catalogue has 1 for 'g1.1', not 4." in told(near)


class TestSuggestions:
    @pytest.mark.parametrize("address", [ADD_POOL, SEED])
    def test_the_enabled_specs_are_offered_beside_a_field_that_takes_any(
        self, operator_client: Client, cluster: FakeCluster, address: str
    ) -> None:
        for name, enabled in (("g2.1", True), ("old", False), ("g1.1", True)):
            spec_row(name, is_enabled=enabled)

        page = operator_client.get(address).content.decode()

        (offers,) = re.findall(r'<input[^>]* name="specName"[^>]* list="([^"]+)"', page)
        (offered,) = re.findall(f'<datalist id="{offers}">(.*?)</datalist>', page)
        assert re.findall('value="([^"]*)"', offered) == ["g1.1", "g2.1"]

    def test_so_many_are_offered_as_a_form_can_hold(
        self, operator_client: Client, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("inventory.selectors.MOST_OFFERED", 1)
        spec_row("g1.1")
        spec_row("g2.1")

        assert operator_client.get(SEED).content.decode().count("<option") == 1


@pytest.mark.parametrize("body", [{}, {"_selected_action": "0"}, {"_selected_action": "x' OR 1"}])
def test_rows_that_are_gone_or_none_are_said(
    operator_client: Client, rows: Rows, body: dict[str, str]
) -> None:
    row: Model = rows.pool()

    answer = operator_client.post(address(row, "do", "delete"), body, follow=True)

    assert "What was chosen is gone." in answer.content.decode()


def test_the_log_of_a_row_says_who_did_what_by_which_job(
    operator_client: Client, cluster: FakeCluster, rows: Rows
) -> None:
    pool = rows.pool()
    confirm(operator_client, press(operator_client, "delete", pool))
    page = operator_client.get(address(pool, "change", pool.pk)).content.decode()
    (log,) = re.findall(r'<a class="log off" href="([^"]+)"', page)

    said = told(operator_client.get(log).content.decode())

    assert f"Delete: Asked for by the job '{Operation.objects.get()}'." in said
    assert "operator" in said


def test_what_makes_no_job_is_in_the_log_once_with_its_operation_id(
    operator_client: Client, rows: Rows
) -> None:
    pool = rows.pool()
    page = press(operator_client, "reconcile", pool)

    confirm(operator_client, page)
    confirm(operator_client, page)

    (key,) = re.findall(r'name="key" value="([^"]+)"', page)
    entry = LogEntry.objects.get()
    said = f"Reconcile now: It is looked at now. operationID '{key}-{pool.pk}'."
    assert entry.get_change_message() == said


@pytest.mark.parametrize("action", ["delete", "stop", "start"])
def test_the_consequence_costs_no_query_a_row(
    operator_client: Client,
    django_assert_max_num_queries: DjangoAssertNumQueries,
    action: str,
) -> None:
    units = [unit(is_suspended=action == "start") for _ in range(15)]

    with django_assert_max_num_queries(13):
        choose(operator_client, action, *units)


def test_only_one_is_edited_at_a_time(operator_client: Client, cluster: FakeCluster) -> None:
    page = choose(operator_client, "edit", spec_row("a"), spec_row("b"))

    assert "Change settings: choose one at a time." in page


def test_more_than_a_hundred_at_once_are_refused(operator_client: Client, rows: Rows) -> None:
    many = [rows.pool() for _ in range(MOST_AT_ONCE + 1)]

    assert f"Choose at most {MOST_AT_ONCE} at once." in choose(operator_client, "delete", *many)


def test_an_action_that_nobody_knows_is_not_found(operator_client: Client, rows: Rows) -> None:
    answer = operator_client.post(address(rows.pool(), "do", "explode"))

    assert answer.status_code == 404


def test_the_address_of_an_action_alone_leads_to_the_list(
    operator_client: Client, rows: Rows
) -> None:
    answer = operator_client.get(address(rows.pool(), "do", "delete"))

    assert (answer.status_code, answer.headers["Location"]) == (302, POOLS)
