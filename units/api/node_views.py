"""Views of the routes of nodes."""

from rest_framework.request import Request
from rest_framework.response import Response

from gpuplatform.api.endpoint import Endpoint, Sample
from gpuplatform.api.pagination import mapped, paginate
from gpuplatform.api.views import ApiView
from gpuplatform.errors import NotFound, PhaseConflict
from gpuplatform.operations.api.replies import accepted, accepted_reply
from gpuplatform.tenancy.callers import caller_of
from inventory.requests.drains import NodeDrainBody
from inventory.selectors import node_get, nodes_all
from inventory.services.cordons import NODE_KIND, NodeOperation, node_cordon, node_uncordon
from inventory.services.drains import node_drain, node_drain_cancel
from units.api.nodes import NodeReply, NodesQuery
from units.node_capacity import node_capacities
from units.requests import UnitAction

_TAG = "Stock"
_NODE = (NODE_KIND, "gpu-node-1")
_NODE_SAMPLE = Sample(NodeReply, {"resources": [], "taints": [], "pods": [], "drain": None})


class Nodes(ApiView):
    """The view that lists the nodes."""

    @Endpoint(
        id="listNodes",
        summary="List the nodes of the cluster and the use of their GPUs",
        tag=_TAG,
        query=NodesQuery,
        replies={200: _NODE_SAMPLE},
    )
    def get(self, request: Request, *, query: NodesQuery) -> Response:
        """Return one page of nodes."""
        page = paginate(query.applied_to(nodes_all()), query)
        return Response(mapped(page, [NodeReply.of(one) for one in node_capacities(page.rows)]))


class NodeDetail(ApiView):
    """The view that returns a node."""

    @Endpoint(
        id="getNode",
        summary="Read a node and the use of its GPUs",
        tag=_TAG,
        replies={200: _NODE_SAMPLE},
        errors=[NotFound],
    )
    def get(self, request: Request, *, name: str) -> Response:
        """Return a node and the pods that hold its GPUs."""
        [node] = node_capacities([node_get(name)])
        return Response(NodeReply.of(node))


class NodeCordon(ApiView):
    """The view that cordons a node."""

    @Endpoint(
        id="cordonNode",
        summary="Cordon a node, which withholds its stock",
        tag=_TAG,
        body=UnitAction,
        replies=accepted(NodeOperation.CORDON, *_NODE),
        errors=[NotFound],
    )
    def post(self, request: Request, *, name: str, body: UnitAction) -> Response:
        """Accept a request to cordon the node. Its pods keep running."""
        result = node_cordon(
            tenant=caller_of(request).tenant, name=name, operation_id=body.operation_id
        )
        return accepted_reply(request, result)


class NodeUncordon(ApiView):
    """The view that uncordons a node."""

    @Endpoint(
        id="uncordonNode",
        summary="Uncordon a node",
        tag=_TAG,
        body=UnitAction,
        replies=accepted(NodeOperation.UNCORDON, *_NODE),
        errors=[NotFound],
    )
    def post(self, request: Request, *, name: str, body: UnitAction) -> Response:
        """Accept a request to uncordon the node."""
        result = node_uncordon(
            tenant=caller_of(request).tenant, name=name, operation_id=body.operation_id
        )
        return accepted_reply(request, result)


class NodeDrain(ApiView):
    """The view that drains a node."""

    @Endpoint(
        id="drainNode",
        summary="Drain a node: cordon it, move its stock, and optionally stop its units",
        tag=_TAG,
        body=NodeDrainBody,
        replies=accepted(NodeOperation.DRAIN, *_NODE),
        errors=[NotFound],
    )
    def post(self, request: Request, *, name: str, body: NodeDrainBody) -> Response:
        """Accept a request to drain the node. It replaces a drain in progress."""
        result = node_drain(tenant=caller_of(request).tenant, name=name, body=body)
        return accepted_reply(request, result)


class NodeDrainCancel(ApiView):
    """The view that cancels the drain of a node."""

    @Endpoint(
        id="cancelNodeDrain",
        summary="Cancel the drain of a node, which remains cordoned",
        tag=_TAG,
        body=UnitAction,
        replies=accepted(NodeOperation.CANCEL_DRAIN, *_NODE),
        errors=[NotFound, PhaseConflict],
    )
    def post(self, request: Request, *, name: str, body: UnitAction) -> Response:
        """Accept a request to end the drain. Units that are not being stopped keep running."""
        result = node_drain_cancel(
            tenant=caller_of(request).tenant, name=name, operation_id=body.operation_id
        )
        return accepted_reply(request, result)
