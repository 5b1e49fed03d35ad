"""The catalogue can be changed in the admin, by the same rules and services as the API's."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries, Settings

from gpuplatform.operations.models import Operation
from inventory.models import GpuSpec
from tests.factories.unit_rows import spec_row, stock_row, unit_row
from tests.fakes.cluster import FakeCluster
from tests.fakes.installed import cluster
from units.phases import UnitPhase

__all__ = ["cluster"]

LIST = reverse("admin:inventory_gpuspec_changelist")
ADD = reverse("admin:inventory_gpuspec_add")

pytestmark = pytest.mark.django_db


def form(**changes: Any) -> dict[str, Any]:
    return {
        "name": "g1.1",
        "cpu": "8",
        "memory": "64Gi",
        "gpu": "1",
        "warm_target": "0",
        "placement": "{}",
        "may_preempt": "on",
        "is_enabled": "on",
        **changes,
    }


def change(client: Client, row: GpuSpec, **changes: Any) -> str:
    url = reverse("admin:inventory_gpuspec_change", args=[row.pk])
    return client.post(url, form(**changes), follow=True).content.decode()


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
    answer = operator_client.post(ADD, form(memory="65536Mi", warm_target="2"), follow=True)

    row = GpuSpec.objects.get()
    assert (row.name, row.memory, row.warm_target) == ("g1.1", "64Gi", 2)
    operation = Operation.objects.get()
    assert (operation.kind, operation.object_row) == ("gpuspec.create", row.pk)
    assert "was added successfully" in answer.content.decode()


def test_a_change_is_an_operation_with_what_changed(
    operator_client: Client, cluster: FakeCluster
) -> None:
    row = spec_row()

    change(operator_client, row, warm_target="5", is_top_up_paused="on", name="ignored")

    row.refresh_from_db()
    assert (row.name, row.warm_target, row.is_top_up_paused) == ("g1.1", 5, True)
    operation = Operation.objects.get()
    assert operation.kind == "gpuspec.update"
    assert operation.payload == {"warmTarget": 5, "topUpPaused": True}


def test_saving_without_a_change_asks_for_nothing(
    operator_client: Client, cluster: FakeCluster
) -> None:
    change(operator_client, spec_row())

    assert not Operation.objects.exists()


@pytest.mark.parametrize(
    ("entered", "complaint"),
    [
        ({"memory": "lots"}, "is not a quantity"),
        ({"cpu": "0"}, "CPU"),
        ({"gpu": "-1"}, "greater than or equal to 0"),
        ({"gpu": "99999"}, "Must be 1024 or less"),
        ({"warm_target": "100000"}, "Must be 1000 or less"),
        ({"product": "a b"}, "is not possible"),
        ({"placement": "{"}, "Enter a valid JSON"),
        ({"placement": '{"nodeSelector": {"a b": "c"}}'}, "nodeSelector"),
        ({"placement": "[]"}, "Must be an object"),
        ({"placement": '{"x": 1}'}, "x: Is not a known field"),
    ],
    ids=str,
)
def test_a_wrong_entry_is_refused_at_its_field(
    operator_client: Client, cluster: FakeCluster, entered: dict[str, str], complaint: str
) -> None:
    row = spec_row()

    page = change(operator_client, row, **entered)
    added = operator_client.post(ADD, form(name="new", **entered)).content.decode()

    assert complaint in page
    assert complaint in added
    assert GpuSpec.objects.count() == 1
    assert not Operation.objects.exists()


@pytest.mark.parametrize("name", ["g1.1", "a b", "-a", ""])
def test_a_name_that_is_taken_or_not_possible_is_refused(
    operator_client: Client, cluster: FakeCluster, name: str
) -> None:
    spec_row()

    page = operator_client.post(ADD, form(name=name)).content.decode()

    assert "errorlist" in page
    assert GpuSpec.objects.count() == 1


def test_one_that_is_enabled_is_not_deleted_and_says_so(
    operator_client: Client, cluster: FakeCluster
) -> None:
    row = spec_row()
    url = reverse("admin:inventory_gpuspec_delete", args=[row.pk])

    refused = operator_client.post(url, {"post": "yes"}, follow=True).content.decode()
    kept = GpuSpec.objects.exists()
    GpuSpec.objects.update(is_enabled=False)
    operator_client.post(url, {"post": "yes"}, follow=True)

    assert "Disable it first" in refused
    assert kept
    assert not GpuSpec.objects.exists()
    assert Operation.objects.get().kind == "gpuspec.delete"


@pytest.mark.parametrize(("action", "paused"), [("pause", True), ("resume", False)])
def test_many_are_paused_and_resumed(
    operator_client: Client, cluster: FakeCluster, action: str, paused: bool
) -> None:
    rows = [spec_row(f"s{number}", is_top_up_paused=not paused) for number in range(2)]

    chosen = {"action": action, "_selected_action": [row.pk for row in rows]}
    operator_client.post(LIST, chosen)

    assert set(GpuSpec.objects.values_list("is_top_up_paused", flat=True)) == {paused}
    assert Operation.objects.count() == 2


def test_without_a_cluster_the_refusal_is_said(
    operator_client: Client, settings: Settings
) -> None:
    settings.KUBE_MODE = "off"
    row = spec_row()

    page = change(operator_client, row, warm_target="5")

    assert "without a cluster" in page
    row.refresh_from_db()
    assert row.warm_target == 0


def test_nobody_deletes_many_at_once(operator_client: Client, cluster: FakeCluster) -> None:
    row = spec_row(is_enabled=False)

    chosen = {"action": "delete_selected", "_selected_action": row.pk, "post": "yes"}
    operator_client.post(LIST, chosen)

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
