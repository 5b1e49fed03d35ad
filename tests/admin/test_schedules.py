"""The schedules of the periodic work can be changed, and only sensibly."""

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
from gpuplatform.adminkit.schedules.next_run import next_run
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


def _change(client: Client, schedule: PeriodicTask, **changes: Any) -> str:
    url = reverse("admin:django_celery_beat_periodictask_change", args=[schedule.pk])
    return client.post(url, _form(schedule, **changes), follow=True).content.decode()


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

    _change(operator_client, schedule, interval=other.pk)

    schedule.refresh_from_db()
    assert schedule.interval == other
    assert PeriodicTasks.last_change() is not None


TOO_SHORT = "Must be 5 seconds or more."


@pytest.mark.parametrize(
    ("every", "period", "is_refused"),
    [(4, "seconds", True), (4_999_999, "microseconds", True), (5, "seconds", False)],
)
def test_an_interval_below_five_seconds_is_refused(
    operator_client: Client, schedule: PeriodicTask, every: int, period: str, *, is_refused: bool
) -> None:
    before = schedule.interval
    other = IntervalSchedule.objects.create(every=every, period=period)

    page = _change(operator_client, schedule, interval=other.pk)

    schedule.refresh_from_db()
    assert (TOO_SHORT in page) is is_refused
    assert schedule.interval == (before if is_refused else other)


def test_a_shared_interval_is_not_made_shorter_than_that(
    operator_client: Client, interval: IntervalSchedule
) -> None:
    url = reverse("admin:django_celery_beat_intervalschedule_change", args=[interval.pk])

    page = operator_client.post(url, {"every": 2, "period": "seconds"}).content.decode()

    interval.refresh_from_db()
    assert TOO_SHORT in page
    assert interval.every == 45


def test_task_that_this_release_does_not_know_stays_until_it_is_changed(
    operator_client: Client, interval: IntervalSchedule
) -> None:
    old = PeriodicTask.objects.create(name="old", task="gone.task", interval=interval)

    _change(operator_client, old, description="kept")

    old.refresh_from_db()
    assert (old.task, old.description) == ("gone.task", "kept")


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"args": "{"}, "Must be a JSON list"),
        ({"args": '{"a": 1}'}, "Must be a JSON list"),
        ({"kwargs": "[1]"}, "Must be a JSON object"),
        ({"task": "no.such.task"}, "is not one of the available choices"),
        ({"interval": ""}, "Choose either an interval or a crontab.</li>"),
        ({"name": ""}, "Is required"),
    ],
    ids=["no JSON", "object", "list", "unknown task", "no time", "no name"],
)
def test_wrong_entry_is_refused_with_a_reason(
    operator_client: Client, schedule: PeriodicTask, changes: dict[str, str], complaint: str
) -> None:
    assert complaint in _change(operator_client, schedule, **changes)


def test_interval_and_crontab_at_once_are_refused(
    operator_client: Client, schedule: PeriodicTask
) -> None:
    crontab = CrontabSchedule.objects.create(minute="15", hour="3")

    page = _change(operator_client, schedule, crontab=crontab.pk)

    assert "Choose either an interval or a crontab.</li>" in page


def test_list_shows_when_the_last_runs_were_how_long_they_took_and_how_they_ended(
    operator_client: Client, schedule: PeriodicTask
) -> None:
    for number, seconds, message in ((1, 0.08, ""), (2, 2.5, "<b>disk full</b>")):
        _run(f"run-{number}", seconds, message)

    page = operator_client.get(LIST).content.decode()

    assert '<td class="field-took">2.5 s</td>' in page
    assert "&lt;b&gt;disk full&lt;/b&gt;" in page
    assert 'aria-label="2 runs, 1 of them failed, 80 ms to 2.5 s"' in page
    assert page.count("<rect class=") >= 2


def test_page_of_a_schedule_lists_its_runs(
    operator_client: Client, schedule: PeriodicTask
) -> None:
    _run("run-1", 0.08, "disk full")
    run_began("run-2", schedule=schedule.name)
    url = reverse("admin:django_celery_beat_periodictask_change", args=[schedule.pk])

    page = operator_client.get(url).content.decode()

    for text in ("80 ms", "disk full", "Failed", "Running"):
        assert text in page


