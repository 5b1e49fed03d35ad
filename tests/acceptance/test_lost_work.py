"""Workers are killed repeatedly under load: no operation is lost or executed twice.

The test has a separate platform, which is deleted with the pools.
"""

import pytest

from tests.acceptance.killer import Killer
from tests.acceptance.platform import RunningPlatform
from tests.acceptance.pools import ask, assert_each_made_once, made, open_operations

pytestmark = [
    pytest.mark.processes,
    pytest.mark.long,
    pytest.mark.timeout(400),
    pytest.mark.xdist_group("lost work"),
]

OPERATIONS = 500
A_LIFE = 40
"""Operations that a worker group completes before it is killed, after at least 2 s."""
AT_LEAST = 3
"""Minimum number of kills for a valid test."""


def test_no_operation_is_lost_or_doubled_when_workers_are_killed(
    own_platform: RunningPlatform,
) -> None:
    own_platform.kill("reconcile")  # It would create the Deployments of pools.
    killer = Killer(
        own_platform,
        ["operations"],
        done=lambda: len(made(own_platform, "k")),
        a_life=A_LIFE,
    )

    with killer.at_work():
        statuses = {ask(own_platform, f"k-{number}") for number in range(OPERATIONS)}
        own_platform.wait(
            lambda: open_operations(own_platform, "k") == 0,
            "the workers to have done everything",
            240,
        )

    assert killer.kills >= AT_LEAST
    assert statuses == {202}
    assert_each_made_once(own_platform, "k", OPERATIONS)
