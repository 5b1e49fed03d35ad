"""Conditions follow the API conventions: a transition time changes only with the status."""

from datetime import UTC, datetime
from typing import Any

from gpuplatform.lifecycle.conditions import Condition, ConditionStatus, merge_conditions

BEFORE = "2026-01-01T00:00:00Z"
NOW = datetime(2026, 1, 31, 12, 0, 0, 999_000, tzinfo=UTC)


def ready(status: ConditionStatus, reason: str = "R", generation: int = 1) -> Condition:
    return Condition("Ready", status, reason, "m", generation)


def present(status: str = "True", **changes: Any) -> dict[str, Any]:
    return {"type": "Ready", "status": status, "lastTransitionTime": BEFORE, **changes}


def test_a_first_condition_has_the_present_time_in_whole_seconds() -> None:
    [merged] = merge_conditions([], [ready("True")], NOW)

    assert merged == {
        "type": "Ready",
        "status": "True",
        "reason": "R",
        "message": "m",
        "observedGeneration": 1,
        "lastTransitionTime": "2026-01-31T12:00:00Z",
    }


def test_reason_message_and_generation_do_not_change_the_time() -> None:
    [merged] = merge_conditions([present(reason="Old")], [ready("True", "New", 9)], NOW)

    assert merged["lastTransitionTime"] == BEFORE
    assert (merged["reason"], merged["observedGeneration"]) == ("New", 9)


def test_another_status_changes_the_time() -> None:
    [merged] = merge_conditions([present("False")], [ready("True")], NOW)

    assert merged["lastTransitionTime"] == "2026-01-31T12:00:00Z"


def test_a_condition_without_a_time_gets_one() -> None:
    [merged] = merge_conditions([present(lastTransitionTime=None)], [ready("True")], NOW)

    assert merged["lastTransitionTime"] == "2026-01-31T12:00:00Z"


def test_conditions_of_others_stay_and_the_order_is_the_same_each_time() -> None:
    other = {"type": "Audited", "status": "True", "lastTransitionTime": BEFORE}

    one = merge_conditions([present(), other], [ready("True")], NOW)
    two = merge_conditions([other, present()], [ready("True")], NOW)

    assert one == two
    assert other in one


def test_merging_again_changes_nothing() -> None:
    once = merge_conditions([], [ready("True")], NOW)

    assert merge_conditions(once, [ready("True")], datetime(2027, 1, 1, tzinfo=UTC)) == once


def test_the_input_is_not_modified() -> None:
    before = [present("False")]

    merge_conditions(before, [ready("True")], NOW)

    assert before == [present("False")]
