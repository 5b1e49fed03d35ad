"""The order of requests for capacity: properties of arbitrary queues, and its rules one by one."""

import random
from collections.abc import Callable
from typing import NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.benchmarks.queue_day import accrued
from units.core import queue
from units.core.queue import (
    HOLD_SECONDS,
    TAU_SECONDS,
    Hold,
    NextGrant,
    QueueRequest,
    QueueTenant,
    eligible,
    hold_seconds,
    in_order,
    is_hold_over,
    is_within_quota,
    lane,
    left_over,
    may_hold,
    next_grant,
    share,
)

ROWS = range(6)


class Case(NamedTuple):
    """A queue with its tenants and the free rows."""

    requests: list[QueueRequest]
    tenants: dict[int, QueueTenant]
    free: list[int]


TENANT = st.builds(
    QueueTenant,
    weight=st.sampled_from([1, 1, 2, 10, 100]),
    usage=st.sampled_from([0.0, 1.0, TAU_SECONDS, 5.5 * TAU_SECONDS]),
    held=st.integers(0, 4),
    limit=st.sampled_from([None, None, 0, 2, 4, 8]),
    is_active=st.sampled_from([True, True, True, False]),
)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    tenants = dict(enumerate(draw(st.lists(TENANT, min_size=1, max_size=4))))
    counts = draw(st.lists(st.sampled_from([1, 1, 1, 2, 4]), max_size=8))
    requests = [
        QueueRequest(
            number=number,
            tenant=draw(st.sampled_from(sorted(tenants))),
            size=count,
            gpus=count,
            priority=draw(st.sampled_from([0, 0, 50])),
            is_preemptible=draw(st.booleans()),
            requested_at=float(draw(st.integers(0, 5))),
            fits=draw(st.none() | st.frozensets(st.sampled_from(ROWS), min_size=3, max_size=3)),
            has_quota=draw(st.booleans()),
        )
        for number, count in enumerate(counts, 1)
    ]
    return Case(requests, tenants, sorted(draw(st.sets(st.sampled_from(ROWS)))))


class Drained(NamedTuple):
    """The grants in order, and what is left after them: `free` without `held`."""

    grants: list[tuple[QueueRequest, tuple[int, ...]]]
    tenants: dict[int, QueueTenant]
    free: list[int]
    held: tuple[int, ...] = ()


def drained(case: Case, *, holds: bool = False) -> Drained:
    """Grant until nothing can be granted; the order is determined again after each grant."""
    requests, tenants, free = list(case.requests), dict(case.tenants), list(case.free)
    grants: list[tuple[QueueRequest, tuple[int, ...]]] = []
    while (found := next_grant(requests, tenants, free, lambda _: holds)).request is not None:
        request, rows = found.request, found.rows[: found.request.size]
        grants.append((request, rows))
        requests.remove(request)
        free = [row for row in free if row not in rows]
        owner = tenants[request.tenant]
        added = 0 if request.has_quota else request.gpus
        tenants[request.tenant] = owner._replace(held=owner.held + added)
    return Drained(grants, tenants, free, found.held)


def before(line: list[QueueRequest], request: QueueRequest) -> int:
    """Return the number of requests of other tenants before a request."""
    return sum(one.tenant != request.tenant for one in line[: line.index(request)])


@given(cases(), st.randoms())
def test_the_order_is_total_and_deterministic(case: Case, chance: random.Random) -> None:
    mixed = case.requests[:]
    chance.shuffle(mixed)

    line = in_order(case.requests, case.tenants)

    assert in_order(mixed, case.tenants) == line
    for left in line:
        others = [one for one in case.requests if one != left]
        assert in_order(others, case.tenants) == [one for one in line if one != left]


@given(cases(), st.sampled_from(["usage", "held"]))
def test_a_larger_share_never_moves_a_tenant_forward(case: Case, field: str) -> None:
    line = in_order(case.requests, case.tenants)

    for number, tenant in case.tenants.items():
        more = {
            "usage": tenant._replace(usage=tenant.usage + TAU_SECONDS),
            "held": tenant._replace(held=tenant.held + 1),
        }[field]
        after = in_order(case.requests, {**case.tenants, number: more})
        own = [one for one in case.requests if one.tenant == number]
        assert all(before(after, one) >= before(line, one) for one in own)


