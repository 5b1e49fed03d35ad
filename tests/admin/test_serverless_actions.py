"""Actions on functions and invocations: confirmations, effects and log entries."""

import re
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client

from gpuplatform.clock import now
from gpuplatform.operations.models import Operation
from serverless.models import Function, Invocation
from serverless.phases import InvocationState
from tests.factories.admin_steps import choose, confirm, press
from tests.factories.serverless import accept, function_row, tenant_row
from tests.factories.unit_rows import unit_row
from tests.fakes.cluster import FakeCluster
from tests.fakes.installed import cluster

__all__ = ["cluster"]

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("cluster")]


def worker(function: Function) -> None:
    """Insert a worker of the function."""
    unit_row(
        name=f"fn-{function.pk}-1-0123abcd",
        gpu=2,
        spec={"specName": "g1.1", "serverless": {}},
    )


def in_state(state: InvocationState, **asked: Any) -> Invocation:
    """Insert an invocation of a new function with the state."""
    row = accept(function_row(**asked))
    changes: dict[str, Any] = {"state": state}
    if state not in {InvocationState.QUEUED, InvocationState.RUNNING}:
        changes["completed_at"] = now()
    Invocation.objects.filter(pk=row.pk).update(**changes)
    return row


def kinds() -> list[str]:
    return list(Operation.objects.order_by("id").values_list("kind", flat=True))


def operations() -> list[str]:
    """Return the kinds of the operations except the creations of functions."""
    return [kind for kind in kinds() if kind != "function.create"]


def numbers(page: str) -> list[int]:
    """Return the numbers in the consequence on a page, in the order of the text."""
    (consequence,) = re.findall(r'<p class="consequence">([^<]*)</p>', page)
    return [int(number) for number in re.findall(r"\d+", consequence)]


def test_scale_shows_numbers_and_replaces_no_worker(operator_client: Client) -> None:
    functions = [function_row(maxWorkers=3), function_row()]
    worker(functions[0])

    fields = choose(operator_client, "scale", *functions)
    page = confirm(operator_client, fields, minWorkers="1", maxWorkers="5")
    before = operations()
    result = confirm(operator_client, page)

    changed, limits, totals, running, minimum = [2], [1, 5], [4, 10], [1], [2]
    assert numbers(page) == [*changed, *limits, *totals, *running, *minimum]
    assert before == []
    assert operations() == ["function.scale"] * 2
    assert result.count("Accepted") == 2
    for row in Function.objects.all():
        assert (row.spec["minWorkers"], row.spec["maxWorkers"], row.generation) == (1, 5, 1)


def test_scale_form_has_current_limits(operator_client: Client) -> None:
    page = press(operator_client, "scale", function_row(minWorkers=2, maxWorkers=7))

    assert 'name="minWorkers" value="2"' in page
    assert 'name="maxWorkers" value="7"' in page


@pytest.mark.parametrize(("fewest", "most"), [("3", "2"), ("0", "0"), ("-1", "1"), ("x", "1")])
def test_invalid_limits_are_rejected_at_their_field(
    operator_client: Client, fewest: str, most: str
) -> None:
    page = press(operator_client, "scale", function_row(), minWorkers=fewest, maxWorkers=most)

    assert "errorlist" in page
    assert "<h2>Effects" not in page


def test_deletion_shows_cancelled_running_and_released(
    operator_client: Client,
) -> None:
    function = function_row("echo")
    worker(function)
    running, *waiting = [accept(function) for _ in range(3)]
    Invocation.objects.filter(pk=running.pk).update(state=InvocationState.RUNNING)

    page = press(operator_client, "delete", function)
    after = confirm(operator_client, page)

    functions, queued, running_now, workers, gpus = 1, 2, 1, 1, 2
    assert numbers(page) == [functions, queued, running_now, workers, gpus]
    assert "Terminating" in after
    cancelled = Invocation.objects.filter(state=InvocationState.CANCELLED)
    assert set(cancelled.values_list("pk", flat=True)) == {row.pk for row in waiting}
    assert LogEntry.objects.get().object_id == str(function.pk)


def test_only_queued_invocations_are_cancelled(operator_client: Client) -> None:
    waiting, running = in_state(InvocationState.QUEUED), in_state(InvocationState.RUNNING)

    page = choose(operator_client, "cancel", waiting, running)
    confirm(operator_client, page)

    invocations, functions = 1, 1
    assert numbers(page) == [invocations, functions]
    assert "Not possible for 1" in page
    assert operations() == ["invocation.cancel"]
    states = dict(Invocation.objects.values_list("pk", "state"))
    assert states == {waiting.pk: "Cancelled", running.pk: "Running"}


def test_dead_letters_of_several_tenants_are_replayed(operator_client: Client) -> None:
    dead = InvocationState.DEAD_LETTERED
    rows = [in_state(dead), in_state(dead, tenant=tenant_row("acme"))]
    function = rows[0].function
    Function.objects.filter(pk=function.pk).update(workers_ready=1)

    page = choose(operator_client, "replay", *rows)
    result = confirm(operator_client, page)

    dead_letters, functions, tenants, ready_workers = 2, 2, 2, 1
    assert numbers(page) == [dead_letters, functions, tenants, ready_workers]
    assert result.count("Accepted") == 2
    replays = Operation.objects.filter(kind="invocation.replay").order_by("-id")
    assert {job.tenant_id for job in replays} == {row.tenant_id for row in rows}
    assert set(Invocation.objects.values_list("state", "publications")) == {("Queued", 2)}
    assert LogEntry.objects.count() == 2


def test_dead_letter_is_replayed_once_from_its_page(operator_client: Client) -> None:
    row = in_state(InvocationState.DEAD_LETTERED)

    page = press(operator_client, "replay", row)
    confirm(operator_client, page)
    after = confirm(operator_client, page)

    assert "Queued" in after
    row.refresh_from_db()
    assert row.publications == 2
    assert operations() == ["invocation.replay"]


@pytest.mark.parametrize("state", [InvocationState.FAILED, InvocationState.EXPIRED])
def test_failed_invocation_is_replayed_from_its_page(
    operator_client: Client, state: InvocationState
) -> None:
    row = in_state(state)

    confirm(operator_client, press(operator_client, "replay", row))

    row.refresh_from_db()
    assert (row.state, row.publications) == ("Queued", 2)


def test_only_failed_invocations_of_existing_functions_are_replayed(
    operator_client: Client,
) -> None:
    succeeded = in_state(InvocationState.SUCCEEDED)
    orphan = in_state(InvocationState.DEAD_LETTERED)
    Function.objects.filter(pk=orphan.function_id).update(deleted_at=now())

    page = choose(operator_client, "replay", succeeded, orphan)

    assert 'name="key"' not in page
    assert operations() == []


def test_only_possible_actions_have_buttons(operator_client: Client, cluster: FakeCluster) -> None:
    addresses = {
        state: operator_client.get(
            f"/admin/serverless/invocation/{in_state(state).pk}/change/"
        ).content.decode()
        for state in (InvocationState.QUEUED, InvocationState.DEAD_LETTERED)
    }

    assert "do/cancel/" in addresses[InvocationState.QUEUED]
    assert "do/replay/" not in addresses[InvocationState.QUEUED]
    assert "do/replay/" in addresses[InvocationState.DEAD_LETTERED]
