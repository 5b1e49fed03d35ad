"""Changes of the catalogue in the admin through the services of the API."""

import re
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries, Settings

from gpuplatform.operations.models import Operation
from gpuplatform.workloads.causes import StartupCause
from inventory.models import GpuSpec
from tests.factories.admin_rows import Rows
from tests.factories.admin_steps import Page, address, choose, confirm, numbers, press, text_of
from tests.factories.inventory import pool_row
from tests.factories.node_rows import node_row
from tests.factories.unit_rows import spec_row, stock_row, unit_row
from tests.fakes.cluster import FakeCluster
from tests.fakes.installed import cluster
from units.models import GpuUnit, WarmImage
from units.phases import UnitPhase, WarmImageState
from units.services.obstacles import top_up_obstacle

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


def edit(client: Client, row: GpuSpec, **changes: Any) -> Page:
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


@pytest.mark.parametrize(
    "list_name", ["units_stockunit", "units_activeunit", "inventory_stockpool"]
)
def test_the_lists_mark_a_spec_that_is_not_in_the_catalogue(
    operator_client: Client, list_name: str
) -> None:
    spec_row("known")
    for name in ("known", "deleted"):
        stock_row(spec_name=name)
        unit_row(spec_name=name)
        pool_row(spec_name=name)

    page = operator_client.get(reverse(f"admin:{list_name}_changelist")).content.decode()

    cells = re.findall('<td class="field-spec_column[^>]*>(.*?)</td>', page)
    marks = {text_of(cell).split()[0]: "catalogue" in cell for cell in cells}
    assert marks == {"known": False, "deleted": True}


@pytest.mark.parametrize("query", ["enabled=no", "paused=yes", "q=wan"])
def test_specs_are_found_by(operator_client: Client, query: str) -> None:
    spec_row("other")
    spec_row("wanted", is_enabled=False, is_top_up_paused=True)

    page = operator_client.get(f"{LIST}?{query}").content.decode()

    assert ">wanted</a>" in page
    assert ">other</a>" not in page


def test_a_spec_is_created_by_the_service(operator_client: Client, cluster: FakeCluster) -> None:
    response = operator_client.post(ADD, form(memory="65536Mi", warmTarget="2"), follow=True)

    row = GpuSpec.objects.get()
    assert (row.name, row.memory, row.warm_target) == ("g1.1", "64Gi", 2)
    operation = Operation.objects.get()
    assert (operation.kind, operation.object_row) == ("gpuspec.create", row.pk)
    assert response.redirect_chain[-1][0] == address(row, "change", row.pk)
    link = reverse("admin:operations_operation_change", args=[operation.pk])
    assert f'href="{link}"' in str(*response.context["messages"])
    assert KEY in LogEntry.objects.get().change_message


def test_a_spec_for_any_of_several_products_is_confirmed(
    operator_client: Client, cluster: FakeCluster
) -> None:
    for name in ("H100", "A100"):
        node_row(name.lower(), product=name)

    page = Page(operator_client.post(ADD, form()))
    before = GpuSpec.objects.count()
    confirm(operator_client, page)
    operator_client.post(ADD, form(key=f"admin-{'1' * 32}", name="h100", product="H100"))

    assert numbers(page.context["consequence"].partition("gets")[2])[0] == 2
    assert "A100, H100" in page.context["consequence"]
    assert before == 0
    assert set(GpuSpec.objects.values_list("name", "product")) == {("g1.1", ""), ("h100", "H100")}
    row = GpuSpec.objects.get(name="g1.1")
    assert "A100, H100" in operator_client.get(address(row, "change", row.pk)).content.decode()


def test_a_repeated_form_is_one_request(operator_client: Client, cluster: FakeCluster) -> None:
    for _ in range(2):
        operator_client.post(ADD, form())

    assert Operation.objects.count() == GpuSpec.objects.count() == LogEntry.objects.count() == 1


