"""`manage.py tenant_create`, `tenant_suspend`, `tenant_resume` and `tenant_delete`."""

from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from gpuplatform.operations import driver
from gpuplatform.operations.models import Operation
from gpuplatform.tenancy.models import Tenant
from gpuplatform.tenancy.phases import TenantPhase
from tests.factories.unit_rows import unit_row

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("broker", "cluster")]


def run(command: str, *arguments: str) -> str:
    output = StringIO()
    call_command(f"tenant_{command}", *arguments, stdout=output)
    return output.getvalue().strip()


def executed(operation_id: str) -> None:
    driver.run(Operation.objects.get(operation_id=operation_id).pk)


def test_a_tenant_is_created_suspended_resumed_and_deleted() -> None:
    phases = []
    for command in ("create", "suspend", "resume", "delete"):
        assert run(command, "acme", "--operation-id", command) == f"{command}: Pending"
        executed(command)
        phases.append(Tenant.objects.get(name="acme").phase)

    assert phases == [
        *(TenantPhase.ACTIVE, TenantPhase.SUSPENDED),
        *(TenantPhase.ACTIVE, TenantPhase.DELETING),
    ]
    actors = set(Operation.objects.values_list("asked_by", flat=True))
    assert actors == {
        f"manage.py tenant_{one}" for one in ("create", "suspend", "resume", "delete")
    }


def test_a_repeated_command_is_accepted_once() -> None:
    arguments = ("acme", "--weight", "3", "--display-name", "ACME", "--operation-id", "one")

    first, again = (run("create", *arguments) for _ in range(2))

    assert first == again
    row = Tenant.objects.get(name="acme")
    assert (row.weight, row.display_name) == (3, "ACME")


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (("Acme",), "name"),
        (("acme", "--weight", "0"), "weight"),
        (("acme", "--namespace", "default"), "namespace"),
    ],
)
def test_bad_input_names_the_field_and_leaves_nothing(
    arguments: tuple[str, ...], field: str
) -> None:
    with pytest.raises(CommandError, match=field):
        run("create", *arguments)

    assert Tenant.objects.count() == 1


def test_a_tenant_with_objects_is_not_deleted() -> None:
    run("create", "acme", "--operation-id", "create")
    executed("create")
    row = Tenant.objects.get(name="acme")
    unit_row(tenant=row, namespace=row.namespace)

    with pytest.raises(CommandError, match="1 GPU unit"):
        run("delete", "acme")
