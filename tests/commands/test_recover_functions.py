"""`recover` and functions: ids of workers and messages are not reused."""

from collections.abc import Iterator
from io import StringIO

import pytest
from django.core.management import call_command
from django.db import connection

from gpuplatform.kube.kinds import GPU_UNIT
from serverless.models import Function, Invocation
from serverless.recovery import recover_functions
from tests.factories.serverless import accept, function_row
from tests.fakes.cluster import FakeCluster

TABLES = ("serverless_function", "serverless_invocation")

pytestmark = pytest.mark.django_db


def number_from(newest: int) -> None:
    with connection.cursor() as cursor:
        for table in TABLES:
            sequence = "SELECT setval(pg_get_serial_sequence(%s, 'id'), %s)"
            cursor.execute(sequence, [table, newest])


@pytest.fixture(autouse=True)
def numbers(db: None, cluster: FakeCluster) -> Iterator[None]:
    """Reset the sequences, which a rollback does not: other tests use small ids."""
    newest = max(accept(function_row()).pk, function_row().pk)
    yield
    number_from(newest)


def recover(*arguments: str) -> str:
    output = StringIO()
    call_command("recover", *arguments, stdout=output)
    return output.getvalue()


def worker_in_cluster(cluster: FakeCluster, function: int) -> str:
    """Create a worker's unit in the cluster."""
    name = f"fn-{function}-1-0123abcd"
    resource = {
        "apiVersion": GPU_UNIT.api_version,
        "kind": GPU_UNIT.kind,
        "metadata": {"name": name, "namespace": "runtime-instance"},
        "spec": {"specName": "g1.1", "serverless": {"functionID": function}},
    }
    cluster.create(GPU_UNIT, resource)
    return name


def reset_database() -> None:
    """Delete all functions and invocations, and reset their sequences."""
    Invocation.objects.all().delete()
    Function.objects.all().delete()
    number_from(1)


def test_ids_are_not_reused(cluster: FakeCluster) -> None:
    lost = accept(function_row())
    worker = worker_in_cluster(cluster, lost.function_id)
    reset_database()

    report = recover()

    assert f"runtime-instance/{worker}" in report
    again = accept(function_row())
    assert again.function_id > 10**12
    assert again.pk > 10**12


def test_second_recovery_continues_ids(cluster: FakeCluster) -> None:
    recover()
    first = function_row()

    recover()

    assert function_row().pk > first.pk


def test_worker_of_existing_function_is_not_reported(cluster: FakeCluster) -> None:
    worker_in_cluster(cluster, function_row().pk)

    assert list(recover_functions(cluster, dry_run=True)) == []
