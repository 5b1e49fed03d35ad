"""Badges, ages and display of text."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db.models import TextChoices

from gpuplatform.adminkit.display.age import age, age_html, timestamp_age_html
from gpuplatform.adminkit.display.badges import PHASE_SHAPES, phase_badge
from gpuplatform.adminkit.display.text import (
    NONE,
    condense,
    humanize,
    message_html,
    operation_id_html,
    shortened,
    visible,
)
from gpuplatform.operations.phases import OperationPhase
from inventory.phases import PoolPhase
from serverless.phases import FunctionPhase, InvocationState
from units.phases import UnitPhase

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "machine", [OperationPhase, PoolPhase, UnitPhase, FunctionPhase, InvocationState]
)
def test_every_phase_has_a_shape(machine: type[TextChoices]) -> None:
    assert set(machine.values) <= set(PHASE_SHAPES)


def test_a_badge_has_a_shape_a_text_and_a_color() -> None:
    badge = phase_badge("Failed")

    assert 'class="phase failed"' in badge
    assert "<svg" in badge
    assert ">Failed</span>" in badge
    assert "style=" not in badge


def test_an_unknown_phase_is_escaped() -> None:
    assert "&lt;b&gt;" in phase_badge("<b>")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (300, "5 min"),
        (3600, "1 h"),
        (47 * 3600, "47 h"),
        (2 * 86400, "2 d"),
        (400 * 86400, "400 d"),
        (-90, "in 1 min"),
    ],
)
def test_age_has_one_unit(seconds: int, text: str) -> None:
    assert age(NOW - timedelta(seconds=seconds), NOW) == text


def test_a_missing_time_is_a_dash() -> None:
    assert age_html(None) == NONE


@pytest.mark.parametrize("odd", [None, "", "yesterday", 5, {"a": 1}, "2026-01-31T12:00:00"])
def test_an_invalid_timestamp_is_a_dash(odd: object) -> None:
    assert timestamp_age_html(odd) == NONE


def test_invisible_characters_are_escaped() -> None:
    assert visible("a\u202eb\x00\u200bc\nd\te") == "a\\u202eb\\u0000\\u200bc\nd\te"


def test_shortened_text_is_one_line_of_limited_length() -> None:
    assert shortened("a\n b\t c") == "a b c"
    assert len(shortened("y" * 100_000)) == 160


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        ("PodStartupFailed", "Pod startup failed"),
        ("name_conflict", "Name conflict"),
        ("OOMKilling", "OOM killing"),
        ("GPUsMissing", "GPUs missing"),
        ("ScalingReplicaSet", "Scaling replica set"),
        ("", ""),
    ],
)
def test_a_code_becomes_words(reason: str, text: str) -> None:
    assert humanize(reason) == text


@pytest.mark.parametrize(
    ("reason", "message", "text"),
    [("IsA", "b", "b"), ("IsA", "", "Is a"), ("", "b", "b")],
)
def test_a_line_shows_the_message_or_the_reason(reason: str, message: str, text: str) -> None:
    assert f"<bdi>{text}</bdi>" in message_html(reason, message)


@pytest.mark.parametrize(
    ("reason", "title"),
    [("PodStartupFailed", "Pod startup failed (PodStartupFailed): a"), ("Stopped", "Stopped: a")],
)
def test_the_tooltip_of_a_message_has_title_and_code(reason: str, title: str) -> None:
    assert f'title="{title}"' in message_html(reason, "a")


def test_without_reason_and_message_the_line_is_empty() -> None:
    assert message_html("", "") == ""


@pytest.mark.parametrize(
    ("message", "condensed"),
    [
        ("Pod unit-a-6d9c-x2: container runtime-worker: ErrImagePull: no", "ErrImagePull: no"),
        ("Pod unit-a-6d9c-x2: Evicted", "Evicted"),
        ("No node for the pod: 0/3 nodes", "No node for the pod: 0/3 nodes"),
        ("Pod: container x: Pod a: b", "Pod: container x: Pod a: b"),
        ("", ""),
    ],
)
def test_a_condensed_message_has_no_pod_prefix(message: str, condensed: str) -> None:
    assert condense(message) == condensed


def test_a_condensed_pull_failure_has_image_and_reason() -> None:
    image = "registry.example.invalid/team/llm:2.1"
    long_message = (
        f"Pod unit-a-1: container runtime-worker: ErrImagePull: failed to pull and unpack image"
        f' "{image}": failed to resolve reference "{image}": failed to do request: Head'
        ' "https://registry.example.invalid/v2/team/llm/manifests/2.1": dial tcp: lookup'
        " registry.example.invalid: no such host"
    )

    words_ = condense(long_message)

    assert words_.startswith(f"ErrImagePull: {image}: dial tcp: lookup")
    assert condense("ErrImagePull: manifest unknown") == "ErrImagePull: manifest unknown"


def test_a_long_operation_id_keeps_its_end_and_has_a_tooltip() -> None:
    key = f"admin-{'7' * 32}-5995"

    assert operation_id_html("op-1") == "op-1"
    assert operation_id_html(key) == f'<span title="{key}">admin-7…77777-5995</span>'
    assert "<b>" not in operation_id_html("<b>")
