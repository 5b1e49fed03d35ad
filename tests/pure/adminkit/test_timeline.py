"""Timelines are in chronological order and have short durations."""

from datetime import UTC, datetime, timedelta

import pytest

from gpuplatform.adminkit.display.age import span
from gpuplatform.adminkit.display.timeline import Step, timeline
from gpuplatform.formats.masking import MASK, masked, masked_headers

BEGIN = datetime(2026, 1, 31, 12, tzinfo=UTC)


def test_steps_are_in_order_and_pending_ones_are_last() -> None:
    steps = [
        Step("Ready", None),
        Step("Progressing", BEGIN + timedelta(seconds=2.04)),
        Step("Accepted", BEGIN),
    ]

    lines = timeline(steps)

    assert ["Accepted" in lines[0].badge, "Progressing" in lines[1].badge] == [True, True]
    assert "Ready" in lines[2].badge
    assert "12:00:00<" in lines[0].when
    assert "+ 2.04 s<" in lines[1].when
    assert 'title="2026-01-31 12:00:02.040 UTC"' in lines[1].when
    assert lines[2].when == ""


def test_whole_seconds_stay_whole() -> None:
    steps = [Step("Made", BEGIN), Step("Scheduled", BEGIN + timedelta(seconds=2))]

    assert "+ 2 s<" in timeline(steps)[1].when


def test_a_timeline_without_steps_is_empty() -> None:
    assert timeline([]) == []


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.04, "0.04 s"),
        (12.4, "12 s"),
        (60, "1 min"),
        (185, "3 min 5 s"),
        (3 * 3600 + 120, "3 h 2 min"),
        (2 * 86400 + 3600, "2 d 1 h"),
    ],
)
def test_durations_have_two_units_at_most(seconds: float, shown: str) -> None:
    assert span(seconds) == shown


def test_values_of_variables_are_masked_at_any_depth() -> None:
    document = {
        "metadata": {"managedFields": [{"a": 1}], "name": "x"},
        "spec": {"template": {"envs": [{"name": "A", "value": "s1"}, "s2"]}},
        "containers": [{"env": {"B": "s3"}, "args": ["kept"]}, {"env": "s4"}],
    }

    assert masked(document) == {
        "metadata": {"name": "x"},
        "spec": {"template": {"envs": [{"name": "A", "value": MASK}, MASK]}},
        "containers": [{"env": {"B": MASK}, "args": ["kept"]}, {"env": MASK}],
    }


def test_the_source_of_a_value_is_shown() -> None:
    reference = {"secretKeyRef": {"name": "s", "key": "k"}}
    variable = {"name": "A", "valueFrom": reference}

    assert masked({"env": [variable]}) == {"env": [variable]}


@pytest.mark.parametrize(
    "name",
    [
        *("Authorization", "proxy-authorization", "Cookie", "set-cookie", "X-API-Key", "X-Auth"),
        *("X-Access-Token", "X-Hub-Signature-256", "client_secret", "X-Amz-Credential", "x-otp"),
    ],
)
def test_headers_with_credentials_are_masked(name: str) -> None:
    assert masked_headers({name: "s1"}) == {name: MASK}


@pytest.mark.parametrize("name", ["X-Trace", "Accept", "traceparent", "X-Spinner", "X-Design"])
def test_other_headers_are_not_masked(name: str) -> None:
    assert masked_headers({name: "s1"}) == {name: "s1"}