@given(cases())
def test_a_larger_weight_never_moves_a_tenant_back(case: Case) -> None:
    line = in_order(case.requests, case.tenants)

    for number, tenant in case.tenants.items():
        heavier = tenant._replace(weight=tenant.weight * 2)
        after = in_order(case.requests, {**case.tenants, number: heavier})
        own = [one for one in case.requests if one.tenant == number]
        assert all(before(after, one) <= before(line, one) for one in own)


@given(cases())
def test_time_alone_does_not_reorder_tenants_that_hold_nothing(case: Case) -> None:
    idle = {number: one._replace(held=0) for number, one in case.tenants.items()}
    later = {
        number: one._replace(usage=accrued(one.usage, 0, 3600)) for number, one in idle.items()
    }

    assert in_order(case.requests, later) == in_order(case.requests, idle)


@given(cases())
def test_no_row_is_granted_twice_and_a_group_is_granted_whole(case: Case) -> None:
    grants = drained(case).grants

    rows = [row for _, granted in grants for row in granted]
    assert len(rows) == len(set(rows))
    assert set(rows) <= set(case.free)
    for request, granted in grants:
        assert len(granted) == request.size
        assert request.fits is None or set(granted) <= request.fits


@given(cases())
def test_no_grant_exceeds_the_limit_or_reaches_a_suspended_tenant(case: Case) -> None:
    after = drained(case)

    for number, tenant in case.tenants.items():
        added = [one for one, _ in after.grants if one.tenant == number]
        if tenant.limit is not None and any(not one.has_quota for one in added):
            assert after.tenants[number].held <= tenant.limit
        assert tenant.is_active or not added


@given(cases())
def test_no_request_is_overtaken_within_its_tenant_and_class(case: Case) -> None:
    granted = [request for request, _ in drained(case).grants]

    for place, request in enumerate(granted):
        older = [
            one
            for one in case.requests
            if lane(one) == lane(request)
            and (one.requested_at, one.number) < (request.requested_at, request.number)
        ]
        assert set(older) <= set(granted[:place])


@given(cases())
def test_single_rows_are_granted_until_requests_quota_or_rows_end(case: Case) -> None:
    simple = [
        one._replace(size=1, gpus=1, fits=None, has_quota=False, priority=0, is_preemptible=False)
        for one in case.requests
    ]

    after = drained(case._replace(requests=simple))

    rooms = (
        min(
            sum(one.tenant == number for one in simple),
            99 if tenant.limit is None else max(0, tenant.limit - tenant.held),
        )
        for number, tenant in case.tenants.items()
        if tenant.is_active
    )
    assert len(after.grants) == min(sum(rooms), len(case.free))


@given(cases())
def test_rows_are_held_for_the_head_only_and_are_not_granted(case: Case) -> None:
    found = next_grant(case.requests, case.tenants, case.free)

    if found.held:
        head = eligible(case.requests, case.tenants)[0]
        assert found.holder == head.number
        assert len(found.held) < head.size
    assert not set(found.rows) & set(found.held)


A_GROUP_BEHIND_A_HOLD = Case(
    requests=[
        QueueRequest(1, tenant=0, size=2, gpus=2, is_preemptible=True),
        QueueRequest(2, tenant=0, size=4, gpus=4, priority=50, fits=frozenset({0, 1, 2})),
        QueueRequest(3, tenant=0, is_preemptible=True),
        QueueRequest(4, tenant=0, is_preemptible=True),
    ],
    tenants={0: QueueTenant()},
    free=[0, 1, 2, 3],
)
"""With the hold for 2, one row is left, which is too little for 1. Without it, nothing is left."""


@given(cases(), st.booleans())
@example(case=A_GROUP_BEHIND_A_HOLD, holds=True)
@example(case=A_GROUP_BEHIND_A_HOLD, holds=False)
def test_a_create_that_does_not_wait_gets_only_what_the_queue_leaves(
    case: Case, holds: bool
) -> None:
    last = QueueRequest(99, tenant=0, requested_at=9.0)

    left = left_over(case.requests, case.tenants, case.free, last, lambda _: holds)

    if any(lane(one) == lane(last) for one in case.requests):
        assert left == ()
    else:
        # Not a part of what is left without holds: a hold can leave too little for a group.
        after = drained(case, holds=holds)
        assert list(left) == [row for row in after.free if row not in after.held]
        assert not any(left_to(one, left) for one in after_grants(case, after))


