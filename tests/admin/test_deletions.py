"""Before something is deleted by a form, the page says what stops and what goes with it."""

import pytest
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.models import Group, User
from django.db.models import Model
from django.test import Client
from django.urls import reverse
from django_celery_beat.models import IntervalSchedule, PeriodicTask

SWEEP = "operations.sweep_operations"

pytestmark = pytest.mark.django_db


@pytest.fixture
def interval() -> IntervalSchedule:
    return IntervalSchedule.objects.create(every=45, period=IntervalSchedule.SECONDS)


@pytest.fixture
def schedule(interval: IntervalSchedule) -> PeriodicTask:
    PeriodicTask.objects.all().delete()
    text = "Takes up what is due."
    return PeriodicTask.objects.create(
        name="Sweep", task=SWEEP, interval=interval, description=text
    )


def place(row: Model, page: str) -> str:
    meta = row._meta
    arguments = [row.pk] if page == "delete" else []
    return reverse(f"admin:{meta.app_label}_{meta.model_name}_{page}", args=arguments)


def asked(client: Client, row: Model) -> str:
    return client.get(place(row, "delete")).content.decode()


def asked_of_many(client: Client, *rows: Model) -> str:
    chosen = {"action": "delete_selected", "_selected_action": [row.pk for row in rows]}
    return client.post(place(rows[0], "changelist"), chosen).content.decode()


def test_the_last_schedule_of_a_task_says_which_work_stops(
    operator_client: Client, schedule: PeriodicTask
) -> None:
    page = asked(operator_client, schedule)

    assert "Nothing else does the work of Sweep: it stops." in page
    assert "does not come back by itself" in page
    assert "Takes up what is due." in page
    assert "Are you sure" not in page


def test_a_schedule_whose_task_another_one_sends_stops_no_work(
    operator_client: Client, schedule: PeriodicTask
) -> None:
    PeriodicTask.objects.create(name="Too", task=SWEEP, interval=schedule.interval)

    page = asked(operator_client, schedule)

    assert "It is sent no more." in page
    assert "Nothing else" not in page


def test_a_disabled_schedule_keeps_no_work_going(
    operator_client: Client, schedule: PeriodicTask
) -> None:
    PeriodicTask.objects.create(name="Too", task=SWEEP, interval=schedule.interval, enabled=False)

    assert "Nothing else does the work of Sweep" in asked(operator_client, schedule)


def test_an_interval_that_schedules_share_cannot_be_deleted_and_says_by_whom(
    operator_client: Client, interval: IntervalSchedule, schedule: PeriodicTask
) -> None:
    page = asked(operator_client, interval)
    many = asked_of_many(operator_client, interval)
    operator_client.post(place(interval, "delete"), {"post": "yes"})

    for one in (page, many):
        assert "It is still needed by: Sweep." in one
        assert '<button type="submit" class="button final">' not in one
    assert PeriodicTask.objects.get() == schedule
    schedule.delete()
    operator_client.post(place(interval, "delete"), {"post": "yes"})
    assert not IntervalSchedule.objects.filter(pk=interval.pk).exists()


def test_several_are_deleted_after_one_question(
    operator_client: Client, schedule: PeriodicTask
) -> None:
    other = PeriodicTask.objects.create(name="Too", task=SWEEP, interval=schedule.interval)

    page = asked_of_many(operator_client, schedule, other)
    assert "They are sent no more." in page
    assert PeriodicTask.objects.count() == 2

    sent = {"action": "delete_selected", "_selected_action": [schedule.pk, other.pk], "post": "y"}
    operator_client.post(place(schedule, "changelist"), sent)
    assert not PeriodicTask.objects.exists()


def test_a_persons_lines_of_the_log_are_counted(
    operator_client: Client, schedule: PeriodicTask
) -> None:
    person = User.objects.create_user("anna")
    LogEntry.objects.log_actions(person.pk, [schedule], CHANGE, "Sent by hand.")

    page = asked(operator_client, person)

    assert "deleted from the admin log, too: 1 line." in page
    assert "Take &#x27;May log in&#x27; away instead" in page


def test_a_group_says_who_loses_rights(operator_client: Client) -> None:
    group = Group.objects.get(name="viewer")
    User.objects.create_user("anna").groups.add(group)

    assert "1 person loses the rights that come with it" in asked(operator_client, group)


def test_confirming_deletes_one(operator_client: Client, schedule: PeriodicTask) -> None:
    operator_client.post(place(schedule, "delete"), {"post": "yes"})

    assert not PeriodicTask.objects.exists()
