"""Actions on functions and invocations: said in numbers, done by the services, written down."""

from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client

from gpuplatform.clock import now
from gpuplatform.operations.models import Operation
from serverless.models import Function, Invocation
from serverless.phases import InvocationState
from tests.factories.admin_steps import choose, confirm, press, text_of
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
    """Insert an invocation in that state, of a function of its own."""
    row = accept(function_row(**asked))
    changes: dict[str, Any] = {"state": state}
    if state not in {InvocationState.QUEUED, InvocationState.RUNNING}:
        changes["completed_at"] = now()
    Invocation.objects.filter(pk=row.pk).update(**changes)
    return row


def kinds() -> list[str]:
    return list(Operation.objects.order_by("id").values_list("kind", flat=True))


def asked_for() -> list[str]:
    """Return what was asked for beside the functions themselves."""
    return [kind for kind in kinds() if kind != "function.create"]


def test_other_limits_are_said_in_numbers_and_replace_no_worker(operator_client: Client) -> None:
    functions = [function_row(maxWorkers=3), function_row()]
    worker(functions[0])

    fields = choose(operator_client, "scale", *functions)
    page = confirm(operator_client, fields, minWorkers="1", maxWorkers="5")
    before = asked_for()
    result = confirm(operator_client, page)

    assert (
        "2 functions with 1 worker now and at most 4: from now on 1 to 5 each, at most 10"
        " together. 2 workers are kept without work." in text_of(page)
    )
    assert before == []
    assert asked_for() == ["function.scale"] * 2
    assert result.count("Accepted") == 2
    for row in Function.objects.all():
        assert (row.spec["minWorkers"], row.spec["maxWorkers"], row.generation) == (1, 5, 1)


def test_the_fields_hold_the_limits_that_there_are(operator_client: Client) -> None:
    page = press(operator_client, "scale", function_row(minWorkers=2, maxWorkers=7))

    assert 'name="minWorkers" value="2"' in page
    assert 'name="maxWorkers" value="7"' in page


@pytest.mark.parametrize(("fewest", "most"), [("3", "2"), ("0", "0"), ("-1", "1"), ("x", "1")])
def test_limits_that_are_none_are_refused_at_their_field(
    operator_client: Client, fewest: str, most: str
) -> None:
    page = press(operator_client, "scale", function_row(), minWorkers=fewest, maxWorkers=most)

    assert "errorlist" in page
    assert "What happens" not in page


def test_a_deletion_says_what_is_cancelled_what_runs_and_what_becomes_free(
    operator_client: Client,
) -> None:
    function = function_row("echo")
    worker(function)
    running, *waiting = [accept(function) for _ in range(3)]
    Invocation.objects.filter(pk=running.pk).update(state=InvocationState.RUNNING)

    page = press(operator_client, "delete", function)
    after = confirm(operator_client, page)

    assert (
        "Deletes 1 function: 2 invocations wait and are cancelled, 1 invocation runs and is"
        " finished, 1 worker ends and 2 GPUs become free." in text_of(page)
    )
    assert "Terminating" in after
    cancelled = Invocation.objects.filter(state=InvocationState.CANCELLED)
    assert set(cancelled.values_list("pk", flat=True)) == {row.pk for row in waiting}
    assert LogEntry.objects.get().object_id == str(function.pk)


def test_what_waits_is_cancelled_and_what_has_begun_is_left_out(operator_client: Client) -> None:
    waiting, running = in_state(InvocationState.QUEUED), in_state(InvocationState.RUNNING)

    page = choose(operator_client, "cancel", waiting, running)
    confirm(operator_client, page)

    assert "Cancels 1 invocation of 1 function: no worker gets it." in text_of(page)
    assert "Not possible for 1" in page
    assert asked_for() == ["invocation.cancel"]
    states = dict(Invocation.objects.values_list("pk", "state"))
    assert states == {waiting.pk: "Cancelled", running.pk: "Running"}


def test_dead_letters_are_replayed_each_for_its_own_tenant(operator_client: Client) -> None:
    dead = InvocationState.DEAD_LETTERED
    rows = [in_state(dead), in_state(dead, tenant=tenant_row("acme"))]
    function = rows[0].function
    Function.objects.filter(pk=function.pk).update(workers_ready=1)

    page = choose(operator_client, "replay", *rows)
    result = confirm(operator_client, page)

    assert "Puts 2 dead letters of 2 functions of 2 tenants into the queue again" in text_of(page)
    assert "1 worker is ready now." in text_of(page)
    assert result.count("Accepted") == 2
    replays = Operation.objects.filter(kind="invocation.replay").order_by("-id")
    assert {job.tenant_id for job in replays} == {row.tenant_id for row in rows}
    assert set(Invocation.objects.values_list("state", "publications")) == {("Queued", 2)}
    assert LogEntry.objects.count() == 2


def test_one_dead_letter_is_replayed_from_its_page_once(operator_client: Client) -> None:
    row = in_state(InvocationState.DEAD_LETTERED)

    page = press(operator_client, "replay", row)
    confirm(operator_client, page)
    after = confirm(operator_client, page)

    assert "Queued" in after
    row.refresh_from_db()
    assert row.publications == 2
    assert asked_for() == ["invocation.replay"]


def test_what_is_no_dead_letter_or_has_no_function_is_not_replayed(
    operator_client: Client,
) -> None:
    failed, orphan = in_state(InvocationState.FAILED), in_state(InvocationState.DEAD_LETTERED)
    Function.objects.filter(pk=orphan.function_id).update(deleted_at=now())

    page = choose(operator_client, "replay", failed, orphan)

    assert "Only a dead letter can be replayed; it is Failed." in text_of(page)
    assert "Its function is gone." in text_of(page)
    assert 'name="key"' not in page


def test_only_what_is_possible_is_a_button(operator_client: Client, cluster: FakeCluster) -> None:
    addresses = {
        state: operator_client.get(
            f"/admin/serverless/invocation/{in_state(state).pk}/change/"
        ).content.decode()
        for state in (InvocationState.QUEUED, InvocationState.DEAD_LETTERED)
    }

    assert "do/cancel/" in addresses[InvocationState.QUEUED]
    assert "do/replay/" not in addresses[InvocationState.QUEUED]
    assert "do/replay/" in addresses[InvocationState.DEAD_LETTERED]
