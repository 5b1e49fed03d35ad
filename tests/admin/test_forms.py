"""Forms with invalid input display all errors, each next to its field."""

import re

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django_celery_beat.models import CrontabSchedule, IntervalSchedule

from gpuplatform.adminkit.lists.model_admin import REQUIRED
from gpuplatform.adminkit.schedules.forms import MIN_SECONDS
from tests.admin.conftest import PASSWORD
from tests.factories.admin_steps import text_of

CRONTABS = reverse("admin:django_celery_beat_crontabschedule_add")
INTERVALS = reverse("admin:django_celery_beat_intervalschedule_add")
OWN_PASSWORD = reverse("admin:password_change")
KEY = f"admin-{'0' * 32}"

pytestmark = pytest.mark.django_db


def errors_of(client: Client, path: str, **entered: object) -> dict[str, str]:
    """Submit a form; return the errors of its fields."""
    response = client.post(path, entered)
    assert response.status_code == 200, response
    rows = re.split('<div class="form-row', response.content.decode())[1:]
    errors = {}
    for row in rows:
        (name,) = re.findall(r"^[a-z ]* field-(\w+)", row)
        errors[name] = text_of(" ".join(re.findall(r"<li>(.*?)</li>", row)))
    return {name: text for name, text in errors.items() if text}


def test_all_errors_of_a_declared_form_are_shown_at_the_same_time(operator_client: Client) -> None:
    entered = {"name": "Bad_Name!", "replicas": "-2", "memory": "16 gigs", "template": "{no"}

    errors = errors_of(
        operator_client, reverse("admin:inventory_stockpool_add"), key=KEY, **entered
    )

    assert errors.keys() == {"specName", *entered}


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("name", "tenancy_apitoken"),
        ("task", "django_celery_beat_periodictask"),
        ("username", "auth_user"),
        ("name", "auth_group"),
    ],
)
def test_an_empty_field_of_a_django_form_has_the_same_error(
    operator_client: Client, name: str, model: str
) -> None:
    assert errors_of(operator_client, reverse(f"admin:{model}_add"))[name] == REQUIRED


def test_the_button_of_a_form_names_what_it_creates(operator_client: Client) -> None:
    page = operator_client.get(reverse("admin:auth_group_add")).content.decode()

    assert re.search(r'<input type="submit" value="Create group"', page)


def test_invalid_parts_of_a_crontab_are_errors_of_their_fields(operator_client: Client) -> None:
    entered = {"minute": "99", "hour": "x", "day_of_week": "7", "timezone": "UTC"}
    entered |= {"day_of_month": "1-5", "month_of_year": "*"}

    errors = errors_of(operator_client, CRONTABS, **entered)

    assert errors.keys() == {"minute", "hour", "day_of_week"}
    assert not CrontabSchedule.objects.filter(minute="99").exists()


@pytest.mark.parametrize("every", ["0", "4"])
def test_a_short_interval_is_one_error_at_its_number(operator_client: Client, every: str) -> None:
    before = IntervalSchedule.objects.count()

    errors = errors_of(operator_client, INTERVALS, every=every, period="seconds")

    assert errors.keys() == {"every"}
    assert str(MIN_SECONDS) in errors["every"]
    assert IntervalSchedule.objects.count() == before


def test_the_form_of_a_new_interval_does_not_show_its_users(operator_client: Client) -> None:
    page = operator_client.get(INTERVALS).content.decode()

    assert "Used by" not in page
    assert '<option value="minutes" selected>' in page


def test_the_error_of_a_log_in_is_the_same_for_name_and_password(
    client: Client, operator: User
) -> None:
    path = reverse("admin:login")

    responses = [
        client.post(path, {"username": name, "password": "x"}) for name in ("operator", "a")
    ]

    known, unknown = (response.context["form"].non_field_errors() for response in responses)
    assert known == unknown
    assert len(known) == 1


def test_the_own_password_is_required_and_changed(
    operator_client: Client, operator: User, password: str
) -> None:
    operator_client.force_login(operator)
    assert errors_of(operator_client, OWN_PASSWORD)["old_password"] == REQUIRED
    new = {"new_password1": f"{PASSWORD} 2", "new_password2": f"{PASSWORD} 2"}

    response = operator_client.post(OWN_PASSWORD, {"old_password": password, **new}, follow=True)

    assert response.redirect_chain == [(reverse("admin:password_change_done"), 302)]
    operator.refresh_from_db()
    assert operator.check_password(f"{PASSWORD} 2")
