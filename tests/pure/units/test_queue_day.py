"""A simulated day of an over-subscribed GPU spec: no tenant starves."""

from functools import cache

import pytest

from tests.benchmarks.queue_day import NAMES, Day, quantile, report

LONGEST_MINUTES = {"small": 60, "churn": 150, "group4": 180, "group12": 300}
"""The maximum waiting times of tenants that ask for less than their share, or for groups."""


@cache
def day(*, is_attacked: bool) -> Day:
    return Day(1, is_attacked=is_attacked).run()


@pytest.mark.parametrize("is_attacked", [False, True], ids=["calm", "attacked"])
@pytest.mark.parametrize("name", LONGEST_MINUTES)
def test_groups_and_small_tenants_do_not_starve(name: str, is_attacked: bool) -> None:
    minutes = day(is_attacked=is_attacked).minutes(name)

    assert minutes[-1] <= LONGEST_MINUTES[name]
    assert quantile(minutes, 0.5) <= LONGEST_MINUTES[name] / 2


@pytest.mark.parametrize("is_attacked", [False, True], ids=["calm", "attacked"])
def test_the_gpus_are_used_and_every_tenant_is_served(is_attacked: bool) -> None:
    found = day(is_attacked=is_attacked)

    assert found.use > 0.85
    assert all(found.waits[name] for name in NAMES[:-1])
    assert len(list(report([found]))) == len(NAMES) + 1
