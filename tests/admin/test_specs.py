"""The catalogue can be changed in the admin, by the same rules and services as the API's."""

import re
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries, Settings

from gpuplatform.operations.models import Operation
from inventory.models import GpuSpec
from tests.factories.admin_rows import Rows
from tests.factories.admin_steps import address, choose, confirm, press, told
from tests.factories.unit_rows import spec_row, stock_row, unit_row
from tests.fakes.cluster import FakeCluster
from tests.fakes.installed import cluster
from units.models import GpuUnit
from units.phases import UnitPhase

__all__ = ["cluster"]

LIST = reverse("admin:inventory_gpuspec_changelist")
ADD = reverse("admin:inventory_gpuspec_add")
KEY = f"admin-{'0' * 32}"

pytestmark = pytest.mark.django_db


def form(**changes: Any) -> dict[str, Any]:
    return {
        "key": KEY,
        "name": "g1.1",
        "cpu": "8",
        "memory": "64Gi",
        "gpu": "1",
        "warmTarget": "0",
        "mayPreempt": "on",
        "enabled": "on",
        **changes,
    }


def edit(client: Client, row: GpuSpec, **changes: Any) -> str:
    return press(client, "edit", row, **form(key="", **changes))


def operations() -> list[tuple[str, dict[str, Any]]]:
    return list(Operation.objects.order_by("id").values_list("kind", "payload"))


def test_the_list_shows_target_pause_and_counts(operator_client: Client) -> None:
    spec_row(warm_target=4, is_top_up_paused=True)
    spec_row("off", is_enabled=False)
    stock_row()
    stock_row(UnitPhase.FAILED)
    unit_row()

    page = operator_client.get(LIST).content.decode()

    for text in ("Paused", "Disabled", "1 ready", "1 failed", "none"):
        assert text in page
    assert "?spec=g1.1&amp;state=ready" in page


@pytest.mark.parametrize("query", ["enabled=no", "paused=yes", "q=wan"])
def test_entries_are_found_by(operator_client: Client, query: str) -> None:
    spec_row("other")
    spec_row("wanted", is_enabled=False, is_top_up_paused=True)

    page = operator_client.get(f"{LIST}?{query}").content.decode()

    assert ">wanted</a>" in page
    assert ">other</a>" not in page


def test_an_entry_is_made_through_the_services(
    operator_client: Client, cluster: FakeCluster
) -> None:
    answer = operator_client.post(ADD, form(memory="65536Mi", warmTarget="2"), follow=True)

    row = GpuSpec.objects.get()
    assert (row.name, row.memory, row.warm_target) == ("g1.1", "64Gi", 2)
    operation = Operation.objects.get()
    assert (operation.kind, operation.object_row) == ("gpuspec.create", row.pk)
    assert answer.redirect_chain[-1][0] == address(row, "change", row.pk)
    assert "GPU spec g1.1: Creation accepted. See its job" in told(answer.content.decode())
    assert KEY in LogEntry.objects.get().change_message


def test_a_form_that_is_sent_twice_is_one_request(
    operator_client: Client, cluster: FakeCluster
) -> None:
    for _ in range(2):
        operator_client.post(ADD, form())

    assert Operation.objects.count() == GpuSpec.objects.count() == LogEntry.objects.count() == 1


def test_a_change_says_what_changes_and_is_an_operation_with_that(
    operator_client: Client, cluster: FakeCluster
) -> None:
    row = spec_row()
    stock_row()

    page = edit(operator_client, row, warmTarget="5", topUpPaused="on", name="ignored")
    before = Operation.objects.count()
    confirm(operator_client, page)

    assert "Changes 2 settings (Warm target: 0 → 5; Top-up is paused: False → True)" in told(page)
    assert "1 stock unit stays as it is; 0 units in use will not be touched." in told(page)
    assert before == 0
    row.refresh_from_db()
    assert (row.name, row.warm_target, row.is_top_up_paused) == ("g1.1", 5, True)
    assert operations() == [("gpuspec.update", {"warmTarget": 5, "topUpPaused": True})]


def test_what_is_emptied_is_changed_to_nothing(
    operator_client: Client, cluster: FakeCluster
) -> None:
    row = spec_row(placement={"nodeSelector": {"zone": "a"}}, product="A100")

    confirm(operator_client, edit(operator_client, row, memory=""))

    assert operations() == [("gpuspec.update", {"memory": "", "placement": {}, "product": ""})]