def test_a_change_shows_the_differences_and_is_an_operation_with_them(
    operator_client: Client, cluster: FakeCluster
) -> None:
    row = spec_row()
    stock_row()

    page = edit(operator_client, row, warmTarget="5", topUpPaused="on", name="ignored")
    before = Operation.objects.count()
    confirm(operator_client, page)

    assert numbers(page.context["consequence"]) == [2, 0, 5, 1, 0]
    assert "False → True" in page.context["consequence"]
    assert before == 0
    row.refresh_from_db()
    assert (row.name, row.warm_target, row.is_top_up_paused) == ("g1.1", 5, True)
    assert operations() == [("gpuspec.update", {"warmTarget": 5, "topUpPaused": True})]


def test_an_emptied_field_is_cleared(operator_client: Client, cluster: FakeCluster) -> None:
    row = spec_row(placement={"nodeSelector": {"zone": "a"}}, product="A100")

    confirm(operator_client, edit(operator_client, row, memory=""))

    assert operations() == [("gpuspec.update", {"memory": "", "placement": {}, "product": ""})]


def test_the_resources_of_a_spec_are_entered_and_shown(
    operator_client: Client, cluster: FakeCluster
) -> None:
    slices = "nvidia.com/mig-1g.10gb"
    entered = form(gpu="2", resourceName=slices, resources='{"rdma/hca": "1k"}')

    operator_client.post(ADD, entered)

    row = GpuSpec.objects.get()
    assert (row.resource_name, row.resources) == (slices, {"rdma/hca": "1000"})
    page = operator_client.get(address(row, "change", row.pk)).content.decode()
    assert {f"2 {slices}", "1000 rdma/hca"} <= set(re.findall("<bdi>([^<]+)</bdi>", page))


def test_an_emptied_resource_is_the_default(operator_client: Client, cluster: FakeCluster) -> None:
    row = spec_row(resource_name="amd.com/gpu", resources={"rdma/hca": "1"})

    confirm(operator_client, edit(operator_client, row))

    changes = {"resourceName": "nvidia.com/gpu", "resources": {}}
    assert operations() == [("gpuspec.update", changes)]


def test_an_edit_without_a_change_is_an_error(
    operator_client: Client, cluster: FakeCluster
) -> None:
    page = edit(operator_client, spec_row())

    assert list(page.context["form"].errors) == ["__all__"]
    assert not Operation.objects.exists()


@pytest.mark.parametrize(
    ("entered", "error"),
    [
        ({"memory": "lots"}, "lots"),
        ({"cpu": "0"}, "CPU"),
        ({"gpu": "-1"}, "0"),
        ({"gpu": "one"}, "integer"),
        ({"gpu": "99999"}, "1024"),
        ({"warmTarget": "100000"}, "1000"),
        ({"product": "a b"}, "a b"),
        ({"resourceName": "gpu"}, "gpu"),
        ({"resources": '{"cpu": "1"}'}, "cpu"),
        ({"resources": '{"rdma/hca": 1}'}, "rdma/hca"),
        ({"placement": "{"}, "JSON"),
        ({"placement": '{"tolerations": [], "tolerations": []}'}, "key"),
        ({"placement": '{"nodeSelector": {"a b": "c"}}'}, "nodeSelector"),
        ({"placement": "[]"}, "object"),
        ({"placement": '{"x": 1}'}, "x: "),
    ],
    ids=str,
)
def test_an_invalid_value_is_an_error_of_its_field_and_kept(
    operator_client: Client, cluster: FakeCluster, entered: dict[str, str], error: str
) -> None:
    ((name, value),) = entered.items()

    forms = [
        edit(operator_client, spec_row(), **entered).context["form"],
        operator_client.post(ADD, form(**{"name": "new", **entered})).context["form"],
    ]

    for one in forms:
        assert list(one.errors) == [name]
        assert error in one.errors[name][0]
        assert one[name].value() == value
    assert GpuSpec.objects.count() == 1
    assert not Operation.objects.exists()


