import io
from pathlib import Path

import pytest
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.management.base import CommandError
from pytest_django import Settings

from gpuplatform.dev.management.commands.prepare_development import ADMIN
from gpuplatform.locks import Lock
from tests.commands.conftest import Hold


@pytest.fixture(autouse=True)
def data(tmp_path: Path, settings: Settings) -> Path:
    settings.GPUPLATFORM_DATA = tmp_path
    settings.STATIC_ROOT = tmp_path / "static"
    return tmp_path


def prepare() -> str:
    out = io.StringIO()
    call_command("prepare_development", stdout=out)
    return out.getvalue()


@pytest.mark.django_db
def test_the_admin_gets_a_random_password_in_a_private_file(data: Path) -> None:
    output = prepare()

    path = data / "admin-password"
    admin = get_user_model().objects.get(username=ADMIN)
    assert admin.check_password(path.read_text().strip())
    assert admin.is_superuser
    assert path.stat().st_mode & 0o777 == 0o600
    assert str(path) in output


@pytest.mark.django_db
def test_the_second_time_changes_nothing(data: Path) -> None:
    prepare()
    before = (data / "admin-password").read_text()

    output = prepare()

    assert output == ""
    assert (data / "admin-password").read_text() == before


@pytest.mark.django_db
def test_a_lost_password_file_is_recreated(data: Path) -> None:
    prepare()
    (data / "admin-password").unlink()

    prepare()

    password = (data / "admin-password").read_text().strip()
    assert get_user_model().objects.get(username=ADMIN).check_password(password)


@pytest.mark.django_db
def test_another_database_gets_the_password_of_the_file(data: Path) -> None:
    (data / "admin-password").write_text("kept from before\n")

    prepare()

    assert get_user_model().objects.get(username=ADMIN).check_password("kept from before")


@pytest.mark.django_db
def test_outside_development_mode_no_admin_is_created(data: Path, settings: Settings) -> None:
    settings.GPUPLATFORM_DEV = False

    with pytest.raises(CommandError, match="GPUPLATFORM_DEV"):
        prepare()

    assert not get_user_model().objects.exists()
    assert not (data / "admin-password").exists()


def test_one_prepares_while_the_other_waits(hold: Hold, data: Path) -> None:
    with hold(Lock.PREPARATION, prepare):
        assert not (data / "admin-password").exists()

    assert (data / "admin-password").exists()
