"""The request that drains a node: the notice belongs to a stop."""

from datetime import timedelta
from typing import Any

import pytest

from gpuplatform.errors import InvalidSpec
from inventory.requests.drains import MAX_NOTICE_MINUTES, NodeDrainBody


def parsed(**fields: Any) -> NodeDrainBody:
    return NodeDrainBody.parse({"operationID": "d1", **fields})


def test_units_are_kept_by_default() -> None:
    assert parsed().notice is None
    assert parsed().payload() == parsed(units="keep").payload()


@pytest.mark.parametrize("minutes", [0, 30, MAX_NOTICE_MINUTES])
def test_a_stop_has_a_notice(minutes: int) -> None:
    assert parsed(units="stop", noticeMinutes=minutes).notice == timedelta(minutes=minutes)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"units": "stop"}, "noticeMinutes"),
        ({"noticeMinutes": 5}, "noticeMinutes"),
        ({"units": "stop", "noticeMinutes": -1}, "noticeMinutes"),
        ({"units": "stop", "noticeMinutes": MAX_NOTICE_MINUTES + 1}, "noticeMinutes"),
        ({"units": "stop", "noticeMinutes": 1.5}, "noticeMinutes"),
        ({"units": "stop", "noticeMinutes": "5"}, "noticeMinutes"),
        ({"units": "stop", "noticeMinutes": True}, "noticeMinutes"),
        ({"units": "delete"}, "units"),
        ({"units": None}, "units"),
        ({"force": True}, "force"),
    ],
)
def test_invalid_fields_are_named(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidSpec) as error:
        parsed(**fields)

    assert [one.field for one in error.value.details] == [field]