@pytest.mark.parametrize("name", ["g1.1", "a b", "-a", ""])
def test_an_invalid_or_used_name_is_an_error_of_its_field(
    operator_client: Client, cluster: FakeCluster, name: str
) -> None:
    spec_row()

    entered = operator_client.post(ADD, form(name=name, memory="7Gi")).context["form"]

    assert list(entered.errors) == ["name"]
    assert entered["memory"].value() == "7Gi"
    assert GpuSpec.objects.count() == 1


def test_a_field_has_a_help_text_with_an_example(operator_client: Client) -> None:
    field = operator_client.get(ADD).context["form"].fields["memory"]

    assert "<code>64Gi</code>" in field.help_text


def test_only_a_disabled_spec_is_deleted(operator_client: Client, cluster: FakeCluster) -> None:
    row = spec_row()

    rejected = press(operator_client, "delete", row)
    GpuSpec.objects.update(is_enabled=False)
    page = press(operator_client, "delete", row)
    confirm(operator_client, page)

    assert (rejected.context["impossible_count"], rejected.context["lines"]) == (1, [])
    assert numbers(page.context["consequence"]) == [1, 0, 0]
    assert not GpuSpec.objects.exists()
    assert Operation.objects.get().kind == "gpuspec.delete"


@pytest.mark.parametrize(("action", "paused"), [("pause", True), ("resume", False)])
def test_several_specs_are_paused_and_resumed(
    operator_client: Client, cluster: FakeCluster, action: str, paused: bool
) -> None:
    rows = [spec_row(f"s{number}", is_top_up_paused=not paused) for number in range(2)]

    page = choose(operator_client, action, *rows)
    result = confirm(operator_client, page)

    assert numbers(page.context["consequence"])[0] == 2
    assert set(GpuSpec.objects.values_list("is_top_up_paused", flat=True)) == {paused}
    assert Operation.objects.count() == LogEntry.objects.count() == 2
    assert all(one.result.url for one in result.context["results"])


def test_warm_images_are_changed_and_cleared(
    operator_client: Client, cluster: FakeCluster
) -> None:
    row = spec_row(warm_images=["busybox:1.36"], image_pull_secrets=[{"name": "registry"}])

    confirm(operator_client, edit(operator_client, row, warmImages='["a:1", "b:1"]'))

    row.refresh_from_db()
    assert (row.warm_images, row.image_pull_secrets) == (["a:1", "b:1"], [])


def test_an_invalid_warm_image_is_shown_at_its_field(
    operator_client: Client, cluster: FakeCluster
) -> None:
    page = edit(operator_client, spec_row(), warmImages='["a:1", "A B"]')

    assert list(page.context["form"].errors) == ["warmImages"]
    assert not Operation.objects.exists()


def test_the_page_shows_the_state_of_each_warm_image_failures_first(
    operator_client: Client,
) -> None:
    row = spec_row(warm_images=["a:1"])
    image = {"spec_name": row.name, "image": "docker.io/library/a:1"}
    WarmImage.objects.create(node="n1", state=WarmImageState.PRESENT, **image)
    cause = StartupCause.IMAGE_PULL_FAILED
    WarmImage.objects.create(
        node="n2", state=WarmImageState.FAILED, cause=cause, message="<b>not found</b>", **image
    )

    page = operator_client.get(address(row, "change", row.pk))

    [shown] = [one for one in page.context["detail"].related if one.title == "Warm images"]
    assert [line.text.partition(":")[0] for line in shown.rows] == ["n2", "n1"]
    assert "<b>not found</b>" not in page.content.decode()


def test_a_seeding_of_a_spec_shows_units_and_gpus(
    operator_client: Client, cluster: FakeCluster
) -> None:
    row = spec_row(gpu=2)

    page = press(operator_client, "seed", row, replicas="3")
    confirm(operator_client, page)

    assert numbers(page.context["consequence"]) == [3, 1, 6, 0]
    assert operations() == [("stock.seed", {"specName": "g1.1", "replicas": 3})]
    assert GpuUnit.objects.filter(gpu=2).count() == 3