def test_an_edit_without_a_change_asks_for_one(
    operator_client: Client, cluster: FakeCluster
) -> None:
    page = edit(operator_client, spec_row())

    assert "Give at least one field to change." in page
    assert not Operation.objects.exists()


@pytest.mark.parametrize(
    ("entered", "complaint"),
    [
        ({"memory": "lots"}, "is not a quantity"),
        ({"cpu": "0"}, "CPU"),
        ({"gpu": "-1"}, "Must be 0 or more"),
        ({"gpu": "one"}, "Must be an integer"),
        ({"gpu": "99999"}, "Must be 1024 or less"),
        ({"warmTarget": "100000"}, "Must be 1000 or less"),
        ({"product": "a b"}, "is not possible"),
        ({"placement": "{"}, "Must be JSON: line 1"),
        ({"placement": '{"tolerations": [], "tolerations": []}'}, "each key is given once"),
        ({"placement": '{"nodeSelector": {"a b": "c"}}'}, "nodeSelector"),
        ({"placement": "[]"}, "Must be an object"),
        ({"placement": '{"x": 1}'}, "x: Is not a known field"),
    ],
    ids=str,
)
def test_a_wrong_entry_is_refused_at_its_field_and_kept(
    operator_client: Client, cluster: FakeCluster, entered: dict[str, str], complaint: str
) -> None:
    ((name, value),) = entered.items()

    pages = [
        edit(operator_client, spec_row(), **entered),
        operator_client.post(ADD, form(**{"name": "new", **entered})).content.decode(),
    ]

    for page in pages:
        field = page[page.index(f'for="id_{name}"') : page.index(f'id="id_{name}_helptext"')]
        assert complaint in told(field)
        assert value in told(field.replace('value="', ">"))
    assert GpuSpec.objects.count() == 1
    assert not Operation.objects.exists()


@pytest.mark.parametrize("name", ["g1.1", "a b", "-a", ""])
def test_a_name_that_is_taken_or_not_possible_is_refused_at_its_field(
    operator_client: Client, cluster: FakeCluster, name: str
) -> None:
    spec_row()

    page = operator_client.post(ADD, form(name=name, memory="7Gi")).content.decode()

    field = page[page.index('for="id_name"') : page.index('id="id_name_helptext"')]
    assert "errorlist" in field
    assert 'value="7Gi"' in page
    assert GpuSpec.objects.count() == 1


def test_the_form_says_what_each_field_means_with_an_example(operator_client: Client) -> None:
    page = told(operator_client.get(ADD).content.decode())

    assert "Memory of one unit, request and limit: a Kubernetes quantity" in page
    assert "For example 64Gi." in page


def test_one_that_is_enabled_is_not_deleted_and_says_so(
    operator_client: Client, cluster: FakeCluster
) -> None:
    row = spec_row()

    refused = press(operator_client, "delete", row)
    GpuSpec.objects.update(is_enabled=False)
    page = press(operator_client, "delete", row)
    after = confirm(operator_client, page)

    assert "Disable it first" in refused
    assert "Removes 1 GPU spec from the catalogue" in page
    assert "Delete accepted. See its job" in told(after)
    assert not GpuSpec.objects.exists()
    assert Operation.objects.get().kind == "gpuspec.delete"


@pytest.mark.parametrize(("action", "paused"), [("pause", True), ("resume", False)])
def test_many_are_paused_and_resumed_and_each_says_so(
    operator_client: Client, cluster: FakeCluster, action: str, paused: bool
) -> None:
    rows = [spec_row(f"s{number}", is_top_up_paused=not paused) for number in range(2)]

    page = choose(operator_client, action, *rows)
    result = confirm(operator_client, page)

    assert "2 GPU specs" in told(page)
    assert set(GpuSpec.objects.values_list("is_top_up_paused", flat=True)) == {paused}
    assert Operation.objects.count() == LogEntry.objects.count() == 2
    assert result.count(">Job</a>") == 2


def test_stock_is_seeded_of_a_spec_and_the_gpus_are_said(
    operator_client: Client, cluster: FakeCluster
) -> None:
    row = spec_row(gpu=2)

    page = press(operator_client, "seed", row, replicas="3")
    confirm(operator_client, page)

    assert "Makes 3 stock units of 1 GPU spec; 6 GPUs are taken for them." in told(page)
    assert operations() == [("stock.seed", {"specName": "g1.1", "replicas": 3})]
    assert GpuUnit.objects.filter(gpu=2).count() == 3


