"""`manage.py spec_create`: output and exit codes."""

from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from gpuplatform.operations.models import Operation
from inventory.models import GpuSpec
from tests.factories.node_rows import node_row

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("broker", "cluster")]


def _run(*arguments: str) -> str:
    output = StringIO()
    call_command("spec_create", *arguments, stdout=output)
    return output.getvalue()


def test_a_repeated_command_is_accepted_once() -> None:
    arguments = ("h100-2g", "--gpu", "2", "--memory", "64Gi", "--warm-target", "3")

    first, again = (_run(*arguments, "--operation-id", "spec-1") for _ in range(2))

    assert first == again
    row = GpuSpec.objects.get()
    assert (row.name, row.gpu, row.memory, row.warm_target) == ("h100-2g", 2, "64Gi", 3)
    assert Operation.objects.get().operation_id == "spec-1"


def test_it_prints_the_products_that_a_unit_can_get() -> None:
    unknown = _run("a", "--gpu", "1", "--operation-id", "a")
    for name in ("H100", "A100"):
        node_row(name.lower(), product=name)

    outputs = [
        unknown,
        _run("b", "--gpu", "1", "--operation-id", "b"),
        _run("c", "--gpu", "1", "--product", "H100", "--operation-id", "c"),
        _run("d", "--gpu", "0", "--operation-id", "d"),
    ]

    found = [one.strip().rpartition(": ")[2] for one in outputs]
    assert found == ["unknown", "A100 or H100", "H100", "none"]


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (["x"], "--gpu"),
        (["x", "--gpu", "-1"], "gpu"),
        (["x", "--gpu", "1", "--memory", "much"], "memory"),
        (["G 1", "--gpu", "1"], "name"),
        (["x", "--gpu", "1", "--resource-name", "gpu"], "resourceName"),
        (["x", "--gpu", "1", "--operation-id", ""], "operationID"),
    ],
)
def test_bad_input_names_the_field_and_leaves_nothing(arguments: list[str], field: str) -> None:
    with pytest.raises(CommandError, match=field):
        _run(*arguments)

    assert not Operation.objects.exists()
    assert not GpuSpec.objects.exists()


def test_a_name_in_use_is_an_error() -> None:
    _run("x", "--gpu", "1")

    with pytest.raises(CommandError, match="'x'"):
        _run("x", "--gpu", "1")
