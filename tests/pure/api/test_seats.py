"""The seats of waiting requests: a tenant never occupies all of them."""

import contextlib

import pytest

from gpuplatform.api.waiting import RETRY_SECONDS, Seats

ACME, BETA = 1, 2


@pytest.mark.parametrize(("number", "of_tenant"), [(2, 1), (4, 1), (8, 2), (16, 4)])
def test_a_tenant_gets_a_quarter_and_at_least_one(number: int, of_tenant: int) -> None:
    seats = Seats(number)
    with contextlib.ExitStack() as held:
        got = [held.enter_context(seats.seat(ACME)) for _ in range(number)]

        assert sum(got) == of_tenant
        assert held.enter_context(seats.seat(BETA))


def test_all_tenants_together_get_all_seats_and_no_more() -> None:
    seats = Seats(4)
    with contextlib.ExitStack() as held:
        got = [held.enter_context(seats.seat(tenant)) for tenant in range(6)]

    assert got == [True] * 4 + [False] * 2


def test_a_seat_is_free_again_after_an_exception() -> None:
    seats = Seats(2)
    with pytest.raises(ZeroDivisionError), seats.seat(ACME):
        raise ZeroDivisionError

    with seats.seat(ACME) as is_seated:
        assert is_seated


def test_without_a_seat_the_caller_is_told_when_to_try_again() -> None:
    seats = Seats(2)
    with seats.seat(ACME):
        assert seats.wait(ACME, lambda: False, 60) == RETRY_SECONDS
        assert seats.wait(ACME, lambda: True, 60) == 0
        assert seats.wait(BETA, lambda: False, 0.01) == 0