def test_what_was_entered_can_be_changed_before_it_is_confirmed(
    operator_client: Client, cluster: FakeCluster
) -> None:
    page = press(operator_client, "seed", spec_row(), replicas="3")

    fields = confirm(operator_client, page, again="1", key="")

    assert re.search(r'name="replicas" value="3"', fields)
    assert "What happens" not in fields
    assert not Operation.objects.exists()


def test_a_warm_target_says_how_much_is_made_for_it(
    operator_client: Client, cluster: FakeCluster
) -> None:
    row = spec_row(gpu=2, warm_target=1)
    stock_row()

    page = press(operator_client, "target", row, warmTarget="4")
    confirm(operator_client, page)

    assert "4 together in place of 1. The top-up makes 3 stock units for it, with 6 GPUs" in told(
        page
    )
    assert operations() == [("gpuspec.update", {"warmTarget": 4})]


def test_a_warm_target_under_a_pause_says_that_nothing_is_made(operator_client: Client) -> None:
    page = press(operator_client, "target", spec_row(is_top_up_paused=True), warmTarget="4")

    assert "makes 0 stock units for it, with 0 GPUs" in told(page)
    assert "For 1 of them nothing is made: disabled, or the top-up is paused." in told(page)


@pytest.mark.parametrize("action", ["seed", "target"])
def test_an_empty_number_is_asked_for(
    operator_client: Client, cluster: FakeCluster, action: str
) -> None:
    page = press(operator_client, action, spec_row(), nothing="")

    assert "Is required." in page
    assert "What happens" not in page


def test_without_a_cluster_the_refusal_is_said(
    operator_client: Client, settings: Settings
) -> None:
    settings.KUBE_MODE = "off"
    row = spec_row()

    page = confirm(operator_client, edit(operator_client, row, warmTarget="5"))
    added = operator_client.post(ADD, form(name="new")).content.decode()

    assert "without a cluster" in page
    assert "without a cluster" in added
    row.refresh_from_db()
    assert row.warm_target == 0
    assert not LogEntry.objects.exists()


def test_nobody_deletes_past_the_services(operator_client: Client, cluster: FakeCluster) -> None:
    row = spec_row(is_enabled=False)

    chosen = {"action": "delete_selected", "_selected_action": row.pk, "post": "yes"}
    answers = [
        operator_client.post(LIST, chosen),
        operator_client.post(address(row, "delete", row.pk), {"post": "yes"}),
    ]

    assert [answer.status_code for answer in answers] == [403, 403]
    assert GpuSpec.objects.exists()


def test_its_page_says_how_its_units_stand_and_what_keeps_top_up_back(
    operator_client: Client,
) -> None:
    row = spec_row(warm_target=1, is_top_up_paused=True)
    stock_row()

    url = reverse("admin:inventory_gpuspec_change", args=[row.pk])
    page = operator_client.get(url).content.decode()

    assert "1 ready" in page
    assert "1 seeded, 0 taken, 0 removed: 1 in stock" in page
    assert "The top-up is paused." in page


def test_its_page_lists_the_jobs_on_it_and_those_on_its_stock(
    operator_client: Client, rows: Rows
) -> None:
    row = spec_row()
    rows.operation(operation_id="on-itself", object_kind="GPUSpec", object_row=row.pk)
    for kind, name in (("stock.seed", "seeding"), ("stock.remove", "removal")):
        for spec in ("g1.1", "g1.10"):
            payload = {"specName": spec, "replicas": 3}
            rows.operation(operation_id=f"{name}-of-{spec}", kind=kind, payload=payload)

    url = reverse("admin:inventory_gpuspec_change", args=[row.pk])
    page = operator_client.get(url).content.decode()

    for text in ("on-itself", "seeding-of-g1.1<", "removal-of-g1.1<"):
        assert text in page
    assert "g1.10" not in page


def test_the_pages_cost_few_queries(
    operator_client: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    rows = [spec_row(f"s{number}") for number in range(12)]
    for row in rows:
        stock_row(spec_name=row.name)

    with django_assert_max_num_queries(12):
        operator_client.get(LIST)
    with django_assert_max_num_queries(12):
        operator_client.get(reverse("admin:inventory_gpuspec_change", args=[rows[0].pk]))
