"""The comparison of the usage ledger with an observer of pods finds planted faults."""

from datetime import UTC, datetime, timedelta

from tests.chaos.usage_observer import Charge, Hold, compared

BEGIN = datetime(2026, 12, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def charge(begin: float, end: float, *, is_observed: bool = True) -> Charge:
    return Charge("u", "trainer", "s", at(begin), at(end), is_observed)


HOLDS = [Hold("s", at(-100), at(3)), Hold("u", at(2), at(60))]


def test_the_hand_over_counts_from_the_consumption() -> None:
    [row] = compared([charge(0, 60)], HOLDS)

    assert (row.charged, row.held, row.is_wrong) == (60.0, 60.0, False)


def test_a_charge_beyond_the_end_is_wrong_also_if_it_is_estimated() -> None:
    [row] = compared([charge(0, 63, is_observed=False)], HOLDS)

    assert row.is_wrong


def test_a_missing_charge_is_wrong_unless_it_is_estimated() -> None:
    [exact] = compared([charge(0, 50)], HOLDS)
    [estimated] = compared([charge(0, 50, is_observed=False)], HOLDS)

    assert (exact.is_wrong, estimated.is_wrong) == (True, False)


def test_a_part_that_waited_is_not_held() -> None:
    holds = [*HOLDS, Hold("u", at(100), at(150))]

    [row] = compared([charge(0, 60), charge(100, 150)], holds)

    assert (row.charged, row.held) == (110.0, 110.0)
