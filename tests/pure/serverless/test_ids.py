"""Ids of functions: ordered by time, and independent of the number of functions."""

from serverless.core.ids import function_id
from serverless.core.workers import function_of, worker_name


def test_ids_increase_with_the_time_and_differ_within_a_millisecond() -> None:
    first = function_id()
    ids = [function_id() for _ in range(2_000)]

    assert [one >> 20 for one in ids] == sorted(one >> 20 for one in ids)
    assert all(one >> 20 >= first >> 20 for one in ids)
    # More than one id a millisecond is created here, which a pure time could not distinguish.
    assert len({one >> 20 for one in ids}) < len(ids)
    assert len({one & (2**20 - 1) for one in ids}) > 1_900


def test_the_name_of_a_worker_has_room_for_an_id_of_the_last_day_of_2055() -> None:
    last = ((30 * 366 * 86_400_000) << 20) | (2**20 - 1)
    name = worker_name(last, 10**9, "0123abcd")

    assert len(name) <= 58
    assert function_of(name) == last
