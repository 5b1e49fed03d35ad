"""Forms with bad input: every fault at once, each at its field, in words that people use."""

import re

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django_celery_beat.models import CrontabSchedule, IntervalSchedule

from tests.admin.conftest import PASSWORD
from tests.factories.admin_steps import told

CRONTABS = reverse("admin:django_celery_beat_crontabschedule_add")
INTERVALS = reverse("admin:django_celery_beat_intervalschedule_add")
OWN_PASSWORD = reverse("admin:password_change")
KEY = f"admin-{'0' * 32}"

pytestmark = pytest.mark.django_db


def faults(client: Client, path: str, **entered: object) -> dict[str, str]:
    """Send a form; return what is said at each of its fields."""
    answer = client.post(path, entered)
    assert answer.status_code == 200, answer
    rows = re.split('<div class="form-row', answer.content.decode())[1:]
    said = {}
    for row in rows:
        (name,) = re.findall(r"^[a-z ]* field-(\w+)", row)
        said[name] = told(" ".join(re.findall(r"<li>(.*?)</li>", row)))
    return {name: words for name, words in said.items() if words}


def test_every_fault_of_a_declared_form_is_said_at_once(operator_client: Client) -> None:
    entered = {"name": "Bad_Name!", "replicas": "-2", "memory": "16 gigs", "template": "{no"}

    said = faults(operator_client, reverse("admin:inventory_stockpool_add"), key=KEY, **entered)

    assert said.keys() == {"specName", *entered}
    assert said["specName"] == "Is required."
    assert said["template"].startswith("Must be JSON: line 1")


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("name", "tenancy_apitoken"),
        ("task", "django_celery_beat_periodictask"),
        ("username", "auth_user"),
        ("name", "auth_group"),
    ],
)
def test_an_empty_field_of_djangos_own_forms_says_the_same(
    operator_client: Client, name: str, model: str
) -> None:
    assert faults(operator_client, reverse(f"admin:{model}_add"))[name] == "Is required."


def test_a_form_says_on_its_button_what_it_makes(operator_client: Client) -> None:
    page = operator_client.get(reverse("admin:auth_group_add")).content.decode()

    assert re.search(r'<input type="submit" value="Add group"', page)


def test_what_no_clock_shows_is_said_with_what_may_stand_there(operator_client: Client) -> None:
    entered = {"minute": "99", "hour": "x", "day_of_week": "7", "timezone": "UTC"}
    entered |= {"day_of_month": "1-5", "month_of_year": "*"}

    said = faults(operator_client, CRONTABS, **entered)

    assert said == {
        "minute": "Must be 0 to 59, as 0,30 or */5; * is each one.",
        "hour": "Must be 0 to 23, as 8,20 or */6.",
        "day_of_week": "Must be 0 to 6, as 1-5 or sun: Sunday is 0, Monday is 1.",
    }
    assert not CrontabSchedule.objects.filter(minute="99").exists()


@pytest.mark.parametrize("every", ["0", "4"])
def test_too_short_an_interval_is_said_once_at_its_number(
    operator_client: Client, every: str
) -> None:
    before = IntervalSchedule.objects.count()

    said = faults(operator_client, INTERVALS, every=every, period="seconds")

    assert said == {"every": "Must be 5 seconds or more."}
    assert IntervalSchedule.objects.count() == before


def test_the_form_of_a_new_interval_does_not_say_who_uses_it(operator_client: Client) -> None:
    page = operator_client.get(INTERVALS).content.decode()

    assert "Used by" not in page
    assert '<option value="minutes" selected>' in page


def test_a_wrong_password_is_refused_in_words_that_do_not_say_which_was_wrong(
    client: Client, operator: User
) -> None:
    path = reverse("admin:login")

    for entered in ({"username": "operator", "password": "x"}, {"username": "a", "password": "x"}):
        page = told(client.post(path, entered).content.decode())

        assert "Name or password is wrong, or the account may not see the admin." in page


def test_ones_own_password_is_asked_for_and_changed_in_our_words(
    operator_client: Client, operator: User, password: str
) -> None:
    operator_client.force_login(operator)
    assert faults(operator_client, OWN_PASSWORD)["old_password"] == "Is required."
    new = {"new_password1": f"{PASSWORD} 2", "new_password2": f"{PASSWORD} 2"}

    answer = operator_client.post(OWN_PASSWORD, {"old_password": password, **new}, follow=True)

    assert "Your password is changed" in told(answer.content.decode())
    operator.refresh_from_db()
    assert operator.check_password(f"{PASSWORD} 2")
