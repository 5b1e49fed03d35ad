"""`manage.py seed_stock`: output and exit codes."""

from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from gpuplatform.operations import driver
from gpuplatform.operations.models import Operation
from tests.fakes.cluster import FakeCluster
from units.models import GpuUnit

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("broker", "catalogue", "cluster")]


def _run(*arguments: str) -> str:
    output = StringIO()
    call_command("seed_stock", *arguments, stdout=output)
    return output.getvalue()


def test_a_repeated_command_is_accepted_once() -> None:
    arguments = ("g1.1", "2", "--gpu", "1", "--operation-id", "seed-1")

    first, again = _run(*arguments), _run(*arguments)

    assert first == again == "seed-1: Pending, 0 of 2 created\n"
    assert GpuUnit.objects.count() == 2


def test_it_prints_the_outcome(cluster: FakeCluster) -> None:
    _run("g1.1", "2", "--operation-id", "seed-1")
    driver.run(Operation.objects.get().pk)

    assert _run("g1.1", "2", "--operation-id", "seed-1") == "seed-1: Succeeded, 2 of 2 created\n"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["g1.1", "0"], "replicas"),
        (["G 1", "1"], "specName"),
        (["g9.9", "1"], "specName"),
        (["g1.1", "1", "--gpu", "2"], "gpu"),
        (["g1.1", "1", "--memory", "much"], "memory"),
        (["g1.1", "1", "--operation-id", "a b"], "operationID"),
        (["g1.1", "1", "--operation-id", ""], "operationID"),
        (["g1.1", "1", "--wait", "nan"], "seconds"),
        (["g1.1", "1", "--wait", "-1"], "seconds"),
        (["g1.1", "1", "--wait", "inf"], "seconds"),
    ],
)
def test_bad_input_names_the_field_and_leaves_nothing(arguments: list[str], problem: str) -> None:
    with pytest.raises(CommandError, match=problem) as caught:
        _run(*arguments)

    assert str(caught.value).count(problem) == 1, "the message contains it once"
    assert not Operation.objects.exists()
    assert not GpuUnit.objects.exists()


def test_another_request_under_the_same_id_is_rejected() -> None:
    _run("g1.1", "2", "--operation-id", "seed-1")

    with pytest.raises(CommandError, match="a different request"):
        _run("g1.1", "3", "--operation-id", "seed-1")
