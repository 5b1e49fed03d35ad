"""Accepts requests to drain nodes, and ends drains.

A drain cordons the node by its operation. Afterwards, `units.drains` moves the stock, and stops
the units if the request requires it. A change of a drain and its end lock the row of the drain.
"""

from collections.abc import Collection
from typing import Final

from django.db import transaction
from django.db.models.functions import Now

from gpuplatform.errors import PhaseConflict
from gpuplatform.operations.models import Operation
from gpuplatform.operations.registry import Done, Failed
from gpuplatform.operations.services import Accepted, operation_accept
from gpuplatform.queueing import Queue, enqueue_after_commit
from gpuplatform.tenancy.models import Tenant
from inventory.models import NodeDrain
from inventory.requests.drains import NodeDrainBody
from inventory.selectors import node_get, node_present
from inventory.services.cordons import NodeOperation, drain_end, node_request

DRAIN_TASK: Final = "units.advance_drain"
"""Name of the task that takes the next steps of a drain.

The task belongs to `units`, which this app must not import. If the message is lost, the sweep of
drains does the same.
"""


def node_drain(*, tenant: Tenant, name: str, body: NodeDrainBody) -> Accepted:
    """Accept a request to drain a node. It replaces a drain of the node that is in progress.

    Raises:
        NotFound: If the node does not exist.
        OperationConflict: If the operationID belongs to another request.
    """

    def prepare(operation: Operation) -> int:
        node = node_present(name)
        NodeDrain.objects.filter(node=name).delete()
        deadline = None if body.notice is None else Now() + body.notice
        NodeDrain.objects.create(node=name, operation=operation, deadline=deadline)
        return node.pk

    request = node_request(
        tenant, NodeOperation.DRAIN, name, body.operation_id, payload=body.payload()
    )
    return operation_accept(request, prepare=prepare)


def node_drain_cancel(*, tenant: Tenant, name: str, operation_id: str) -> Accepted:
    """End the drain of a node. Units that are not being stopped yet keep running.

    The node remains cordoned, and stock that was moved is not moved back. The drain of a deleted
    node with pods can be cancelled, too.

    Raises:
        NotFound: If the node does not exist.
        PhaseConflict: If the node is not being drained.
        OperationConflict: If the operationID belongs to another request.
    """

    def prepare(_: Operation) -> int:
        node = node_get(name)
        if not drain_end(name):
            msg = (
                f"Node '{name}' is not being drained. Cancel a drain only while it is in progress."
            )
            raise PhaseConflict(msg)
        return node.pk

    request = node_request(tenant, NodeOperation.CANCEL_DRAIN, name, operation_id)
    return operation_accept(request, prepare=prepare)


def settle_drain(operation: Operation, outcome: Done | Failed) -> None:
    """Enqueue the drain whose node is cordoned, or end it if the node could not be cordoned."""
    drains = NodeDrain.objects.filter(operation=operation)
    if isinstance(outcome, Failed):
        drains.delete()
        return
    for drain in drains:
        enqueue_after_commit(DRAIN_TASK, drain.pk, queue=Queue.PERIODIC)


def drain_finish(drain: NodeDrain) -> bool:
    """End exactly this drain, and return whether it was in progress."""
    return bool(NodeDrain.objects.filter(pk=drain.pk).delete()[0])


def drain_notified(drain: NodeDrain, uids: Collection[str]) -> None:
    """Record that the units with these UIDs have an Event about the notice."""
    with transaction.atomic():
        for row in NodeDrain.objects.filter(pk=drain.pk).select_for_update():
            known = sorted({*row.notified, *uids})
            NodeDrain.objects.filter(pk=row.pk).update(notified=known)
