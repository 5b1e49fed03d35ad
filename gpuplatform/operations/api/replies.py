"""The response to an accepted write, and its declaration."""

from typing import Any

from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from gpuplatform.api.endpoint import Sample
from gpuplatform.operations.api.serializers import ADDRESSES, OperationReply, operation_replies
from gpuplatform.operations.phases import OperationPhase
from gpuplatform.operations.services import Accepted
from gpuplatform.tenancy.callers import is_for_operators

OPERATOR_JOBS = "/api/v1/operator/jobs"
OWN_OPERATIONS = "/api/v1/operations"


def accepted(
    kind: str, object_kind: str, name: str, *, namespace: str = "", href: str = "", total: int = 1
) -> dict[int, Sample]:
    """Declare the responses of an endpoint that accepts operations: 202, and 200 for a replay.

    The arguments describe the operation in the examples: its kind, its object, and the total of
    its progress. `href` is the URL of the object; the default is the URL for `object_kind`.
    """
    address = href or ADDRESSES[object_kind].format(
        name=name, namespace=namespace, tenant="default"
    )
    reference = {"kind": object_kind, "namespace": namespace, "name": name, "href": address}
    values: dict[str, Any] = {
        "kind": kind,
        "phase": OperationPhase.PENDING.value,
        "progress": {"done": 0, "total": total},
        "object": {**reference, "uid": None},
    }
    done = {"phase": OperationPhase.SUCCEEDED.value, "progress": {"done": total, "total": total}}
    return {
        status.HTTP_202_ACCEPTED: Sample(OperationReply, values),
        status.HTTP_200_OK: Sample(OperationReply, values | done),
    }


def accepted_reply(request: Request, result: Accepted, *, of_tenant: bool = False) -> Response:
    """Return the response: 202 for a new operation, 200 with its current state for a replay.

    `Location` is a URL that the caller has the scope to read. `of_tenant` is whether an operator
    has sent a request about another tenant, to which the operation belongs.
    """
    operation = result.operation
    jobs = OPERATOR_JOBS if is_for_operators(request) else OWN_OPERATIONS
    location = f"{jobs}/{operation.operation_id}"
    # An operator's request about an operation of another tenant names it.
    if of_tenant or "tenant" in request.query_params:
        location += f"?tenant={operation.tenant.name}"
    headers = {"Location": location}
    if result.is_replay:
        headers["Idempotent-Replayed"] = "true"
    [reply] = (
        operation_replies([operation]) if result.is_replay else [OperationReply.of(operation)]
    )
    return Response(
        reply,
        status=status.HTTP_200_OK if result.is_replay else status.HTTP_202_ACCEPTED,
        headers=headers,
    )
