"""Titles of reasons and causes, with the reason code on the page of an object."""

import html
import re
from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse

from gpuplatform.adminkit.actions.mirrors import LONGER_THAN_USUAL
from gpuplatform.adminkit.detail.cluster import cluster_section
from gpuplatform.clock import now
from gpuplatform.reconciliation.inspection import Inspection, ObjectEvent
from gpuplatform.workloads.causes import DELAY_CAUSES, FAILURE_CAUSES, StartupCause
from serverless.models import Invocation
from tests.factories.admin_rows import Rows
from tests.factories.serverless import accept, function_row
from tests.factories.unit_rows import PULL_FAILURE, stock_row, unit_row
from tests.fakes.installed import cluster
from units.models import GpuUnit, UnitHistory
from units.phases import UnitPhase

__all__ = ["cluster"]

REASON = "PodStartupFailed"
CAUSE = StartupCause.IMAGE_PULL_FAILED
IMAGE = f'{FAILURE_CAUSES[CAUSE].title} <code class="off">{REASON}</code>'

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("cluster")]


def page(client: Client, address: str) -> str:
    response = client.get(address)
    assert response.status_code == 200, response
    return response.content.decode()


def of_unit(client: Client, unit: GpuUnit, kind: str = "activeunit") -> str:
    return page(client, reverse(f"admin:units_{kind}_change", args=[unit.pk]))


def fail_all() -> None:
    Invocation.objects.update(state="Failed", failure_class="framework_error", completed_at=now())


def choices(client: Client, kind: str) -> list[str]:
    """Return the choices of the reason filter of a list."""
    text = page(client, reverse(f"admin:{kind}_changelist"))
    (menu,) = re.findall(r"<summary>Reason: .*?</details>", text, re.DOTALL)
    return re.findall(">([^<]+)</a>", menu)


def test_panel_conditions_and_history_of_a_unit_show_the_same_title(
    operator_client: Client,
) -> None:
    unit = unit_row(UnitPhase.FAILED)
    change = {"reason": REASON, "message": PULL_FAILURE, "cause": CAUSE}
    UnitHistory.objects.create(unit=unit, phase="Failed", **change)

    text = of_unit(operator_client, unit)

    assert text.count(IMAGE) == 3
    assert text.count(REASON) == 3


def test_a_code_equal_to_its_title_is_not_repeated(operator_client: Client) -> None:
    stopped = {"type": "Ready", "status": "False", "reason": "Stopped"}

    text = of_unit(operator_client, unit_row(UnitPhase.STOPPED, conditions=[stopped]))

    assert "<td>Stopped<span" in text


def test_a_line_about_a_unit_without_a_message_shows_the_reason(operator_client: Client) -> None:
    stock = stock_row(reason="StockNotReady", message="")
    taken = unit_row(source_uid=stock.uid)

    assert "<bdi>Stock not ready</bdi>" in of_unit(operator_client, taken)


def test_panels_of_operations_and_invocations_show_the_error_code(
    operator_client: Client, rows: Rows
) -> None:
    job, invocation = rows.operation("Failed"), accept(function_row("echo"))
    fail_all()

    of_job = page(operator_client, reverse("admin:operations_operation_change", args=[job.pk]))
    of_invocation = page(
        operator_client, reverse("admin:serverless_invocation_change", args=[invocation.pk])
    )

    assert '<h2>Name conflict <code class="off">name_conflict</code></h2>' in of_job
    assert '<h2>The function failed <code class="off">framework_error</code></h2>' in of_invocation


def test_filters_offer_titles_of_reasons(operator_client: Client, rows: Rows) -> None:
    rows.operation("Failed", error_code="cluster_error")
    rows.operation("Pending", reason="ClusterError")
    rows.operation("Failed")
    unit = unit_row(UnitPhase.FAILED)
    UnitHistory.objects.create(unit=unit, phase="Failed", reason=REASON)
    accept(function_row("echo"))
    fail_all()

    assert choices(operator_client, "units_unithistory") == ["All", "Pod startup failed"]
    assert choices(operator_client, "serverless_invocation") == ["All", "The function failed"]
    assert choices(operator_client, "operations_operation") == [
        "All",
        "Cluster error (ClusterError)",
        "Cluster error (cluster_error)",
        "Name conflict",
    ]


def test_events_show_the_title_with_the_code_as_tooltip() -> None:
    event = ObjectEvent("Warning", "BackOff", "no", 2, "Pod", "a", "kubelet", "", "")

    (line,) = cluster_section(Inspection(events=[event]), "a").events

    assert '<span title="BackOff">Back off</span>' in line.badge


def test_a_deletion_of_usual_length_is_not_explained(operator_client: Client) -> None:
    unit = unit_row(UnitPhase.TERMINATING)

    assert 'aria-label="Reason"' not in of_unit(operator_client, unit)


def test_a_long_or_blocked_deletion_is_explained(operator_client: Client) -> None:
    long_ago = now() - timedelta(minutes=20)
    late = unit_row(UnitPhase.TERMINATING, phase_since=long_ago)
    message = "example.com/x remains"
    blocked = unit_row(UnitPhase.TERMINATING, reason="FinalizersRemain", message=message)

    assert LONGER_THAN_USUAL in of_unit(operator_client, late)
    assert message in of_unit(operator_client, blocked)


@pytest.mark.parametrize("cause", DELAY_CAUSES)
def test_the_cause_of_a_delay_is_explained_before_the_start_has_failed(
    operator_client: Client, cause: StartupCause
) -> None:
    delayed = {"reason": "UnitProgressing", "message": "as it is", "cause": cause}

    text = html.unescape(of_unit(operator_client, unit_row(UnitPhase.PROGRESSING, **delayed)))

    assert DELAY_CAUSES[cause].title in text
    assert DELAY_CAUSES[cause].next_step in text
    assert "as it is" in text


def test_a_starting_unit_has_the_color_of_its_phase(operator_client: Client) -> None:
    words = "The pod is starting."
    unit = unit_row(UnitPhase.PROGRESSING, reason="UnitProgressing", message=words)

    text = of_unit(operator_client, unit)

    assert '<section class="panel progress" aria-label="Reason">' in text
    assert '<h2>Starting <code class="off">UnitProgressing</code></h2>' in text


def test_an_unknown_selected_reason_is_shown_in_the_filter(operator_client: Client) -> None:
    unit_row()

    listed = reverse("admin:units_activeunit_changelist")

    assert "<summary>Reason: Nonsense" in page(operator_client, f"{listed}?reason=Nonsense")


def test_the_filter_offers_failures_and_their_causes(operator_client: Client) -> None:
    unit_row()

    offered = choices(operator_client, "units_activeunit")

    causes = {f"· {one.title.replace(chr(39), '&#x27;')}" for one in FAILURE_CAUSES.values()}
    assert {"Pod startup failed", *causes} <= {*offered}
    assert not {"Unit ready", "Stock ready"} & {*offered}
