"""The confirmation page before rows are deleted."""

import pytest
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.models import Group, User
from django.db.models import Model
from django.test import Client
from django.urls import reverse
from django_celery_beat.models import IntervalSchedule, PeriodicTask

from tests.factories.admin_steps import Page, numbers

SWEEP = "operations.sweep_operations"

pytestmark = pytest.mark.django_db


@pytest.fixture
def interval() -> IntervalSchedule:
    return IntervalSchedule.objects.create(every=45, period=IntervalSchedule.SECONDS)


@pytest.fixture
def schedule(interval: IntervalSchedule) -> PeriodicTask:
    PeriodicTask.objects.all().delete()
    return PeriodicTask.objects.create(
        name="Sweep", task=SWEEP, interval=interval, description="Claims due rows."
    )


def place(row: Model, page: str) -> str:
    meta = row._meta
    arguments = [row.pk] if page == "delete" else []
    return reverse(f"admin:{meta.app_label}_{meta.model_name}_{page}", args=arguments)


def confirmation(client: Client, row: Model) -> Page:
    return Page(client.get(place(row, "delete")))


def confirmation_of_many(client: Client, *rows: Model) -> Page:
    body = {"action": "delete_selected", "_selected_action": [row.pk for row in rows]}
    return Page(client.post(place(rows[0], "changelist"), body))


def consequence(page: Page) -> str:
    return str(page.context["deletion"]["consequence"])


def test_the_last_schedule_of_a_task_names_the_work_that_stops(
    operator_client: Client, schedule: PeriodicTask
) -> None:
    page = confirmation(operator_client, schedule)

    assert "Sweep" in consequence(page)
    assert page.context["deletion"]["lines"] == [("Sweep", "Claims due rows.")]


def test_a_schedule_whose_task_has_another_schedule_stops_no_work(
    operator_client: Client, schedule: PeriodicTask
) -> None:
    PeriodicTask.objects.create(name="Other", task=SWEEP, interval=schedule.interval)

    assert "Sweep" not in consequence(confirmation(operator_client, schedule))


def test_a_disabled_schedule_does_not_replace_another(
    operator_client: Client, schedule: PeriodicTask
) -> None:
    PeriodicTask.objects.create(
        name="Other", task=SWEEP, interval=schedule.interval, enabled=False
    )

    assert "Sweep" in consequence(confirmation(operator_client, schedule))


def test_an_interval_in_use_cannot_be_deleted(
    operator_client: Client, interval: IntervalSchedule, schedule: PeriodicTask
) -> None:
    pages = [
        confirmation(operator_client, interval),
        confirmation_of_many(operator_client, interval),
    ]
    operator_client.post(place(interval, "delete"), {"post": "yes"})

    assert [page.context["protected"] for page in pages] == [["Sweep"]] * 2
    assert not any('<button type="submit" class="button final">' in page for page in pages)
    assert PeriodicTask.objects.get() == schedule
    schedule.delete()
    operator_client.post(place(interval, "delete"), {"post": "yes"})
    assert not IntervalSchedule.objects.filter(pk=interval.pk).exists()


def test_several_rows_are_deleted_after_one_confirmation(
    operator_client: Client, schedule: PeriodicTask
) -> None:
    other = PeriodicTask.objects.create(name="Other", task=SWEEP, interval=schedule.interval)

    page = confirmation_of_many(operator_client, schedule, other)
    assert [name for name, _ in page.context["deletion"]["lines"]] == ["Other", "Sweep"]
    assert PeriodicTask.objects.count() == 2

    sent = {"action": "delete_selected", "_selected_action": [schedule.pk, other.pk], "post": "y"}
    operator_client.post(place(schedule, "changelist"), sent)
    assert not PeriodicTask.objects.exists()


def test_the_log_entries_of_a_person_are_counted(
    operator_client: Client, schedule: PeriodicTask
) -> None:
    person = User.objects.create_user("anna")
    LogEntry.objects.log_actions(person.pk, [schedule], CHANGE, "Run now.")

    assert numbers(consequence(confirmation(operator_client, person))) == [1]


def test_the_members_of_a_group_are_counted(operator_client: Client) -> None:
    group = Group.objects.get(name="viewer")
    User.objects.create_user("anna").groups.add(group)

    assert numbers(consequence(confirmation(operator_client, group))) == [1]


def test_confirming_deletes_one(operator_client: Client, schedule: PeriodicTask) -> None:
    operator_client.post(place(schedule, "delete"), {"post": "yes"})

    assert not PeriodicTask.objects.exists()
