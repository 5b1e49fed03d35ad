"""Recovers functions in a restored database: ids that workers and messages have are not reused.

Called by `manage.py recover` only, while no platform process runs. Functions and invocations that
are newer than the backup are lost; their workers, credentials and messages still exist, and are
identified by id.
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
        ClusterError: the cluster could not be read; nothing was changed.
    """
    live = set(Function.objects.filter(deleted_at__isnull=True).values_list("pk", flat=True))
    for unit in cluster.list(GPU_UNIT).items:
        function = function_of(unit["metadata"]["name"])
        if function and function not in live and field(unit, "spec", "serverless"):
            yield f"{full_name(unit)}: a worker of a lost function; it will be stopped"
    if not dry_run:
        _advance_sequences()


def _advance_sequences() -> None:
    """Set both sequences to the milliseconds of the clock.

    These are above all ids used before, and above those of an earlier recovery, because no
    platform creates a thousand rows a second for years.
    """
    now = int(clock.now().timestamp() * 1000)
    for model in (Function, Invocation):
        newest = model._default_manager.aggregate(newest=Max("pk"))["newest"] or 0  # noqa: SLF001 - Django's public name
        table = model._meta.db_table  # noqa: SLF001 - Django's public name
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT setval(pg_get_serial_sequence(%s, 'id'), %s)", [table, max(now, newest)]
            )
