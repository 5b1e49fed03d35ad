"""`manage.py tenant_limits`: output, changes and bad input."""

from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from gpuplatform.operations.models import Operation
from gpuplatform.tenancy.models import TenantLimit
from tests.factories.unit_rows import unit_row

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("broker", "cluster")]


def run(*arguments: str) -> list[str]:
    output = StringIO()
    call_command("tenant_limits", "default", *arguments, stdout=output)
    return output.getvalue().splitlines()


def stored() -> dict[str, int]:
    return dict(TenantLimit.objects.values_list("resource", "hard"))


def test_limits_are_replaced_once_and_printed_with_their_use() -> None:
    unit_row(gpus_seen=1, is_suspended=True)
    arguments = ("--set", "gpus=8", "units=2", "--operation-id", "limits-1")

    first, again = (run(*arguments) for _ in range(2))

    assert first == again == ["gpus: 1 of 8 used, 1 being released", "units: 1 of 2 used"]
    assert stored() == {"gpus": 8, "units": 2}
    assert Operation.objects.get().operation_id == "limits-1"
    assert run("--none", "--dry-run") == first
    assert stored() == {"gpus": 8, "units": 2}
    assert len(run("--none")) == 1
    assert stored() == {}


@pytest.mark.parametrize("limit", ["gpus", "gpus=", "gpus=-1", "gpus=x", "gpu=1", "storages=1"])
def test_bad_input_changes_nothing(limit: str) -> None:
    with pytest.raises(CommandError):
        run("--set", "units=1", limit)

    assert stored() == {}
    assert Operation.objects.count() == 0


def test_an_unknown_tenant_is_an_error() -> None:
    with pytest.raises(CommandError):
        call_command("tenant_limits", "nobody", stdout=StringIO())
