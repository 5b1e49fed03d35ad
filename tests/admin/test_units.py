"""The lists and pages of stock units and active units."""

import re
from datetime import timedelta

import pytest
from django.contrib.admin.sites import site
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries

from gpuplatform.adminkit.lists.model_admin import ReadOnlyAdmin
from gpuplatform.clock import now
from gpuplatform.workloads.causes import FAILURE_CAUSES, StartupCause
from tests.factories.admin_rows import Rows
from tests.factories.unit_rows import PULL_FAILURE, spec_row, stock_row, unit_row
from units.models import ActiveUnit, GpuUnit, StockUnit, UnitHistory
from units.phases import UnitPhase, UnitReason

INDEX = reverse("admin:index")
STOCK = reverse("admin:units_stockunit_changelist")
UNITS = reverse("admin:units_activeunit_changelist")
MOST_QUERIES = 12

pytestmark = pytest.mark.django_db


def page(client: Client, url: str, **query: str) -> str:
    response = client.get(url, query)
    assert response.status_code == 200, response
    return response.content.decode()


def detail(client: Client, row: GpuUnit) -> str:
    kind = "stockunit" if row.role == "stock" else "activeunit"
    return page(client, reverse(f"admin:units_{kind}_change", args=[row.pk]))


def names(text: str) -> list[str]:
    return re.findall(r'<th class="field-name">.*?>([^<]*)</a>', text)


class TestLists:
    def test_each_role_has_its_own_list(self, operator_client: Client) -> None:
        stock_row(name="stock-a")
        unit_row(name="unit-a")

        assert names(page(operator_client, STOCK)) == ["stock-a"]
        assert names(page(operator_client, UNITS)) == ["unit-a"]

    def test_a_row_shows_badge_cause_message_and_age(self, operator_client: Client) -> None:
        unit_row(UnitPhase.FAILED)

        text = page(operator_client, UNITS)

        assert '<span class="phase failed"><svg' in text
        assert ">ErrImagePull: manifest for" in text
        assert "(PodStartupFailed): Pod unit-a-1: ErrImagePull" in text
        assert ">5 min</time>" in text
        assert '<span title="docker.io/library/nginx:1.27">nginx:1.27</span>' in text

    @pytest.mark.parametrize(
        "query",
        [
            {"phase": "Failed"},
            {"reason": "PodStartupFailed"},
            {"spec": "h100"},
            {"q": "wanted"},
            {"q": "op-of-it"},
            {"q": "its/image"},
        ],
        ids=["phase", "reason", "spec", "name", "operationID", "image"],
    )
    def test_units_are_found_by(
        self, operator_client: Client, rows: Rows, query: dict[str, str]
    ) -> None:
        unit_row(name="other")
        operation = rows.operation(operation_id="op-of-it")
        unit_row(
            UnitPhase.FAILED,
            name="wanted",
            spec_name="h100",
            image="its/image:1",
            operation=operation,
        )

        assert names(page(operator_client, UNITS, **query)) == ["wanted"]

    def test_stock_is_found_by_state(self, operator_client: Client, rows: Rows) -> None:
        claim = rows.operation("Pending", operation_id="claims-it")
        stock_row(name="is-ready")
        stock_row(UnitPhase.PROGRESSING, name="is-starting")
        stock_row(UnitPhase.FAILED, name="is-failed")
        stock_row(name="is-claimed", claimed_by=claim)
        stock_row(UnitPhase.TERMINATING, name="is-deleting", deletion_requested_at=now())
        stock_row(name="consumed", consumed_by="uid", consumed_at=now())

        for state in ("ready", "starting", "failed", "claimed", "deleting"):
            assert names(page(operator_client, STOCK, state=state)) == [f"is-{state}"]
        text = page(operator_client, STOCK)
        assert len(names(text)) == 6
        assert f"/operation/{claim.pk}/change/" in text
        assert len(names(page(operator_client, STOCK, state="nonsense"))) == 6

    def test_deleted_units_are_history(self, operator_client: Client) -> None:
        stock_row(name="alive")
        stock_row(name="taken", deleted_at=now(), consumed_by="uid", consumed_at=now())

        assert names(page(operator_client, STOCK)) == ["alive"]
        assert names(page(operator_client, STOCK, history="deleted")) == ["taken"]

    @pytest.mark.parametrize("url", [STOCK, UNITS])
    @pytest.mark.parametrize("query", ["q=%00", "state=%00", "phase=x", "p=x", "spec=%00"])
    def test_invalid_parameters_are_ignored(
        self, operator_client: Client, url: str, query: str
    ) -> None:
        assert operator_client.get(f"{url}?{query}", follow=True).status_code == 200


