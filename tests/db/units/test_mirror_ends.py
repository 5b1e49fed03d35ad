"""Rows of units copy the end of a program, also from a status that another client wrote."""

from typing import Any

import pytest

from tests.factories.unit_resources import naming, unit_resource
from tests.factories.unit_rows import stock_row
from units.mirror import UNIT_MIRROR
from units.models import GpuUnit
from units.phases import UnitRole

pytestmark = pytest.mark.django_db

CONDITION = {"type": "Ready", "status": "False", "reason": "ProgramFailed", "message": "It ended."}


def copied(run: str, **status: Any) -> GpuUnit:
    """Copy a unit with a source and this status; return its row."""
    stock = stock_row(uid="the-source")
    end = {"phase": "Failed", "conditions": [CONDITION], "finishedRun": run, **status}
    resource = unit_resource("a", metadata={"annotations": naming(stock)}, status=end)
    UNIT_MIRROR.observed(resource)
    return GpuUnit.objects.get(role=UnitRole.ACTIVE)


@pytest.mark.parametrize(
    ("code", "expected"),
    [(3, 3), (-1, -1), (None, None), (2**40, None), ("3", None), (True, None)],
    ids=str,
)
def test_an_exit_code_that_does_not_fit_is_unknown(code: object, expected: int | None) -> None:
    row = copied("the-source", exitCode=code)

    assert (row.is_ended, row.exit_code) == (True, expected)


@pytest.mark.parametrize("time", ["2026-01-31T13:00:00Z", "yesterday", "", 7])
def test_a_malformed_time_is_unknown(time: object) -> None:
    row = copied("the-source", exitCode=0, finishedAt=time)

    assert (row.finished_at is not None) is (time == "2026-01-31T13:00:00Z")


def test_the_end_of_another_run_is_not_copied() -> None:
    row = copied("another-source", exitCode=3)

    assert (row.is_ended, row.exit_code, row.finished_at) == (False, None, None)


def test_a_unit_whose_pod_is_still_terminating_has_not_released_its_gpus() -> None:
    row = copied("the-source", phase="Progressing", exitCode=3)

    assert row.is_ended is False
