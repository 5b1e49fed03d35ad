"""The choice between the candidates of tenants: pure, without a database."""

from datetime import UTC, datetime, timedelta

from gpuplatform.operations.fair_order import Candidate, FairOrder

ACME, BETA, GAMMA = 1, 2, 3
START = datetime(2026, 1, 1, tzinfo=UTC)


def candidate(operation: int, tenant: int, running: int = 0) -> Candidate:
    return Candidate(operation, tenant, running, START + timedelta(seconds=operation))


def chosen(order: FairOrder, *candidates: Candidate, hinted: int = 0) -> int:
    found = order.choose(candidates, hinted)
    assert found is not None
    return found.operation


def test_nothing_is_chosen_of_nothing() -> None:
    assert FairOrder().choose([], 1) is None


def test_the_tenant_with_the_fewest_running_operations_comes_first() -> None:
    found = chosen(FairOrder(), candidate(1, ACME, 2), candidate(9, BETA, 1), hinted=1)

    assert found == 9


def test_of_equal_tenants_the_oldest_operation_comes_first() -> None:
    assert chosen(FairOrder(), candidate(2, ACME), candidate(1, BETA), hinted=3) == 1


def test_the_hinted_operation_precedes_an_older_one_of_its_tenant() -> None:
    assert chosen(FairOrder(), candidate(1, ACME), candidate(7, ACME), hinted=7) == 7


def test_the_hinted_operation_of_a_tenant_that_was_just_served_waits() -> None:
    order = FairOrder()
    order.served(ACME)

    assert chosen(order, candidate(1, ACME), candidate(7, BETA), hinted=1) == 7


def test_a_single_worker_alternates_between_all_tenants() -> None:
    order, served = FairOrder(), []
    backlog = [candidate(1, ACME), candidate(2, BETA), candidate(3, GAMMA)]
    for _ in range(6):
        found = order.choose(backlog, 1)
        assert found is not None
        order.served(found.tenant)
        served.append(found.tenant)

    assert served == [ACME, BETA, GAMMA] * 2