def test_run_that_never_ended_does_not_run_for_ever(
    operator_client: Client, schedule: PeriodicTask
) -> None:
    run_began("run-1", schedule=schedule.name)
    TaskRun.objects.update(started_at=now() - timedelta(minutes=10))

    assert "No end seen" in operator_client.get(LIST).content.decode()


def test_run_now_sends_the_schedules_task_and_is_logged(
    operator_client: Client, schedule: PeriodicTask, broker: Broker
) -> None:
    PeriodicTask.objects.filter(pk=schedule.pk).update(enabled=False, args="[1]")

    page = operator_client.post(
        LIST, {"action": "run_now", "_selected_action": schedule.pk}, follow=True
    ).content.decode()

    assert "Periodic task a schedule: sent to a worker." in page
    assert broker.hints(Queue.PERIODIC) == 1
    assert LogEntry.objects.get().change_message == "Sent by hand."


def test_run_now_of_a_page_leads_back_to_it(
    operator_client: Client, schedule: PeriodicTask, broker: Broker
) -> None:
    place = reverse("admin:django_celery_beat_periodictask_change", args=[schedule.pk])
    text = operator_client.get(place).content.decode()
    (target,) = re.findall(r'<form method="post" action="([^"]+)">[^§]*?>Run now<', text)
    body = {"action": "run_now", "_selected_action": schedule.pk, "from_page": "1"}

    answer = operator_client.post(target, body)

    assert (target, answer.headers["Location"]) == (LIST, place)


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
        "that beat has not written down yet",
        "at this moment",
        "never sent",
        "not before",
        "disabled",
        "crontab",
    ],
)
def test_when_a_schedule_is_sent_next(
    schedule: PeriodicTask, changes: dict[str, Any], due: datetime | None
) -> None:
    for name, value in changes.items():
        setattr(schedule, name, value)

    assert next_run(schedule, NOON) == due


def test_the_list_says_when_each_is_sent_next(
    operator_client: Client, schedule: PeriodicTask
) -> None:
    PeriodicTask.objects.filter(pk=schedule.pk).update(last_run_at=now() - timedelta(seconds=5))

    page = operator_client.get(LIST, {"q": "a schedule"}).content.decode()

    assert re.search(r'class="field-next"><time[^>]*>in (39|40) s<', page)


def test_run_now_without_a_broker_says_so(
    operator_client: Client, schedule: PeriodicTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queueing._Pause, "until", math.inf)

    page = operator_client.post(
        LIST, {"action": "run_now", "_selected_action": schedule.pk}, follow=True
    ).content.decode()

    assert "Periodic task a schedule: the broker takes no messages." in page
    assert not LogEntry.objects.exists()


@pytest.mark.parametrize(("action", "enabled"), [("disable", False), ("enable", True)])
def test_many_are_switched_at_once_and_beat_is_told(
    operator_client: Client, schedule: PeriodicTask, action: str, enabled: bool
) -> None:
    PeriodicTask.objects.filter(pk=schedule.pk).update(enabled=not enabled)
    before = PeriodicTasks.last_change()

    body = {"action": action, "_selected_action": schedule.pk}
    page = operator_client.post(LIST, body, follow=True).content.decode()

    schedule.refresh_from_db()
    assert f"{action.capitalize()}d: a schedule." in page
    after = PeriodicTasks.last_change()
    assert schedule.enabled is enabled
    assert after is not None
    assert before is None or after > before


def test_deletion_of_an_interval_names_the_schedules_that_go_with_it(
    operator_client: Client, schedule: PeriodicTask, interval: IntervalSchedule
) -> None:
    url = reverse("admin:django_celery_beat_intervalschedule_delete", args=[interval.pk])

    assert "a schedule" in operator_client.get(url).content.decode()


def test_kinds_of_schedule_that_are_not_used_have_no_page(operator_client: Client) -> None:
    page = operator_client.get(reverse("admin:index")).content.decode()

    assert "solarschedule" not in page
    assert "clockedschedule" not in page
