"""The hand-over protocol: correct with all rules, incorrect without each of them."""

import pytest

from tests.model.scenarios import SCENARIOS, explore
from tests.model.state import RULES

SMALL = (
    "short",
    "plain",
    "seed3",
    "refuse",
    "stop1",
    "races",
    "seed1",
    "late2",
    "outsider1",
    "evict",
    "kill",
    "again",
    "end1",
)
LARGE = (
    "again2",
    "again3",
    "ambig",
    "end2",
    "end3",
    "late",
    "mix1",
    "outsider",
    "planner",
    "seed2",
    "stop2",
    "stop3",
    "stop5",
    "stop6",
    "stop7",
    "sweep",
    "stop4",
    "stop8",
    "late3",
    "outsider2",
    "mirror",
)
"""About half a minute each; `make model` also explores the largest."""
BROKEN = {
    "order": ("stop1", "a stopped unit runs again"),
    "token": ("late2", "stock is free although a unit consumes it"),
    "recorduid": ("again3", "a deleted unit runs again"),
    "arbiter": ("outsider", "stock was consumed by an operation that failed"),
    "leftover": ("seed3", "stock 0 is there and cannot be claimed"),
    "final": ("races", "stock is gone that nobody consumed"),
    "waitabs": ("again", "a unit runs while the pods of its stock hold the GPU"),
    "terminal": ("evict", "a unit runs while the pods of its stock hold the GPU"),
    "noowner": ("evict", "a unit runs while the pods of its stock hold the GPU"),
    "uidunit": ("again", "a unit is gone that nobody deleted"),
    "gonerow": ("outsider", "stock is free although a unit consumes it"),
    "stamp": ("stop12", "a unit runs while the pods of its stock hold the GPU"),
    "startwaits": ("stop2", "a unit runs while the pods of its stock hold the GPU"),
    "applied": ("stop3", "a started unit is stopped again"),
    "rvpatch": ("stop3", "a started unit is stopped again"),
    "ended": ("end1", "a program that has ended runs again"),
}
LATE_BROKEN = {
    "named": ("outsider", "for ever: unit 0 stays unfinished"),
    "newer": ("seed2", "for ever: stock 1 is there and cannot be claimed"),
    "zero": ("stop3", "a unit runs while the pods of its stock hold the GPU"),
    "rvdep": ("stop3", "a unit runs while the pods of its stock hold the GPU"),
    "voidstart": ("stop6", "stock is free although a unit consumes it"),
}
"""Rules whose absence has an effect after more steps."""
NEEDLESS = {"getfirst", "rowfinal", "uidstock"}
"""Their absence has no effect. They are cheap and avoid work."""


@pytest.mark.parametrize("scenario", SMALL)
def test_no_order_of_events_breaks_the_protocol(scenario: str) -> None:
    found = explore(scenario)

    assert found.fault == "", str(found)
    assert found.is_whole


@pytest.mark.parametrize("rule", BROKEN)
def test_a_protocol_without_the_rule_breaks(rule: str) -> None:
    scenario, words = BROKEN[rule]

    found = explore(scenario, without=frozenset({rule}))

    assert words in found.fault
    assert found.trace


@pytest.mark.long
@pytest.mark.parametrize("scenario", LARGE)
def test_no_order_of_many_events_breaks_the_protocol(scenario: str) -> None:
    found = explore(scenario)

    assert found.fault == "", str(found)
    assert found.is_whole


@pytest.mark.long
@pytest.mark.parametrize("rule", LATE_BROKEN)
def test_a_protocol_without_the_rule_breaks_late(rule: str) -> None:
    scenario, words = LATE_BROKEN[rule]

    found = explore(scenario, without=frozenset({rule}))

    assert words in found.fault
    assert found.trace


def test_every_rule_left_out_is_a_rule_and_every_small_scenario_exists() -> None:
    assert {*BROKEN, *LATE_BROKEN, *NEEDLESS} == set(RULES)
    assert {*SMALL, *LARGE} <= set(SCENARIOS)