class TestDetail:
    @pytest.mark.parametrize("make", [stock_row, unit_row])
    def test_a_failed_unit_shows_reason_message_age_and_next_step(
        self, operator_client: Client, make: type[GpuUnit]
    ) -> None:
        row = make(UnitPhase.FAILED)
        kind = "stockunit" if row.role == "stock" else "activeunit"
        url = reverse(f"admin:units_{kind}_change", args=[row.pk])

        panel = operator_client.get(url).context["detail"].panel

        assert UnitReason.POD_STARTUP_FAILED in panel.title
        assert panel.text == PULL_FAILURE
        assert "<time" in panel.since
        assert panel.next_step == FAILURE_CAUSES[StartupCause.IMAGE_PULL_FAILED].next_step

    def test_an_active_unit_shows_the_steps_of_its_start(self, operator_client: Client) -> None:
        since = "2026-01-31T12:00:00Z"
        steps = [
            {"step": "ImagePull", "since": since, "seconds": 9, "message": "Image size: 7 bytes."},
            {"step": "Readiness", "since": since},
        ]
        row = unit_row(start_steps=steps, avoided_node="gpu-node-1")
        url = reverse("admin:units_activeunit_change", args=[row.pk])

        found = operator_client.get(url).context["detail"].facts

        facts = {fact.label: fact.value for fact in found}
        assert facts["Start: image pull"].startswith("9 s")
        assert "7 bytes" in facts["Start: image pull"]
        assert facts["Start: readiness"] == "in progress"
        assert facts["Avoided node"] == "gpu-node-1"

    def test_differences_are_marked(self, operator_client: Client) -> None:
        row = unit_row(UnitPhase.PROGRESSING, generation=2, service_name="")

        text = detail(operator_client, row)

        assert text.count("(differs)") == 3

    def test_a_healthy_unit_has_no_panel_and_no_difference(self, operator_client: Client) -> None:
        stopped = unit_row(UnitPhase.STOPPED, is_suspended=True, reason="Stopped")
        for row in (stock_row(), unit_row(), stopped):
            text = detail(operator_client, row)

            assert 'class="panel' not in text
            assert "(differs)" not in text

    def test_a_seeding_shows_the_states_of_its_units(
        self, operator_client: Client, rows: Rows
    ) -> None:
        seeding = rows.operation(object_kind="GPUUnit", kind="stock.seed", progress_total=3)
        consumed, deleted, failed = (stock_row(operation=seeding) for _ in range(3))
        GpuUnit.objects.filter(pk=consumed.pk).update(
            consumed_by="uid-1", consumed_at=now(), deleted_at=now()
        )
        GpuUnit.objects.filter(pk=deleted.pk).update(deleted_at=now())
        GpuUnit.objects.filter(pk=failed.pk).update(phase=UnitPhase.FAILED)
        seeding.object_row = consumed.pk
        seeding.save()

        of_job = page(operator_client, f"/admin/operations/operation/{seeding.pk}/change/")
        of_stock = detail(operator_client, consumed)

        assert "1 failed, 1 consumed, 1 deleted" in of_job
        assert of_job.index(f"/stockunit/{failed.pk}/") < of_job.index(f"/stockunit/{deleted.pk}/")
        assert "</svg>Consumed</span>" in of_stock

    def test_stock_unit_spec_and_operation_link_to_each_other(
        self, operator_client: Client, rows: Rows
    ) -> None:
        spec = spec_row()
        seeding = rows.operation(object_kind="GPUUnit", kind="stock.seed")
        making = rows.operation(object_kind="GPUUnit", kind="unit.create")
        stock = stock_row(operation=seeding)
        unit = unit_row(operation=making, source_uid=stock.uid, source_name=stock.name)
        GpuUnit.objects.filter(pk=stock.pk).update(consumed_by=unit.uid, consumed_at=now())
        seeding.object_row, making.object_row = stock.pk, unit.pk
        seeding.save()
        making.save()

        of_stock, of_unit = detail(operator_client, stock), detail(operator_client, unit)
        of_job = page(operator_client, f"/admin/operations/operation/{seeding.pk}/change/")

        assert f"/activeunit/{unit.pk}/change/" in of_stock
        assert f"/operation/{seeding.pk}/change/" in of_stock
        assert f"/stockunit/{stock.pk}/change/" in of_unit
        assert f"/operation/{making.pk}/change/" in of_unit
        assert f"/gpuspec/{spec.pk}/change/" in of_unit
        assert f"/stockunit/{stock.pk}/change/" in of_job

    def test_a_link_by_kind_finds_stock_too(self, operator_client: Client) -> None:
        stock = stock_row()
        by_kind = reverse("admin:units_activeunit_change", args=[stock.pk])

        response = operator_client.get(by_kind)

        assert response.status_code == 302
        assert response.headers["Location"].endswith(f"/stockunit/{stock.pk}/change/")

    def test_history_is_shown_newest_first(self, operator_client: Client, rows: Rows) -> None:
        unit = unit_row()
        operation = rows.operation(operation_id="caused-it")
        UnitHistory.objects.create(unit=unit, phase="Pending", operation=operation)
        UnitHistory.objects.create(unit=unit, phase="Ready", reason="UnitReady")

        text = detail(operator_client, unit)

        assert text.index("UnitReady</code></b>") < text.index("caused-it</b>")

    def test_a_failure_after_ready_is_the_last_step(self, operator_client: Client) -> None:
        unit = unit_row("Failed", message="OOMKilled")
        for phase in ("Pending", "Ready", "Failed", "Ready", "Failed"):
            UnitHistory.objects.create(unit=unit, phase=phase, at=now() - timedelta(hours=1))

        text = detail(operator_client, unit)

        timeline = text.partition("<h2>Timeline</h2>")[2].partition("</section>")[0]
        assert re.findall(r"</svg>(\w+)</span>", timeline)[-3:] == ["Pending", "Ready", "Failed"]
        assert "OOMKilled" in timeline

    def test_hostile_content_is_escaped(self, operator_client: Client, hostile_text: str) -> None:
        odd = {"spec": ["no", "object"], "conditions": "none", "image": hostile_text[:500]}
        row = unit_row(UnitPhase.FAILED, message=hostile_text, reason="<b>R</b>", **odd)

        for text in (detail(operator_client, row), page(operator_client, UNITS)):
            assert "<script>alert" not in text
            assert "<b>R" not in text
            assert "\u202e" not in text

    @pytest.mark.parametrize("url", [STOCK, UNITS])
    @pytest.mark.parametrize("row", ["0", "x", "9" * 25, "%00", "²"])
    def test_an_unknown_row_is_not_found(
        self, operator_client: Client, url: str, row: str
    ) -> None:
        assert operator_client.get(f"{url}{row}/change/").status_code == 404