def test_entered_values_can_be_edited_before_the_confirmation(
    operator_client: Client, cluster: FakeCluster
) -> None:
    page = press(operator_client, "seed", spec_row(), replicas="3")

    fields = confirm(operator_client, page, edit="1", key="")

    assert re.search(r'name="replicas" value="3"', fields)
    assert "consequence" not in fields.context
    assert not Operation.objects.exists()


def test_a_warm_target_shows_the_stock_that_the_top_up_creates(
    operator_client: Client, cluster: FakeCluster
) -> None:
    row = spec_row(gpu=2, warm_target=1)
    stock_row()

    page = press(operator_client, "target", row, warmTarget="4")
    confirm(operator_client, page)

    assert numbers(page.context["consequence"]) == [1, 4, 3, 6]
    assert operations() == [("gpuspec.update", {"warmTarget": 4})]


def test_a_warm_target_of_a_paused_spec_creates_nothing(operator_client: Client) -> None:
    page = press(operator_client, "target", spec_row(is_top_up_paused=True), warmTarget="4")

    assert numbers(page.context["consequence"]) == [0, 4, 0, 0, 1]


@pytest.mark.parametrize("action", ["seed", "target"])
def test_a_number_is_required(operator_client: Client, cluster: FakeCluster, action: str) -> None:
    page = press(operator_client, action, spec_row(), nothing="")

    assert len(page.context["form"].errors) == 1


def test_without_a_cluster_changes_are_rejected(
    operator_client: Client, settings: Settings
) -> None:
    settings.KUBE_MODE = "off"
    row = spec_row()

    page = confirm(operator_client, edit(operator_client, row, warmTarget="5"))
    added = operator_client.post(ADD, form(name="new"))

    assert len(page.messages) == 1
    assert list(added.context["form"].errors) == ["__all__"]
    row.refresh_from_db()
    assert row.warm_target == 0
    assert not LogEntry.objects.exists()


def test_no_spec_is_deleted_without_the_service(
    operator_client: Client, cluster: FakeCluster
) -> None:
    row = spec_row(is_enabled=False)

    body = {"action": "delete_selected", "_selected_action": row.pk, "post": "yes"}
    responses = [
        operator_client.post(LIST, body),
        operator_client.post(address(row, "delete", row.pk), {"post": "yes"}),
    ]

    assert [response.status_code for response in responses] == [403, 403]
    assert GpuSpec.objects.exists()


def test_its_page_shows_its_stock_and_the_obstacle_of_the_top_up(
    operator_client: Client,
) -> None:
    row = spec_row(warm_target=1, is_top_up_paused=True)
    stock_row()

    url = reverse("admin:inventory_gpuspec_change", args=[row.pk])
    facts = {one.label: one.value for one in operator_client.get(url).context["detail"].facts}

    assert numbers(facts["Stock"]) == [1, 0, 1, 1, 0, 0]
    assert facts["Top-up"] == top_up_obstacle(row)


@pytest.mark.parametrize(("ready", "surplus"), [(1, []), (2, []), (5, [3])])
def test_its_page_shows_the_stock_above_the_warm_target(
    operator_client: Client, ready: int, surplus: list[int]
) -> None:
    row = spec_row(warm_target=2)
    for _ in range(ready):
        stock_row()

    url = reverse("admin:inventory_gpuspec_change", args=[row.pk])
    facts = {one.label: one.value for one in operator_client.get(url).context["detail"].facts}

    assert numbers(facts["Top-up"]) == surplus


def test_its_page_lists_its_operations_and_those_of_its_stock(
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
    node_row()
    rows = [spec_row(f"s{number}") for number in range(12)]
    for row in rows:
        stock_row(spec_name=row.name)

    with django_assert_max_num_queries(12):
        operator_client.get(LIST)
    with django_assert_max_num_queries(12):
        operator_client.get(reverse("admin:inventory_gpuspec_change", args=[rows[0].pk]))
