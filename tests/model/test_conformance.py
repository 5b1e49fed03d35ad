"""Each step of the code is a step with the same name that is enabled in the model."""

import random
from collections.abc import Callable

import pytest
from django.db.models.functions import Now

from gpuplatform.kube.errors import ClusterRejected, ClusterUnavailable
from tests.db.units.conftest import world as world  # noqa: PLC0414 - the fixture
from tests.fakes.cluster import Killed
from tests.fakes.unit_world import UnitWorld
from tests.model.properties import unsettled
from tests.model.recorded import Recorded
from units.models import CapacityRequest

pytestmark = pytest.mark.django_db

Begin = Callable[[str, int], Recorded]

WALKS = (
    ("create 0, create 1, delete 0", 2),
    ("create 0, create 1", 1),
    ("create 0, stop 0, start 0, delete 0", 2),
    ("create 0, stop 0, start 0, stop 0, start 0", 3),
    ("create 0, start 0, stop 0, create 1", 2),
    ("create 0, delete 0, create 0, stop 0", 2),
    ("seed 0, create 0, delete 0", 0),
    ("create 0, seed 1, create 1, stop 0", 1),
)
VERBS = ("get", "create", "patch", "delete")
STEPS = ("ask", "ask", "run", "run", "look", "fault", "overtake", "person")
JOB_STEPS = (*STEPS, "look", "end", "end")
STEPS_OF_A_WALK = 14
SEEDS = (
    *range(len(WALKS)),
    *(pytest.param(seed, marks=pytest.mark.long) for seed in range(len(WALKS), 96)),
)


@pytest.fixture
def begin(world: UnitWorld, monkeypatch: pytest.MonkeyPatch) -> Begin:
    """Return a function that starts a followed platform with requests and ready stock."""
    return lambda words, stock: Recorded(world, monkeypatch, words, stock)


def refused() -> ClusterRejected:
    return ClusterRejected("spec.image: Invalid", reason="Invalid", status=422)


def steps(code: Recorded) -> list[object]:
    """Return the names of the reported steps, without acceptances."""
    return [event[0] for event in code.model.reported if event[0] != "accept"]


def finish(code: Recorded) -> None:
    """Run everything without a further fault, and check that the model is settled."""
    for _ in range(10):
        before = len(code.model.reported), code.cluster.version_number
        code.ask()
        for number in code.open_numbers():
            code.run(number)
        code.look()
        after = len(code.model.reported), code.cluster.version_number
        if after == before and not code.open_numbers():
            break
    at_rest = [state for state in code.model.states if not unsettled(state, code.model.config)]
    assert at_rest or code.open_numbers(), f"nothing is at rest after {code.model}"


def test_a_create_gets_reads_posts_and_succeeds(begin: Begin) -> None:
    code = begin("create 0", 1)
    code.ask()

    code.run(1)

    assert steps(code) == ["take", "get", "read", "post", "succeed", "planner"]
    code.look()
    assert [event[:3] for event in code.model.reported[-2:]] == [
        ("planner", "del", 0),
        ("planner", "dep", 0),
    ]


def test_lost_stock_is_reassigned_or_awaited_until_it_expires(begin: Begin) -> None:
    code = begin("create 0, create 1", 3)
    code.ask()
    code.person_deletes(0)
    code.run(1)
    again = ["take", "get", "read", "assign", "get", "read", "post", "succeed", "planner"]
    assert steps(code)[1:] == again
    code.ask()
    code.person_deletes(2)

    code.run(2)
    assert steps(code)[-4:] == ["take", "get", "read", "wait"]
    CapacityRequest.objects.filter(operation=code.operations[1]).update(expires_at=Now())
    code.run(2)

    assert steps(code)[-4:] == ["take", "get", "read", "fail"]
    finish(code)


def test_a_stop_and_a_start_patch_the_version_that_was_read(begin: Begin) -> None:
    code = begin("create 0, stop 0, start 0, delete 0", 2)
    for number in (1, 2):
        code.ask()
        code.run(number)
        code.look()
    assert steps(code)[-5:] == ["take", "get", "stop", "succeed", "planner"]
    code.ask()

    code.run(3)

    assert steps(code)[-6:] == ["take", "get", "read", "start", "succeed", "planner"]
    finish(code)
    assert "delete" in steps(code)


@pytest.mark.parametrize(
    ("fault", "acts_first", "expected"),
    [
        (Killed(), False, ["take", "get", "read", "crash"]),
        (Killed(), True, ["take", "get", "read", "post", "crash"]),
        (ClusterUnavailable("cut"), True, ["take", "get", "read", "answer lost"]),
        (refused(), False, ["take", "get", "read", "deny", "fail"]),
    ],
    ids=["dies before", "dies after", "answer lost", "refused"],
)
def test_a_fault_at_the_post_is_in_the_model(
    begin: Begin, fault: BaseException, acts_first: bool, expected: list[str]
) -> None:
    code = begin("create 0, create 1", 2)
    code.ask()

    code.run_with(fault, 1, "create", acts_first=acts_first)

    assert steps(code) == expected
    finish(code)


def test_an_overtaken_worker_is_rejected(begin: Begin) -> None:
    code = begin("create 0, create 1", 2)
    code.ask()

    code.overtake(1, "create")

    assert steps(code)[2:] == [
        *("read", "late", "take", "get", "read", "post", "succeed", "planner"),
        *("exists",),
    ]
    finish(code)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_code_stays_within_the_model_under_faults(begin: Begin, seed: int) -> None:
    _walk(begin(*WALKS[seed % len(WALKS)]), seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_code_stays_within_the_model_with_jobs(
    world: UnitWorld, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    restart = "never" if seed % 2 else "onFailure"
    _walk(Recorded(world, monkeypatch, *WALKS[seed % len(WALKS)], restart=restart), seed)


def _walk(code: Recorded, seed: int) -> None:
    chance = random.Random(seed)

    for _ in range(STEPS_OF_A_WALK):
        _stride(code, chance)

    finish(code)


def _stride(code: Recorded, chance: random.Random) -> None:
    """Execute one random step."""
    opened = code.open_numbers()
    what = chance.choice(JOB_STEPS if code.has_jobs else STEPS)
    if what == "ask":
        code.ask()
    elif what == "look":
        code.look()
    elif what == "person" and chance.random() < 0.3:
        code.person_deletes(chance.randrange(2))
    elif what == "end":
        code.program_ends(chance.randrange(2), code=chance.randrange(2))
    elif opened:
        _run(code, what, chance.choice(opened), chance)


def _run(code: Recorded, what: str, number: int, chance: random.Random) -> None:
    """Run an operation, possibly with a fault."""
    if what == "run":
        code.run(number)
    elif what == "overtake":
        code.overtake(number, chance.choice(VERBS))
    elif what == "fault":
        acts_first = chance.random() < 0.5
        faults: list[BaseException] = [Killed(), ClusterUnavailable("cut")]
        verb = chance.choice(VERBS)
        if verb in {"create", "patch"} and not acts_first:
            faults.append(refused())
        code.run_with(chance.choice(faults), number, verb, acts_first=acts_first)
