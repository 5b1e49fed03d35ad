"""Three rounds of `make chaos-u41`: all processes are killed at the same time under load."""

import pytest

from tests.acceptance.platform import RunningPlatform
from tests.chaos.u41 import Experiment

pytestmark = [
    pytest.mark.processes,
    pytest.mark.long,
    pytest.mark.timeout(600),
    pytest.mark.xdist_group("all killed"),
]

ROUNDS = 3


def test_after_the_death_of_all_processes_all_comes_about_once_and_what_was_ready_stays(
    own_platform: RunningPlatform,
) -> None:
    assert Experiment(own_platform, ROUNDS).run() == []
