"""Periodic tasks in the admin: changes, scheduled runs and immediate runs."""

import math
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.urls import reverse
from django_celery_beat.models import (
    CrontabSchedule,
    IntervalSchedule,
    PeriodicTask,
    PeriodicTasks,
)

from gpuplatform import queueing
from gpuplatform.adminkit.schedules.runs import next_run, run_badge
from gpuplatform.clock import now
from gpuplatform.queueing import Queue
from gpuplatform.samples.models import TaskRun
from gpuplatform.samples.services import run_began
from tests.fakes.installed import Broker, broker

__all__ = ["broker"]

pytestmark = pytest.mark.django_db

LIST = reverse("admin:django_celery_beat_periodictask_changelist")


@pytest.fixture
def interval() -> IntervalSchedule:
    return IntervalSchedule.objects.create(every=45, period=IntervalSchedule.SECONDS)


@pytest.fixture
def schedule(interval: IntervalSchedule) -> PeriodicTask:
    PeriodicTask.objects.all().delete()
    return PeriodicTask.objects.create(
        name="a schedule", task="operations.sweep_operations", interval=interval
    )


def _form(schedule: PeriodicTask, **changes: Any) -> dict[str, Any]:
    return {
        "name": schedule.name,
        "task": schedule.task,
        "enabled": "on",
        "interval": schedule.interval_id,
        "args": "[]",
        "kwargs": "{}",
        **changes,
    }


def _errors(client: Client, schedule: PeriodicTask, **changes: Any) -> list[str]:
    """Submit changes; return the names of the fields with errors."""
    url = reverse("admin:django_celery_beat_periodictask_change", args=[schedule.pk])
    response = client.post(url, _form(schedule, **changes))
    return [] if response.status_code == 302 else list(response.context["adminform"].form.errors)


def _run(number: str, seconds: float, message: str) -> None:
    started_at = now() - timedelta(minutes=10) + timedelta(minutes=TaskRun.objects.count())
    TaskRun.objects.create(
        task_id=number,
        schedule="a schedule",
        started_at=started_at,
        ended_at=started_at + timedelta(seconds=seconds),
        outcome="Failed" if message else "Succeeded",
        message=message,
    )


def test_list_shows_task_schedule_state_and_runs(
    operator_client: Client, schedule: PeriodicTask
) -> None:
    page = operator_client.get(LIST).content.decode()

    for text in ("a schedule", "operations.sweep_operations", "every 45 seconds", "Enabled"):
        assert text in page


def test_interval_can_be_changed(operator_client: Client, schedule: PeriodicTask) -> None:
    other = IntervalSchedule.objects.create(every=7, period=IntervalSchedule.MINUTES)

    assert _errors(operator_client, schedule, interval=other.pk) == []

    schedule.refresh_from_db()
    assert schedule.interval == other
    assert PeriodicTasks.last_change() is not None


@pytest.mark.parametrize(
    ("every", "period", "is_rejected"),
    [(4, "seconds", True), (4_999_999, "microseconds", True), (5, "seconds", False)],
)
def test_an_interval_below_five_seconds_is_rejected(
    operator_client: Client, schedule: PeriodicTask, every: int, period: str, *, is_rejected: bool
) -> None:
    before = schedule.interval
    other = IntervalSchedule.objects.create(every=every, period=period)

    errors = _errors(operator_client, schedule, interval=other.pk)

    schedule.refresh_from_db()
    assert errors == (["interval"] if is_rejected else [])
    assert schedule.interval == (before if is_rejected else other)


def test_a_shared_interval_cannot_be_shortened_below_that(
    operator_client: Client, interval: IntervalSchedule
) -> None:
    url = reverse("admin:django_celery_beat_intervalschedule_change", args=[interval.pk])

    response = operator_client.post(url, {"every": 2, "period": "seconds"})

    interval.refresh_from_db()
    assert list(response.context["adminform"].form.errors) == ["every"]
    assert interval.every == 45


def test_an_unknown_task_is_kept_until_it_is_changed(
    operator_client: Client, interval: IntervalSchedule
) -> None:
    old = PeriodicTask.objects.create(name="old", task="gone.task", interval=interval)

    assert _errors(operator_client, old, description="kept") == []

    old.refresh_from_db()
    assert (old.task, old.description) == ("gone.task", "kept")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"args": "{"}, "args"),
        ({"args": '{"a": 1}'}, "args"),
        ({"kwargs": "[1]"}, "kwargs"),
        ({"task": "no.such.task"}, "task"),
        ({"interval": ""}, "interval"),
        ({"name": ""}, "name"),
    ],
    ids=["no JSON", "object", "list", "unknown task", "no time", "no name"],
)
def test_an_invalid_value_is_an_error_of_its_field(
    operator_client: Client, schedule: PeriodicTask, changes: dict[str, str], field: str
) -> None:
    assert _errors(operator_client, schedule, **changes) == [field]


def test_interval_and_crontab_together_are_rejected(
    operator_client: Client, schedule: PeriodicTask
) -> None:
    crontab = CrontabSchedule.objects.create(minute="15", hour="3")

    assert _errors(operator_client, schedule, crontab=crontab.pk) == ["interval"]


