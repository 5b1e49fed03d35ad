"""`recover` and functions: no number is given again that a worker or a message still has."""

from collections.abc import Iterator
from io import StringIO

import pytest
from django.core.management import call_command
from django.db import connection

from gpuplatform.kube.kinds import GPU_UNIT
from serverless.models import Function, Invocation
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
    """A rollback does not bring numbers back: let other tests go on with small ones."""
    newest = max(accept(function_row()).pk, function_row().pk)
    yield
    number_from(newest)


def recover(*arguments: str) -> str:
    output = StringIO()
    call_command("recover", *arguments, stdout=output)
    return output.getvalue()


def worker_in_cluster(cluster: FakeCluster, function: int) -> str:
    """Put a worker's unit into the cluster, as its create left it."""
    name = f"fn-{function}-1-0123abcd"
    resource = {
        "apiVersion": GPU_UNIT.api_version,
        "kind": GPU_UNIT.kind,
        "metadata": {"name": name, "namespace": "runtime-instance"},
        "spec": {"specName": "g1.1", "serverless": {"functionID": function}},
    }
    cluster.create(GPU_UNIT, resource)
    return name


def restore_an_empty_database() -> None:
    """Forget all functions and invocations, and which numbers they had."""
    Invocation.objects.all().delete()
    Function.objects.all().delete()
    number_from(1)


def test_no_number_is_given_again(cluster: FakeCluster) -> None:
    lost = accept(function_row())
    worker = worker_in_cluster(cluster, lost.function_id)
    restore_an_empty_database()

    said = recover()

    assert f"runtime-instance/{worker}: a worker of a function that is lost" in said
    again = accept(function_row())
    assert again.function_id > 10**12
    assert again.pk > 10**12


def test_a_second_recovery_counts_on(cluster: FakeCluster) -> None:
    recover()
    first = function_row()

    recover()

    assert function_row().pk > first.pk


def test_a_worker_of_a_function_that_is_there_is_no_news(cluster: FakeCluster) -> None:
    worker = worker_in_cluster(cluster, function_row().pk)

    assert f"{worker}: a worker of a function" not in recover("--dry-run")
