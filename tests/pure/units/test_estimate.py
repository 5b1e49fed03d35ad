"""The estimate of the waiting time from earlier grants."""

from units.core.estimate import MIN_GRANTS, PastGrant, estimate


def test_the_waiting_time_is_unknown_after_few_grants() -> None:
    assert estimate(0, [PastGrant(0, 60.0)] * (MIN_GRANTS - 1)) is None


def test_the_range_is_the_middle_half_for_each_position() -> None:
    grants = [PastGrant(ahead=0, seconds=float(seconds)) for seconds in (10, 20, 30, 40, 50)]

    assert estimate(0, grants) == (15, 45)
    assert estimate(3, grants) == (60, 180)


def test_a_long_wait_behind_many_requests_counts_for_each_of_them() -> None:
    grants = [PastGrant(ahead=9, seconds=100.0)] * MIN_GRANTS

    assert estimate(0, grants) == (10, 10)


def test_a_clock_that_moved_back_yields_no_negative_time() -> None:
    assert estimate(2, [PastGrant(0, -5.0)] * MIN_GRANTS) == (0, 0)