def test_the_list_shows_time_duration_and_result_of_the_last_runs(
    operator_client: Client, schedule: PeriodicTask
) -> None:
    for number, seconds, message in ((1, 0.08, ""), (2, 2.5, "<b>disk full</b>")):
        _run(f"run-{number}", seconds, message)

    page = operator_client.get(LIST).content.decode()

    assert '<td class="field-duration">2.5 s</td>' in page
    assert "&lt;b&gt;disk full&lt;/b&gt;" in page
    assert 'aria-label="2 runs, 1 failed, 80 ms to 2.5 s"' in page
    assert page.count("<rect class=") >= 2


def test_the_page_of_a_task_lists_its_runs(
    operator_client: Client, schedule: PeriodicTask
) -> None:
    _run("run-1", 0.08, "disk full")
    run_began("run-2", schedule=schedule.name)
    url = reverse("admin:django_celery_beat_periodictask_change", args=[schedule.pk])

    page = operator_client.get(url).content.decode()

    for text in ("80 ms", "disk full", "Failed", "Running"):
        assert text in page


def test_a_run_without_a_result_does_not_run_forever(
    operator_client: Client, schedule: PeriodicTask
) -> None:
    run_began("run-1", schedule=schedule.name)
    TaskRun.objects.update(started_at=now() - timedelta(minutes=10))

    run = TaskRun.objects.get()
    assert "phase waiting" in run_badge(run)


def test_run_now_sends_the_task_and_is_logged(
    operator_client: Client, schedule: PeriodicTask, broker: Broker
) -> None:
    PeriodicTask.objects.filter(pk=schedule.pk).update(enabled=False, args="[1]")

    response = operator_client.post(
        LIST, {"action": "run_now", "_selected_action": schedule.pk}, follow=True
    )

    assert [message.level_tag for message in response.context["messages"]] == ["success"]
    assert broker.hints(Queue.PERIODIC) == 1
    assert LogEntry.objects.get().object_id == str(schedule.pk)


def test_run_now_of_a_page_redirects_to_it(
    operator_client: Client, schedule: PeriodicTask, broker: Broker
) -> None:
    place = reverse("admin:django_celery_beat_periodictask_change", args=[schedule.pk])
    text = operator_client.get(place).content.decode()
    (target,) = re.findall(r'<form method="post" action="([^"]+)">[^§]*?>Run now<', text)
    body = {"action": "run_now", "_selected_action": schedule.pk, "from_page": "1"}

    response = operator_client.post(target, body)

    assert (target, response.headers["Location"]) == (LIST, place)


NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("changes", "due"),
    [
        ({"last_run_at": NOON - timedelta(seconds=10)}, NOON + timedelta(seconds=35)),
        ({"last_run_at": NOON - timedelta(seconds=100)}, NOON + timedelta(seconds=35)),
        ({"last_run_at": NOON}, NOON + timedelta(seconds=45)),
        ({"date_changed": NOON - timedelta(seconds=5)}, NOON + timedelta(seconds=40)),
        ({"start_time": NOON + timedelta(hours=1)}, NOON + timedelta(hours=1)),
        ({"enabled": False}, None),
        (
            {"interval": None, "crontab": CrontabSchedule(minute="30", hour="13")},
            NOON + timedelta(hours=1, minutes=30),
        ),
    ],
    ids=[
        "after the last one",
        "not stored by beat yet",
        "now",
        "never sent",
        "not before",
        "disabled",
        "crontab",
    ],
)
def test_next_run(schedule: PeriodicTask, changes: dict[str, Any], due: datetime | None) -> None:
    for name, value in changes.items():
        setattr(schedule, name, value)

    assert next_run(schedule, NOON) == due


def test_the_list_shows_the_next_run(operator_client: Client, schedule: PeriodicTask) -> None:
    PeriodicTask.objects.filter(pk=schedule.pk).update(last_run_at=now() - timedelta(seconds=5))

    page = operator_client.get(LIST, {"q": "a schedule"}).content.decode()

    assert re.search(r'class="field-next"><time[^>]*>in (39|40) s<', page)


def test_run_now_without_a_broker_is_an_error(
    operator_client: Client, schedule: PeriodicTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queueing._Pause, "until", math.inf)

    response = operator_client.post(
        LIST, {"action": "run_now", "_selected_action": schedule.pk}, follow=True
    )

    assert [message.level_tag for message in response.context["messages"]] == ["error"]
    assert not LogEntry.objects.exists()


@pytest.mark.parametrize(("action", "enabled"), [("disable", False), ("enable", True)])
def test_tasks_are_switched_and_beat_reloads(
    operator_client: Client, schedule: PeriodicTask, action: str, enabled: bool
) -> None:
    PeriodicTask.objects.filter(pk=schedule.pk).update(enabled=not enabled)
    before = PeriodicTasks.last_change()

    body = {"action": action, "_selected_action": schedule.pk}
    operator_client.post(LIST, body)

    schedule.refresh_from_db()
    after = PeriodicTasks.last_change()
    assert schedule.enabled is enabled
    assert after is not None
    assert before is None or after > before


def test_the_deletion_of_an_interval_names_its_tasks(
    operator_client: Client, schedule: PeriodicTask, interval: IntervalSchedule
) -> None:
    url = reverse("admin:django_celery_beat_intervalschedule_delete", args=[interval.pk])

    assert "a schedule" in operator_client.get(url).content.decode()


def test_unused_kinds_of_schedule_have_no_page(operator_client: Client) -> None:
    page = operator_client.get(reverse("admin:index")).content.decode()

    assert "solarschedule" not in page
    assert "clockedschedule" not in page
