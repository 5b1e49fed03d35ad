import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuplatform.errors import Retry
from gpuplatform.kube.deadline import capped, deadline, remaining
from gpuplatform.kube.errors import ClusterUnavailable


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_without_a_budget_nothing_is_capped() -> None:
    assert remaining() is None
    assert capped(10) == 10


def test_calls_share_one_budget() -> None:
    clock = Clock()

    with deadline(20, clock=clock):
        clock.now += 15

        assert capped(10) == pytest.approx(5)


def test_exhausted_budget_is_a_retryable_outage() -> None:
    clock = Clock()

    with deadline(20, clock=clock):
        clock.now += 20

        with pytest.raises(ClusterUnavailable) as raised:
            capped(10)

    assert raised.value.status == 0
    assert raised.value.retry is Retry.LATER


def test_budget_ends_with_its_block() -> None:
    with deadline(1):
        pass

    assert remaining() is None


def test_budget_ends_with_its_block_after_an_error() -> None:
    def fail() -> None:
        with deadline(1):
            raise KeyError

    with pytest.raises(KeyError):
        fail()

    assert remaining() is None


@given(st.lists(st.floats(0, 1000), min_size=1, max_size=5))
def test_inner_budget_never_lengthens_an_outer_one(budgets: list[float]) -> None:
    clock = Clock()

    def nest(left: list[float]) -> float:
        if not left:
            found = remaining()
            assert found is not None
            return found
        with deadline(left[0], clock=clock):
            return nest(left[1:])

    assert nest(budgets) == pytest.approx(min(budgets))


def test_budget_belongs_to_its_thread() -> None:
    seen: list[float | None] = []

    with deadline(5):
        thread = threading.Thread(target=lambda: seen.append(remaining()))
        thread.start()
        thread.join()

    assert seen == [None]
