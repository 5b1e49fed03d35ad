"""The end of a notice, concurrently with the owner, the request and other matchers."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pytest

from gpuplatform.errors import PhaseConflict
from gpuplatform.operations.interventions import operation_cancel
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OPEN_PHASES
from gpuplatform.operations.services import Accepted, Request, operation_accept
from tests.fakes.preemption import ask, end_notices, noticed, run_matcher, run_preemptible, stops
from tests.fakes.threads import at_once
from tests.fakes.unit_world import UnitWorld, unit_row
from units.models import CapacityRequest
from units.phases import RequestPhase
from units.services import preemption

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)

ROUNDS = 4


def raised(results: list[object]) -> list[object]:
    """Return the exceptions of concurrent jobs."""
    return [one for one in results if isinstance(one, Exception)]


def agree(request: CapacityRequest) -> None:
    """Check that the marks, the stops and the new requests agree."""
    request.refresh_from_db()
    assert (request.evicted_at is not None) == bool(stops())
    again = CapacityRequest.objects.filter(is_after_preemption=True).exclude(
        phase=RequestPhase.CLOSED
    )
    assert set(again.values_list("unit__name", flat=True)) <= set(stops())
    waiting = again.exclude(operation__phase__in=OPEN_PHASES)
    assert not waiting.exists()


def test_concurrent_matchers_stop_one_unit(world: UnitWorld) -> None:
    run_preemptible(world, "one", "two")
    request = ask("urgent")

    assert raised(list(at_once([run_matcher] * 4))) == []
    assert len(noticed()) == 1
    end_notices()
    assert raised(list(at_once([run_matcher] * 4))) == []

    assert (len(stops()), noticed()) == (1, [])
    agree(request)


@pytest.mark.parametrize("action", ["stop", "delete"])
@pytest.mark.parametrize("number", range(ROUNDS))
def test_the_owner_ends_the_unit_at_the_end_of_the_notice(
    world: UnitWorld, action: str, number: int
) -> None:
    run_preemptible(world, "victim")
    request = ask("urgent")
    run_matcher()
    end_notices()
    jobs: list[Callable[[], object]] = [run_matcher, partial(getattr(world, action), "victim")]

    assert raised(list(at_once(jobs if number % 2 else jobs[::-1]))) == []
    run_matcher()

    agree(request)
    assert noticed() == []
    world.work()
    is_deleted = action == "delete"
    assert (unit_row("victim").deleted_at is not None) == is_deleted
    if not is_deleted:
        assert unit_row("victim").phase == "Stopped"
    # A stop or a deletion by the owner ends the wait of the preempted unit.
    assert not CapacityRequest.objects.filter(
        unit=unit_row("victim"), phase=RequestPhase.OPEN
    ).exists()


@pytest.mark.parametrize("number", range(ROUNDS))
def test_the_request_is_cancelled_at_the_end_of_the_notice(world: UnitWorld, number: int) -> None:
    run_preemptible(world, "victim")
    request = ask("urgent")
    run_matcher()
    end_notices()

    def cancel() -> None:
        with suppress(PhaseConflict):
            operation_cancel(operation=request.operation, operation_id="cancel-1")

    jobs: list[Callable[[], object]] = [run_matcher, cancel]
    assert raised(list(at_once(jobs if number % 2 else jobs[::-1]))) == []
    run_matcher()

    agree(request)
    assert request.phase == RequestPhase.CLOSED
    world.work()
    assert unit_row("victim").phase == ("Stopped" if stops() else "Ready")


@pytest.mark.parametrize("survived", [0, 1], ids=["before the stop", "before the start"])
def test_a_matcher_that_dies_at_the_end_of_the_notice_is_replaced(
    world: UnitWorld, monkeypatch: pytest.MonkeyPatch, survived: int
) -> None:
    run_preemptible(world, "victim")
    request = ask("urgent")
    run_matcher()
    end_notices()
    calls = 0

    def die(asked: Request, *, prepare: Callable[[Operation], int]) -> Accepted:
        nonlocal calls
        calls += 1
        if calls > survived:
            raise SystemExit
        return operation_accept(asked, prepare=prepare)

    with monkeypatch.context() as patch:
        patch.setattr(preemption, "operation_accept", die)
        with pytest.raises(SystemExit):
            run_matcher()
    assert (stops(), noticed()) == ([], ["victim"])

    run_matcher()

    assert (stops(), noticed()) == (["victim"], [])
    agree(request)
