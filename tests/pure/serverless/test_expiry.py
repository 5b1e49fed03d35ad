"""The description of the condition for which an expired invocation waited."""

import pytest

from serverless.core.expiry import wait_description


@pytest.mark.parametrize(
    ("status", "parts"),
    [
        (("NoCapacity", "", "No stock."), ["NoCapacity: No stock."]),
        (
            ("WorkerFailed", "ImagePullFailed", "The node cannot pull it."),
            ["WorkerFailed (ImagePullFailed): The node cannot pull it."],
        ),
        (("", "", ""), ["has not been observed"]),
    ],
    ids=["no stock", "failing workers", "new function"],
)
def test_description_contains_reason_cause_and_message(
    status: tuple[str, str, str], parts: list[str]
) -> None:
    described = wait_description(*status)

    assert all(part in described for part in parts)
