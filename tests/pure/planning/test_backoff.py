"""Delays increase from one second to five minutes, with jitter between workers."""

from hypothesis import given
from hypothesis import strategies as st

from gpuplatform.planning.backoff import JITTER, LONGEST_SECONDS, backoff_seconds

CHANCES = st.floats(min_value=0, max_value=1, exclude_max=True)


@given(st.integers(min_value=-5, max_value=10**9), CHANCES)
def test_every_wait_is_within_its_bounds(failures: int, chance: float) -> None:
    wait = backoff_seconds(failures, chance=chance)

    assert 1 - JITTER <= wait <= LONGEST_SECONDS * (1 + JITTER)


def test_each_wait_is_twice_the_one_before_until_the_longest() -> None:
    waits = [backoff_seconds(failures, chance=0.5) for failures in range(1, 12)]

    assert waits[:4] == [1, 2, 4, 8]
    assert waits[-2:] == [LONGEST_SECONDS, LONGEST_SECONDS]


@given(st.integers(min_value=1, max_value=100))
def test_the_longest_can_be_shorter(failures: int) -> None:
    assert backoff_seconds(failures, longest=30, chance=0.5) <= 30


def test_waits_are_spread() -> None:
    assert len({backoff_seconds(5) for _ in range(20)}) > 1
