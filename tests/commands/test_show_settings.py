"""`show_settings` prints the effective settings."""

from io import StringIO

from django.core.management import call_command

from gpuplatform.settings.environment import Environment


def test_show_settings_prints_each_with_its_origin_and_no_password() -> None:
    output = StringIO()
    call_command("show_settings", stdout=output)
    lines = output.getvalue().splitlines()

    assert [line.split()[0] for line in lines] == [
        name.upper() for name in Environment.model_fields
    ]
    database = next(line for line in lines if line.startswith("DATABASE_URL"))
    assert "environment" in database
    assert ":********@127.0.0.1" in database