class TestOverview:
    def test_units_and_stock_are_counted_and_failures_link_to_their_pages(
        self, operator_client: Client
    ) -> None:
        stock = stock_row(UnitPhase.FAILED)
        unit = unit_row(UnitPhase.FAILED)
        unit_row()

        text = page(operator_client, INDEX)

        assert f"/stockunit/{stock.pk}/change/" in text
        assert f"/activeunit/{unit.pk}/change/" in text
        assert f"{reverse('admin:units_activeunit_changelist')}?phase=Ready" in text
        assert f"{reverse('admin:units_stockunit_changelist')}?phase=Ready" not in text

    def test_only_permitted_rows_are_shown(self) -> None:
        unit = unit_row(UnitPhase.FAILED)
        stock = stock_row(UnitPhase.FAILED)
        viewer = User.objects.create_user("only-stock", is_staff=True)
        viewer.user_permissions.add(Permission.objects.get(codename="view_stockunit"))
        client = Client()
        client.force_login(viewer)

        text = page(client, INDEX)

        assert f"/stockunit/{stock.pk}/" in text
        assert f"/activeunit/{unit.pk}/" not in text
        assert client.get(UNITS).status_code == 403


@pytest.mark.parametrize("model", [StockUnit, ActiveUnit])
def test_pages_of_mirrored_rows_are_read_only(model: type[GpuUnit]) -> None:
    assert isinstance(site._registry[model], ReadOnlyAdmin)


@pytest.mark.parametrize("url", [INDEX, STOCK, UNITS, f"{UNITS}?q=a&phase=Ready&reason=x"])
def test_the_number_of_queries_does_not_depend_on_the_rows(
    operator_client: Client,
    rows: Rows,
    django_assert_max_num_queries: DjangoAssertNumQueries,
    url: str,
) -> None:
    for _ in range(12):
        operation = rows.operation("Failed")
        unit_row(UnitPhase.FAILED, operation=operation)
        stock_row(operation=operation, claimed_by=operation)
        rows.pool("Failed")

    with django_assert_max_num_queries(MOST_QUERIES):
        operator_client.get(url)


@pytest.mark.parametrize("make", [stock_row, unit_row])
def test_a_page_costs_few_queries(
    operator_client: Client,
    rows: Rows,
    django_assert_max_num_queries: DjangoAssertNumQueries,
    make: type[GpuUnit],
) -> None:
    spec_row()
    row = make(operation=rows.operation())
    for _ in range(20):
        UnitHistory.objects.create(unit=row, phase="Ready")

    with django_assert_max_num_queries(MOST_QUERIES):
        detail(operator_client, row)


class TestEndedUnits:
    def test_the_page_of_an_ended_unit_shows_its_end(self, operator_client: Client) -> None:
        row = unit_row(
            UnitPhase.FAILED,
            reason=UnitReason.PROGRAM_FAILED,
            cause=StartupCause.CONTAINER_EXITED,
            is_ended=True,
            exit_code=137,
            finished_at=now(),
        )

        text = detail(operator_client, row)

        assert re.search("<dt>Exit code</dt><dd><bdi>137", text)
        assert "Finished" in text
        assert "Ready pods" not in text, "no pod is missing"

    def test_a_unit_that_succeeded_is_found_by_its_phase(self, operator_client: Client) -> None:
        unit_row(name="runs")
        unit_row(UnitPhase.SUCCEEDED, name="ended", is_ended=True, exit_code=0)

        text = page(operator_client, UNITS, phase="Succeeded")

        assert names(text) == ["ended"]
        assert '<span class="phase ready"><svg' in text
