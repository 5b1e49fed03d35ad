"""The epoch: the identity of a pair of cluster and database.

Both store the epoch from the first start on, and the cluster stores the id of the newest
operation. Another database has another epoch; a restored one has fewer operations. In both cases
nothing is written until `manage.py recover` has run.
"""

import logging
import threading
import uuid
from collections.abc import Iterable
from typing import Final

from django.conf import settings
from django.db import connection

from gpuplatform.errors import OperatorUnavailable
from gpuplatform.kube.client import Cluster
from gpuplatform.kube.errors import ClusterConflict, ClusterError
from gpuplatform.kube.kinds import CONFIG_MAP, EPOCH_CONFIG_MAP, Manifest
from gpuplatform.kube.modes import get_cluster
from gpuplatform.process_local import ProcessLocal
from gpuplatform.reconciliation import gate
from gpuplatform.reconciliation.gate import cluster_state
from gpuplatform.reconciliation.models import ClusterState

logger = logging.getLogger(__name__)

_MAX_UNRECORDED: Final = 1_000_000
"""Maximum number of operations between two updates of the ConfigMap. A higher id is ignored."""

_COMPARED: Final = ProcessLocal(threading.Event)
"""Set after this process has compared the epochs successfully."""


def matches() -> bool:
    """Return whether the epochs match, so that this process may write.

    A process compares the epochs until they match once; the controller compares them periodically.
    Call this function only if the gate is open. The gate is closed while the epochs differ.
    """
    if is_compared():
        return True
    try:
        difference = compare(get_cluster())
    except OperatorUnavailable:
        return False
    except ClusterError as error:
        if gate.is_unreachable(error):
            gate.close(error)
        logger.warning("the epochs of cluster and database could not be compared: %s", error)
        return False
    if not difference:
        _COMPARED.get().set()
    return not difference


def is_compared() -> bool:
    """Return whether this process has found that the epochs match. Then the gate is sufficient."""
    return _COMPARED.get().is_set()


def compare(cluster: Cluster) -> str:
    """Compare the epochs of cluster and database, and record a difference.

    Returns:
        A message that describes the difference, or an empty string if the epochs match.

    Raises:
        ClusterError: If the ConfigMap cannot be read.
    """
    state = cluster_state()
    if not state.epoch:
        ClusterState.objects.filter(id=state.id, epoch="").update(epoch=str(uuid.uuid4()))
        state = cluster_state()
    # Read the cluster after the row: another process may be creating the ConfigMap.
    found = _read(cluster)
    if found is None and not state.epoch_is_established:
        found = _create(cluster, state.epoch)
    difference = _difference(state, found)
    if difference != state.recovery_reason:
        ClusterState.objects.filter(id=state.id).update(recovery_reason=difference)
        if difference:
            logger.error("%s Stop the platform and run '%s'.", difference, recovery_command())
        else:
            logger.warning("the epochs of cluster and database match again")
    if not difference and not state.epoch_is_established:
        ClusterState.objects.filter(id=state.id).update(epoch_is_established=True)
    return difference


def recovery_command() -> str:
    """Return the command that imports the state of the cluster into this installation.

    In development mode, the servers run only while `make` runs.
    """
    return "make recover" if settings.GPUPLATFORM_DEV else "manage.py recover"


def advance(cluster: Cluster) -> None:
    """Store the id of the newest operation in the ConfigMap, if it is higher than the stored id.

    Raises:
        ClusterError: If the write fails. The next call repeats it.
    """
    found = _read(cluster)
    newest = newest_operation()
    if found is not None and _operations(found) < newest:
        cluster.merge_patch(
            CONFIG_MAP,
            EPOCH_CONFIG_MAP,
            {
                "metadata": {"resourceVersion": found["metadata"]["resourceVersion"]},
                "data": {"operations": str(newest)},
            },
            namespace=settings.GPUPLATFORM_SYSTEM_NAMESPACE,
        )


def renew(cluster: Cluster, *, applied: Iterable[int] = ()) -> None:
    """Store a new epoch in cluster and database. This is the last step of a recovery.

    The ids of new operations continue after the highest id in the cluster. The ConfigMap can be
    ten seconds old, so `applied` contains the ids from the annotations of the resources.

    Raises:
        ClusterError: If the write fails.
    """
    epoch = str(uuid.uuid4())
    newest = max(newest_operation(), _operations(_read(cluster)))
    newest = max(newest, *(one for one in applied if one < newest + _MAX_UNRECORDED), 0)
    with connection.cursor() as cursor:
        cursor.execute("SELECT setval('operations_operation_id_seq', %s)", [max(newest, 1)])
    cluster.apply(CONFIG_MAP, _config_map(epoch, newest))
    ClusterState.objects.filter(id=cluster_state().id).update(
        epoch=epoch, epoch_is_established=True, recovery_reason=""
    )


def newest_operation() -> int:
    """Return the highest id that this database has assigned to an operation."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT last_value, is_called FROM operations_operation_id_seq")
        last, is_called = cursor.fetchone()
    return int(last) if is_called else 0


def _create(cluster: Cluster, epoch: str) -> Manifest | None:
    """Create the ConfigMap. If another database creates it at the same time, return that one."""
    try:
        return cluster.create(CONFIG_MAP, _config_map(epoch, newest_operation()))
    except ClusterConflict:
        return _read(cluster)


def _read(cluster: Cluster) -> Manifest | None:
    return cluster.get(
        CONFIG_MAP, EPOCH_CONFIG_MAP, namespace=settings.GPUPLATFORM_SYSTEM_NAMESPACE
    )


def _config_map(epoch: str, operations: int) -> Manifest:
    return {
        "apiVersion": CONFIG_MAP.api_version,
        "kind": CONFIG_MAP.kind,
        "metadata": {
            "name": EPOCH_CONFIG_MAP,
            "namespace": settings.GPUPLATFORM_SYSTEM_NAMESPACE,
        },
        "data": {"epoch": epoch, "operations": str(operations)},
    }


def _difference(state: ClusterState, found: Manifest | None) -> str:
    if found is None:
        return "The cluster no longer has the epoch that this database stored in it."
    if (found.get("data") or {}).get("epoch") != state.epoch:
        return "The cluster belongs to another database."
    if _operations(found) > newest_operation():
        return "The database is older than the cluster, because it was restored from a backup."
    return ""


def _operations(found: Manifest | None) -> int:
    text = str(((found or {}).get("data") or {}).get("operations", ""))
    return int(text) if text.isdecimal() and len(text) < 19 else 0
