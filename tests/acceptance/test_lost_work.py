"""Workers killed again and again under much work: nothing is lost and nothing done twice.

On a platform of its own, which is thrown away with the pools.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuplatform.embedded.data_directory import remove_data
from tests.acceptance.platform import RunningPlatform
from tests.acceptance.pools import ask, assert_each_made_once, open_operations

pytestmark = [
    pytest.mark.processes,
    pytest.mark.long,
    pytest.mark.timeout(400),
    pytest.mark.xdist_group("lost work"),
]

OPERATIONS = 500
BETWEEN_KILLS = 100
"""Operations that are accepted, and later those that are done, from one kill to the next."""


@pytest.fixture
def own_platform(tmp_path: Path) -> Iterator[RunningPlatform]:
    """A platform for one test, without a worker that would make Deployments of the pools."""
    platform = RunningPlatform(tmp_path)
    try:
        platform.start_all()
        platform.kill("reconcile")
        yield platform
    finally:
        platform.stop_all()
        remove_data(tmp_path / "data")


def test_no_operation_is_lost_or_doubled_when_workers_are_killed(
    own_platform: RunningPlatform,
) -> None:
    platform = own_platform
    platform.start("operations", role="second operations")
    groups = itertools.cycle(["operations", "second operations"])
    statuses = set()

    def kill_the_next() -> None:
        group = next(groups)
        platform.kill(group)
        platform.start("operations", role=group)

    for number in range(OPERATIONS):
        statuses.add(ask(platform, f"k-{number}"))
        if number % BETWEEN_KILLS == BETWEEN_KILLS - 1:
            kill_the_next()
    while (left := open_operations(platform, "k")) > 0:
        wanted = max(left - BETWEEN_KILLS, 0)
        platform.wait(
            lambda wanted=wanted: open_operations(platform, "k") <= wanted,  # type: ignore[misc]  # mypy knows no default of a lambda
            "the workers to get on",
            90,
        )
        kill_the_next()

    assert statuses == {202}
    assert_each_made_once(platform, "k", OPERATIONS)
