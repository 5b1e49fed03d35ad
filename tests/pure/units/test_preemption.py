"""Which preemptible units are stopped for a request: properties of arbitrary queues."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from units.core.preemption import (
    PATIENCE_SECONDS,
    PreemptibleUnit,
    Supply,
    preemptor,
    victims,
)
from units.core.queue import QueueRequest, QueueTenant, eligible, share

NOW = 1_000.0
LONG_AGO = NOW - PATIENCE_SECONDS
TENANTS = {number: QueueTenant(held=held) for number, held in ((1, 0), (2, 3), (3, 6))}


class Case(NamedTuple):
    """A request with the supply of stock, and the preemptible units."""

    request: QueueRequest
    supply: Supply
    units: list[PreemptibleUnit]
    tenants: dict[int, QueueTenant]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    row_gpus = draw(st.sampled_from([1, 2]))
    size = draw(st.integers(1, 4))
    units = [
        PreemptibleUnit(
            number=number,
            tenant=draw(st.sampled_from([1, 2, 3])),
            gpus=draw(st.sampled_from([row_gpus, row_gpus, 4])),
            started_at=float(draw(st.integers(0, 3))),
        )
        for number in range(1, draw(st.integers(0, 6)) + 1)
    ]
    tenants = {
        number: QueueTenant(
            weight=draw(st.sampled_from([1, 1, 5])),
            usage=draw(st.sampled_from([0.0, 1e4, 1e6])),
            held=sum(unit.gpus for unit in units if unit.tenant == number),
        )
        for number in TENANTS
    }
    request = QueueRequest(9, draw(st.sampled_from([1, 2, 3])), size, size * row_gpus)
    supply = Supply(draw(st.integers(0, size)), draw(st.integers(0, 2)))
    return Case(request, supply, units, tenants)


def chosen(case: Case) -> list[PreemptibleUnit]:
    known = {unit.number: unit for unit in case.units}
    return [known[number] for number in victims(*case)]


@given(cases())
def test_stopped_units_complete_the_request_and_never_exceed_it(case: Case) -> None:
    found = chosen(case)

    assert len(set(found)) == len(found)
    if found:
        rows = case.supply.free + case.supply.coming + len(found)
        assert rows == case.request.size
        assert sum(unit.gpus for unit in found) <= case.request.gpus


@given(cases())
def test_units_are_stopped_whenever_they_complete_the_request(case: Case) -> None:
    missing = case.request.size - case.supply.free - case.supply.coming
    fitting = [one for one in case.units if one.gpus * case.request.size == case.request.gpus]

    assert bool(chosen(case)) == (0 < missing <= len(fitting))


@given(cases())
def test_the_order_of_the_units_does_not_matter(case: Case) -> None:
    assert victims(*case._replace(units=case.units[::-1])) == victims(*case)


@given(cases())
def test_the_first_unit_is_the_youngest_of_the_largest_share(case: Case) -> None:
    found = chosen(case)
    fitting = [one for one in case.units if one.gpus * case.request.size == case.request.gpus]

    for first in found[:1]:
        largest = max(share(case.tenants[one.tenant]) for one in fitting)
        assert share(case.tenants[first.tenant]) == largest
        peers = [one for one in fitting if share(case.tenants[one.tenant]) == largest]
        assert first.started_at == max(one.started_at for one in peers)


def test_each_stop_reduces_the_share_of_its_tenant() -> None:
    units = [PreemptibleUnit(number, 3 if number < 4 else 2, 1) for number in range(1, 6)]
    tenants = {**TENANTS, 2: QueueTenant(held=4), 3: QueueTenant(held=5)}

    found = victims(QueueRequest(9, 1, 3, 3), Supply(), units, tenants)

    assert found == (3, 5, 2)


HEAD = QueueRequest(1, 1, requested_at=LONG_AGO)


@pytest.mark.parametrize(
    ("requests", "evicted", "expected"),
    [
        pytest.param([HEAD], (), 1, id="the first request"),
        pytest.param(
            [HEAD._replace(requested_at=LONG_AGO + 1)], (), 0, id="it has just begun to wait"
        ),
        pytest.param([HEAD._replace(is_preemptible=True)], (), 0, id="it is preemptible"),
        pytest.param([HEAD], (1,), 0, id="units were stopped for it already"),
        pytest.param(
            [HEAD, HEAD._replace(number=2)], (1,), 0, id="the next one waits for the first"
        ),
        pytest.param(
            [HEAD, QueueRequest(2, 2, priority=5, requested_at=LONG_AGO)], (), 2, id="by priority"
        ),
        pytest.param(
            [QueueRequest(2, 2, 9, 9, requested_at=LONG_AGO), HEAD], (), 1, id="not beyond a quota"
        ),
        pytest.param([], (), 0, id="an empty queue"),
    ],
)
def test_units_are_stopped_for_the_first_request_once(
    requests: list[QueueRequest], evicted: tuple[int, ...], expected: int
) -> None:
    tenants = {**TENANTS, 2: QueueTenant(limit=8)}

    found = preemptor(requests, tenants, NOW, evicted)

    assert (found.number if found else 0) == expected


@given(
    st.lists(
        st.builds(
            QueueRequest,
            number=st.integers(1, 20),
            tenant=st.sampled_from([1, 2, 3]),
            priority=st.sampled_from([0, 5]),
            is_preemptible=st.booleans(),
            requested_at=st.sampled_from([LONG_AGO, NOW]),
        ),
        max_size=6,
        unique_by=lambda one: one.number,
    )
)
def test_nobody_before_the_request_is_passed_over(requests: list[QueueRequest]) -> None:
    found = preemptor(requests, TENANTS, NOW, ())

    assert found is None or eligible(requests, TENANTS)[0] == found
