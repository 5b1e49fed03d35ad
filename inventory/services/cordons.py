"""Accepts requests to cordon and uncordon nodes."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from gpuplatform.operations.models import Operation
from gpuplatform.operations.services import Accepted, Request, operation_accept
from gpuplatform.tenancy.models import Tenant
from inventory.models import NodeDrain
from inventory.selectors import node_present

NODE_KIND: Final = "Node"
"""The Kubernetes kind of the objects of these operations."""


class NodeOperation(StrEnum):
    """The kinds of operation on nodes."""

    CORDON = "node.cordon"
    UNCORDON = "node.uncordon"
    DRAIN = "node.drain"
    CANCEL_DRAIN = "node.cancel-drain"


def node_cordon(*, tenant: Tenant, name: str, operation_id: str) -> Accepted:
    """Accept a request to cordon a node. Its pods keep running, and its stock is withheld.

    Raises:
        NotFound: If the node does not exist.
        OperationConflict: If the operationID belongs to another request.
    """
    request = node_request(tenant, NodeOperation.CORDON, name, operation_id)
    return operation_accept(request, prepare=lambda _: node_present(name).pk)


def node_uncordon(*, tenant: Tenant, name: str, operation_id: str) -> Accepted:
    """Accept a request to uncordon a node, so that pods are scheduled on it again.

    It ends the drain of the node.

    Raises:
        NotFound: If the node does not exist.
        OperationConflict: If the operationID belongs to another request.
    """

    def prepare(_: Operation) -> int:
        node = node_present(name)
        drain_end(name)
        return node.pk

    request = node_request(tenant, NodeOperation.UNCORDON, name, operation_id)
    return operation_accept(request, prepare=prepare)


def drain_end(name: str) -> bool:
    """End the drain of a node, and return whether one was in progress."""
    return bool(NodeDrain.objects.filter(node=name).delete()[0])


def node_request(
    tenant: Tenant,
    kind: NodeOperation,
    name: str,
    operation_id: str,
    payload: Mapping[str, Any] | None = None,
) -> Request:
    """Return a request about a node, which waits for earlier requests about it."""
    return Request(tenant, operation_id, kind, NODE_KIND, "", name, payload=payload or {})
