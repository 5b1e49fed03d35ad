"""Prevents the reuse of ids of functions and invocations in a restored database.

Called only by `manage.py recover`, while no platform process runs. Functions and invocations that
are newer than the backup are lost. Their workers, credentials and messages still exist, and
contain the ids.
"""

from collections.abc import Iterator

from django.db import connection
from django.db.models import Max

from gpuplatform import clock
from gpuplatform.kube.client import Cluster
from gpuplatform.kube.fields import field
from gpuplatform.kube.kinds import GPU_UNIT
from gpuplatform.operations.consistency import full_name
from serverless.core.workers import function_of
from serverless.models import Function, Invocation


def recover_functions(cluster: Cluster, *, dry_run: bool) -> Iterator[str]:
    """Advance the sequences of ids; yield a line for each worker without a function.

    Raises:
        ClusterError: If the cluster cannot be read. Nothing is changed in this case.
    """
    live = set(Function.objects.filter(deleted_at__isnull=True).values_list("pk", flat=True))
    for unit in cluster.list(GPU_UNIT).items:
        function = function_of(unit["metadata"]["name"])
        if function and function not in live and field(unit, "spec", "serverless"):
            yield f"{full_name(unit)}: a worker of a lost function; it will be stopped"
    if not dry_run:
        _advance_sequences()


def _advance_sequences() -> None:
    """Set both sequences to the current time in milliseconds.

    The result is higher than all earlier ids, including ids after an earlier recovery, because a
    platform does not create a thousand rows per second for years.
    """
    now = int(clock.now().timestamp() * 1000)
    for model in (Function, Invocation):
        newest = model._default_manager.aggregate(newest=Max("pk"))["newest"] or 0  # noqa: SLF001 - Django's public name
        table = model._meta.db_table  # noqa: SLF001 - Django's public name
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT setval(pg_get_serial_sequence(%s, 'id'), %s)", [table, max(now, newest)]
            )
