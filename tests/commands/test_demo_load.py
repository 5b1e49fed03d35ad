"""Demo rows: many, marked, without effect, deletable, and only in development mode."""

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from gpuplatform.dev import demo_rows
from gpuplatform.operations.models import Operation
from inventory.models import GpuSpec, StockPool
from tests.factories.admin_rows import Rows
from tests.factories.unit_rows import unit_row
from units.models import GpuUnit, UnitHistory

MODELS = (Operation, StockPool, GpuUnit, UnitHistory, GpuSpec)


@pytest.fixture
def development(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the database of the tests appear as one of a data directory."""
    settings.GPUPLATFORM_DEV = True
    settings.GPUPLATFORM_DATA = str(tmp_path)
    # VACUUM is not allowed in the transaction of a test.
    monkeypatch.setattr(demo_rows, "_analyze", lambda: None)
    password = str(settings.DATABASES["default"]["PASSWORD"])
    (tmp_path / "postgres-password").write_text(f"{password}\n")
    return tmp_path


def load(number: int) -> str:
    out = StringIO()
    call_command("demo_load", number, stdout=out)
    return out.getvalue()


def counts() -> list[int]:
    return [model._default_manager.count() for model in MODELS]


@pytest.mark.django_db
def test_rows_of_each_kind_are_added_and_removed_and_others_stay(
    development: Path, rows: Any
) -> None:
    rows.pool()
    unit_row()
    before = counts()

    load(40)
    loaded = counts()
    load(0)

    added = [there - was for there, was in zip(loaded, before, strict=True)]
    assert added == [40, 40, 80, 40, demo_rows.SPECS]
    assert counts() == before


@pytest.mark.django_db
def test_loading_again_replaces_the_rows_of_before(development: Path) -> None:
    load(40)
    load(20)

    assert Operation.objects.count() == 20


@pytest.mark.django_db
def test_no_row_is_due_claimable_by_a_top_up_or_older_than_a_list(development: Path) -> None:
    load(40)

    for model in (StockPool, GpuUnit):
        assert not model.objects.exclude(due_at=None).exists()
        assert not model.objects.exclude(resource_version=demo_rows.NEWER_THAN_ANY_LIST).exists()
    assert not Operation.objects.exclude(due_at=None).exists()
    assert not GpuSpec.objects.exclude(warm_target=0).exists()


@pytest.mark.django_db
@pytest.mark.parametrize("fault", ["not development", "another database", "no directory"])
def test_any_other_database_is_refused(development: Path, settings: Settings, fault: str) -> None:
    match fault:
        case "not development":
            settings.GPUPLATFORM_DEV = False
        case "another database":
            (development / "postgres-password").write_text("of another server")
        case _:
            (development / "postgres-password").unlink()

    with pytest.raises(CommandError):
        load(40)

    assert not Operation.objects.exists()


@pytest.fixture
def rows(db: None) -> Rows:
    return Rows()
