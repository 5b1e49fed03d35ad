"""A tenth of `make chaos-x9`: no accepted invocation is lost, duplicated or left over."""

import pytest

from tests.acceptance.platform import RunningPlatform
from tests.chaos.x9 import Experiment, Shape

pytestmark = [
    pytest.mark.processes,
    pytest.mark.long,
    pytest.mark.timeout(600),
    pytest.mark.xdist_group("acceptance"),
]


def test_invocations_survive_the_death_of_everything_between(platform: RunningPlatform) -> None:
    shape = Shape(invocations=500, functions=2, kills=3)

    assert Experiment(platform, shape).run() == []