def after_grants(case: Case, after: Drained) -> list[QueueRequest]:
    """Return the requests that still wait and may be granted, the first of each lane."""
    granted = {request.number for request, _ in after.grants}
    waiting = [one for one in case.requests if one.number not in granted]
    first = {lane(one): one for one in reversed(eligible(waiting, after.tenants))}
    return list(first.values())


def left_to(request: QueueRequest, left: tuple[int, ...]) -> bool:
    """Return whether the rows in `left` are enough for a request."""
    fitting = [row for row in left if request.fits is None or row in request.fits]
    return len(fitting) >= request.size


def test_a_gpu_that_is_held_forever_is_a_share_of_one() -> None:
    usage = accrued(0.0, gpus=1, seconds=50 * queue.HALF_LIFE_SECONDS)

    assert share(QueueTenant(usage=usage)) == pytest.approx(1)
    assert share(QueueTenant(held=3, weight=2)) == 1.5
    assert accrued(8.0, gpus=0, seconds=queue.HALF_LIFE_SECONDS) == 4.0


def test_preemptible_requests_are_last_then_priority_share_and_age_decide() -> None:
    tenants = {1: QueueTenant(held=4), 2: QueueTenant()}
    line = [
        QueueRequest(1, tenant=1, priority=50),
        QueueRequest(2, tenant=2, requested_at=3),
        QueueRequest(3, tenant=1, requested_at=1),
        QueueRequest(4, tenant=1, requested_at=2),
        QueueRequest(5, tenant=2, is_preemptible=True, priority=100),
    ]

    assert in_order(reversed(line), tenants) == line


def test_a_tenant_at_its_limit_bars_its_lane_but_not_another_tenant() -> None:
    tenants = {1: QueueTenant(held=2, limit=2), 2: QueueTenant(held=5), 3: QueueTenant()}
    barred, other = QueueRequest(1, tenant=1), QueueRequest(3, tenant=2)
    lost = QueueRequest(2, tenant=1, requested_at=1, has_quota=True)
    suspended = {**tenants, 2: QueueTenant(is_active=False)}

    assert not is_within_quota(barred, tenants[1])
    assert is_within_quota(lost, tenants[1])
    assert eligible([barred, lost, other], tenants) == [other]
    assert eligible([barred, lost, other], suspended) == []


def test_a_group_at_the_head_holds_what_is_free_until_it_may_not() -> None:
    tenants = {1: QueueTenant(), 2: QueueTenant(held=1)}
    group = QueueRequest(1, tenant=1, size=3, gpus=3)
    single = QueueRequest(2, tenant=2)

    holding = next_grant([group, single], tenants, [7, 8])
    pausing = next_grant([group, single], tenants, [7, 8], lambda _: False)
    whole = next_grant([group, single], tenants, [7, 8, 9])

    assert holding == NextGrant(held=(7, 8), holder=1)
    assert (pausing.request, pausing.rows, pausing.held) == (single, (7, 8), ())
    assert (whole.request, whole.rows) == (group, (7, 8, 9))


def test_nothing_is_held_for_a_head_that_waits_for_quota() -> None:
    tenants = {1: QueueTenant(held=2, limit=4), 2: QueueTenant(held=9)}
    group, single = QueueRequest(1, tenant=1, size=3, gpus=3), QueueRequest(2, tenant=2)

    assert next_grant([group, single], tenants, [7]).request == single


def test_a_later_request_of_a_lane_does_not_pass_a_group_that_does_not_fit() -> None:
    tenants = {1: QueueTenant()}
    group, single = QueueRequest(1, 1, size=3), QueueRequest(2, 1)

    assert next_grant([group, single], tenants, [7], lambda _: False).request is None


def test_the_rows_that_the_placement_allows_are_offered_in_order() -> None:
    request = QueueRequest(1, tenant=1, fits=frozenset({2, 4}))

    assert next_grant([request], {1: QueueTenant()}, [4, 3, 2]).rows == (4, 2)
    assert next_grant([request], {1: QueueTenant()}, [3]).request is None
    assert next_grant([request], {1: QueueTenant()}, []) == NextGrant()


