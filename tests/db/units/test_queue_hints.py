"""The events that ask a worker to run the matcher, and the tasks that it runs."""

from collections.abc import Callable
from typing import Any

import pytest
from pytest_django import DjangoCaptureOnCommitCallbacks

from gpuplatform.operations.interventions import operation_cancel
from gpuplatform.operations.models import Operation
from gpuplatform.tenancy.selectors import tenant_by_name
from tests.factories.unit_rows import spec_row, stock_row
from tests.fakes.unit_world import UnitWorld, state
from units import waiting
from units.models import CapacityRequest, GpuUnit
from units.services.claims import release_claims
from units.services.stock import stock_tend_spec
from units.tasks import match_requests, sweep_requests

pytestmark = pytest.mark.django_db

WAIT = {"maxSeconds": 3600}


@pytest.fixture
def hints(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The ids of the requests in the hints that are sent."""
    sent: list[int] = []

    def record(task: str, number: int, **_: Any) -> bool:
        assert task == waiting.MATCH_TASK
        sent.append(number)
        return True

    monkeypatch.setattr(waiting, "enqueue", record)
    return sent


def ready_stock(world: UnitWorld) -> None:
    world.seed(1)


def freed_claim(world: UnitWorld) -> None:
    holder = Operation.objects.get(object_name="holder")
    release_claims(holder)


def new_request(world: UnitWorld) -> None:
    world.create("other", wait=WAIT)


def closed_request(world: UnitWorld) -> None:
    operation = Operation.objects.get(object_name="second")
    operation_cancel(operation=operation, operation_id="cancel")


def changed_spec(world: UnitWorld) -> None:
    stock_tend_spec(spec_row(is_top_up_paused=True))


@pytest.mark.parametrize(
    "event", [ready_stock, freed_claim, new_request, closed_request, changed_spec]
)
def test_an_event_asks_for_the_matcher(
    world: UnitWorld,
    hints: list[int],
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
    event: Callable[[UnitWorld], None],
) -> None:
    stock_row()
    world.create("holder")
    first = world.create("first", wait=WAIT)
    world.create("second", wait=WAIT)

    with django_capture_on_commit_callbacks(execute=True):
        event(world)

    assert hints
    assert set(hints) <= set(CapacityRequest.objects.values_list("id", flat=True))
    assert state(first).phase == "Pending" or event is ready_stock


def test_no_hint_is_sent_while_no_request_is_open(
    world: UnitWorld,
    hints: list[int],
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        world.seed(1)
        world.create("a")
        world.work()

    assert hints == []


def test_the_task_grants_stock_and_seeds_what_is_missing(
    world: UnitWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec_row()
    operations = [world.create(name, wait=WAIT) for name in ("a", "b")]
    stock_row()
    number = CapacityRequest.objects.order_by("id").values_list("id", flat=True)[0]

    match_requests(number)

    assert GpuUnit.objects.get(claimed_by=operations[0]).role == "stock"
    seeding = Operation.objects.get(kind="stock.seed")
    assert (seeding.progress_total, seeding.tenant) == (1, tenant_by_name())


def test_the_sweep_grants_stock_of_every_spec(world: UnitWorld) -> None:
    first = world.create("a", wait=WAIT)
    second = world.create("b", specName="g2.1", wait=WAIT)
    stock_row()
    stock_row(spec_name="g2.1")

    sweep_requests()

    claimed = GpuUnit.objects.filter(claimed_by__isnull=False)
    assert set(claimed.values_list("claimed_by", flat=True)) == {first.pk, second.pk}
