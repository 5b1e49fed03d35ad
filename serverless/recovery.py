"""What a restored database must not do: give a number again that a worker or a message still has.

Called by `manage.py recover` only, while no process of the platform runs. Functions and
invocations that were made after the back-up are lost; their workers, credentials and messages are
not, and go by number.
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
    """Number on from where no database was; yield a line for each worker without a function.

    Raises:
        ClusterError: the cluster could not be read; nothing was changed.
    """
    live = set(Function.objects.filter(deleted_at__isnull=True).values_list("pk", flat=True))
    for unit in cluster.list(GPU_UNIT).items:
        number = function_of(unit["metadata"]["name"])
        if number and number not in live and field(unit, "spec", "serverless"):
            yield f"{full_name(unit)}: a worker of a function that is lost; it will be stopped"
    if not dry_run:
        _number_on()


def _number_on() -> None:
    """Continue both sequences at the milliseconds of the clock.

    Nothing is made a thousand times a second for years, so that these are above all that were
    given before, and above those that a later recovery starts from.
    """
    now = int(clock.now().timestamp() * 1000)
    for model in (Function, Invocation):
        newest = model._default_manager.aggregate(newest=Max("pk"))["newest"] or 0  # noqa: SLF001 - Django's public name
        table = model._meta.db_table  # noqa: SLF001 - Django's public name
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT setval(pg_get_serial_sequence(%s, 'id'), %s)", [table, max(now, newest)]
            )