def test_a_request_that_never_gets_enough_holds_free_stock_half_of_seven_days() -> None:
    """The figures of docs/operators/daily.md, in minutes: the matcher looks once a minute."""
    hold, pause_until, held, holds = Hold(), 0.0, 0, 0
    for now in range(0, 7 * 24 * 3600, 60):
        if is_hold_over(hold, now):
            pause_until = now + hold_seconds(hold.times)
            hold = Hold(None, hold.times + 1)
        if may_hold(hold, pause_until, now):
            holds += hold.begun_at is None
            hold = hold if hold.begun_at is not None else Hold(now, hold.times)
            held += 1

    assert (holds, round(held / 60)) == (35, 85)


def test_holds_double_up_to_160_minutes_with_a_pause_after_each() -> None:
    assert [hold_seconds(times) / 60 for times in range(6)] == [10, 20, 40, 80, 160, 160]
    first, second = Hold(100.0, 0), Hold(100.0, 1)

    assert not is_hold_over(first, 99.0 + HOLD_SECONDS)
    assert is_hold_over(first, 100.0 + HOLD_SECONDS)
    assert not is_hold_over(second, 100.0 + HOLD_SECONDS)
    assert not is_hold_over(Hold(), 1e9)
    assert may_hold(first, pause_until=500.0, now=200.0)
    assert not may_hold(Hold(), pause_until=500.0, now=499.0)
    assert may_hold(Hold(), pause_until=500.0, now=500.0)


WRONG: dict[str, tuple[str, object]] = {
    "no weight": ("share", lambda t: t.usage / TAU_SECONDS + t.held),
    "usage in GPU-seconds": ("share", lambda t: (t.usage + t.held) / t.weight),
    "without the held GPUs": ("share", lambda t: t.usage / TAU_SECONDS / t.weight),
    "limit off by one": (
        "is_within_quota",
        lambda r, t: r.has_quota or t.limit is None or t.held + r.gpus <= t.limit + 1,
    ),
    "a lane for each request": ("lane", lambda r: (r.number, False, 0)),
}


EXAMPLES: list[Callable[[], None]] = [
    test_a_gpu_that_is_held_forever_is_a_share_of_one,
    test_a_tenant_at_its_limit_bars_its_lane_but_not_another_tenant,
    test_nothing_is_held_for_a_head_that_waits_for_quota,
    test_a_later_request_of_a_lane_does_not_pass_a_group_that_does_not_fit,
]


@pytest.mark.parametrize("fault", WRONG)
def test_the_examples_find_a_planted_fault(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, wrong = WRONG[fault]
    monkeypatch.setattr(queue, name, wrong)
    monkeypatch.setitem(globals(), name, wrong)

    assert any(map(_fails, EXAMPLES))


def _fails(example: Callable[[], None]) -> bool:
    try:
        example()
    except AssertionError:
        return True
    return False


def lanes(case: Case, depth: int) -> list[QueueRequest]:
    """Return the first requests of each lane, which the matcher reads."""
    found: dict[tuple[int, bool, int], list[QueueRequest]] = {}
    for request in in_order(case.requests, case.tenants):
        found.setdefault(lane(request), []).append(request)
    return [request for requests in found.values() for request in requests[:depth]]


@given(cases(), st.booleans())
def test_the_first_request_of_each_lane_decides_the_next_grant(case: Case, is_held: bool) -> None:
    first = lanes(case, 1)

    found = next_grant(first, case.tenants, case.free, lambda _: is_held)

    assert found == next_grant(case.requests, case.tenants, case.free, lambda _: is_held)


@given(cases(), st.sampled_from(range(1, 4)), st.booleans())
def test_as_many_requests_of_each_lane_as_free_rows_decide_what_is_left(
    case: Case, tenant: int, is_held: bool
) -> None:
    first, last = lanes(case, len(case.free) or 1), QueueRequest(99, tenant)
    tenants = {tenant: QueueTenant(), **case.tenants}

    found = left_over(first, tenants, case.free, last, lambda _: is_held)

    assert found == left_over(case.requests, tenants, case.free, last, lambda _: is_held)
