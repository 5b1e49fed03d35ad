"""`manage.py makemigrations`: the schema of a field needs a migration, its texts do not."""

import pytest
from django.core.management import call_command
from django.db.models import Field

from units.models import GpuUnit

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("field", "attribute", "value"),
    [
        pytest.param("message", "help_text", "Another text.", id="help text"),
        pytest.param("message", "_verbose_name", "another name", id="name"),
        pytest.param("phase", "choices", [("Ready", "Another label")], id="labels"),
    ],
)
def test_texts_of_a_field_need_no_migration(
    monkeypatch: pytest.MonkeyPatch, field: str, attribute: str, value: object
) -> None:
    monkeypatch.setattr(GpuUnit._meta.get_field(field), attribute, value)

    call_command("makemigrations", check=True, dry_run=True, verbosity=0)


def test_the_schema_of_a_field_needs_a_migration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GpuUnit._meta.get_field("phase"), "max_length", 999)

    with pytest.raises(SystemExit) as exit_info:
        call_command("makemigrations", check=True, dry_run=True, verbosity=0)

    assert exit_info.value.code == 1


def test_the_command_changes_no_field_after_it_has_run() -> None:
    before = Field.deconstruct

    call_command("makemigrations", check=True, dry_run=True, verbosity=0)

    assert Field.deconstruct is before
