"""Problems that users of comparable systems report, in the admin (cases U19, U21, U67)."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db.models import Model
from django.test import Client
from django.urls import reverse

from gpuplatform.adminkit.display.badges import Shape, shape_badge
from gpuplatform.clock import now
from gpuplatform.operations.models import Operation
from gpuplatform.samples.capacity import Capacity, SpecCapacity
from gpuplatform.samples.services import capacity_store
from gpuplatform.tenancy.models import Tenant
from inventory.models import GpuSpec, Node, StockPool
from tests.factories.admin_rows import Rows
from tests.factories.unit_rows import spec_row, stock_row, unit_row
from units.models import ActiveUnit, GpuUnit, StockUnit, UnitHistory
from units.phases import UnitPhase, UnitReason

STOCK = reverse("admin:units_stockunit_changelist")
UNITS = reverse("admin:units_activeunit_changelist")
NO_ROOM = "0/3 nodes are available: 3 Insufficient cpu."
GONE = "Pod unit-a-1: the node gpu-node-2 has 6 of its 8 GPUs left"

pytestmark = pytest.mark.django_db


def page(client: Client, url: str, **query: str) -> str:
    response = client.get(url, query)
    assert response.status_code == 200, response
    return response.content.decode()


def url_of(row: Model, kind: str, *args: Any) -> str:
    name = f"admin:{row._meta.app_label}_{row._meta.model_name}_{kind}"
    return reverse(name, args=args)


class TestSpecThatFitsOnNoNode:
    """U19."""

    def test_its_stock_shows_the_message_and_is_never_ready(self, operator_client: Client) -> None:
        spec = spec_row("huge.1")
        reason = UnitReason.POD_STARTUP_FAILED
        of_it = {"spec_name": "huge.1", "reason": reason, "message": NO_ROOM}
        stuck = stock_row(UnitPhase.FAILED, name="stuck", **of_it)
        stock_row(name="of-another")

        failed = page(operator_client, STOCK, state="failed")
        ready = page(operator_client, STOCK, state="ready")
        of_spec = page(operator_client, reverse("admin:inventory_gpuspec_changelist"))

        assert NO_ROOM in failed
        assert "stuck" not in ready
        assert "of-another" in ready
        assert f"spec={spec.name}&amp;state=failed" in of_spec
        panel = page(operator_client, reverse("admin:units_stockunit_change", args=[stuck.pk]))
        assert NO_ROOM in re.findall(r'class="panel failed".*?</section>', panel, re.DOTALL)[0]

    def test_the_overview_and_its_page_show_the_misfit(self, operator_client: Client) -> None:
        spec = spec_row("huge.1", gpu=16)
        misfit = "16 of 8"
        seen = [SpecCapacity(name="a"), SpecCapacity(name="huge.1", gpu=16, misfit=misfit)]
        capacity_store(Capacity(specs=seen, products=[]))

        overview = operator_client.get(reverse("admin:index")).context["capacity"]
        url = reverse("admin:inventory_gpuspec_change", args=[spec.pk])
        panel = operator_client.get(url).context["detail"].panel

        assert [(one.name, one.misfit) for one in overview.specs] == [
            ("huge.1", misfit),
            ("a", ""),
        ]
        assert (panel.shape, panel.text) == (Shape.FAILED, misfit)

    def test_the_progress_of_a_seeding_is_a_bar(self, operator_client: Client, rows: Rows) -> None:
        rows.operation("Running", kind="stock.seed", progress_done=3, progress_total=1000)

        text = page(operator_client, reverse("admin:operations_operation_changelist"))

        assert '<progress max="1000" value="3"' in text
        assert "3 of 1000" in text


class TestLostGpus:
    """U21."""

    def test_a_unit_with_a_lost_gpu_stays_with_its_message_and_history(
        self, operator_client: Client
    ) -> None:
        reason = UnitReason.POD_STARTUP_FAILED
        unit = unit_row(UnitPhase.FAILED, name="a", reason=reason, message=GONE)
        for phase, why in ((UnitPhase.READY, "UnitReady"), (UnitPhase.FAILED, reason)):
            UnitHistory.objects.create(unit=unit, phase=phase, reason=why, message=GONE)

        text = page(operator_client, reverse("admin:units_activeunit_change", args=[unit.pk]))
        changes = page(operator_client, reverse("admin:units_unithistory_changelist"), q="a")

        assert GONE in text
        seen = r"Ready pods</span><span [^>]*><bdi>1</bdi></span><span [^>]*class=\"x\"><bdi>0<"
        assert re.search(seen, text)
        assert changes.index("phase failed") < changes.index("phase ready")

    def test_a_unit_that_runs_on_a_node_with_lost_gpus_is_degraded(
        self, operator_client: Client
    ) -> None:
        message = "the node n1 is short"
        summary = {"reason": "GPUsMissing", "message": message}
        degraded = {"type": "Degraded", "status": "True", **summary}
        unit = unit_row(name="a", conditions=[degraded], **summary)
        before = page(operator_client, reverse("admin:index"))
        Node.objects.create(name="n1", is_short=True)

        failing = page(operator_client, reverse("admin:index"))
        listed = page(operator_client, UNITS)
        its_page = page(operator_client, reverse("admin:units_activeunit_change", args=[unit.pk]))

        assert message not in before
        for text in (failing, listed, its_page):
            assert message in text
        for text in (listed, its_page):
            assert shape_badge(Shape.WAITING, "Degraded") in text
        assert 'class="panel waiting"' in its_page

    def test_stock_with_lost_gpus_is_not_ready_until_they_return(
        self, operator_client: Client
    ) -> None:
        stock = [stock_row(name=f"s-{n}") for n in range(3)]
        lost = GpuUnit.objects.filter(pk__in=[one.pk for one in stock[1:]])

        lost.update(phase=UnitPhase.FAILED, reason="PodStartupFailed", message=GONE)
        without = page(operator_client, STOCK, state="ready")
        lost.update(phase=UnitPhase.READY, reason="StockReady", message="")
        again = page(operator_client, STOCK, state="ready")

        assert [f"s-{n}" in without for n in range(3)] == [True, False, False]
        assert [f"s-{n}" in again for n in range(3)] == [True, True, True]


class TestBulkDelete:
    """U67."""

    @pytest.mark.parametrize("action", ["delete_selected", "delete", "nonsense"])
    def test_no_action_deletes_rows(
        self, operator_client: Client, rows: Rows, action: str
    ) -> None:
        shown: list[Model] = [rows.pool(), rows.operation(), rows.operation().tenant]
        shown.append(StockUnit.objects.get(pk=stock_row().pk))
        shown.append(ActiveUnit.objects.get(pk=unit_row().pk))
        shown.append(spec_row())

        for row in shown:
            data = {"action": action, "_selected_action": [row.pk], "post": "yes"}
            operator_client.post(url_of(row, "changelist"), data, follow=True)

        assert all(row._meta.model._default_manager.filter(pk=row.pk) for row in shown)
        assert not Operation.objects.filter(kind__endswith=".delete").exists()

    def test_mirrored_rows_are_neither_deleted_nor_edited(
        self, operator_client: Client, rows: Rows
    ) -> None:
        stock = StockUnit.objects.get(pk=stock_row().pk)

        for row in (rows.pool(), stock, rows.operation()):
            assert operator_client.post(url_of(row, "delete", row.pk)).status_code in {403, 404}
            edited = operator_client.post(url_of(row, "change", row.pk), {"phase": "Failed"})
            assert edited.status_code in {403, 404}

        assert GpuUnit.objects.get(pk=stock.pk).phase == UnitPhase.READY
        assert StockPool.objects.count() == 1

    def test_a_viewer_deletes_nothing(self) -> None:
        viewer = User.objects.create_user("looks", is_staff=True)
        rights = ["view_stockunit", "view_activeunit", "view_gpuspec", "view_tenant"]
        viewer.user_permissions.set(Permission.objects.filter(codename__in=rights))
        client = Client()
        client.force_login(viewer)
        unit = ActiveUnit.objects.get(pk=unit_row().pk)
        spec = spec_row()

        for row in (unit, spec, Tenant.objects.get()):
            data = {"action": "delete", "_selected_action": [row.pk]}
            client.post(url_of(row, "changelist"), data)
            client.post(url_of(row, "delete", row.pk), {"post": "yes"})

        assert GpuUnit.objects.filter(pk=unit.pk, deletion_requested_at=None).exists()
        assert GpuSpec.objects.count() == Tenant.objects.count() == 1

    def test_deleting_a_person_deletes_nothing_of_the_platform(
        self, operator_client: Client, rows: Rows
    ) -> None:
        leaves = User.objects.create_user("leaves", is_staff=True)
        rows.operation(asked_by="leaves")
        unit_row(deletion_requested_at=now())

        response = operator_client.post(
            reverse("admin:auth_user_delete", args=[leaves.pk]), {"post": "yes"}
        )

        assert response.status_code == 302
        assert not User.objects.filter(pk=leaves.pk).exists()
        assert [Operation.objects.count(), GpuUnit.objects.count()] == [1, 1]
