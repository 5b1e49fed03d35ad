"""The reply to an accepted write."""

from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from gpuplatform.operations.api.serializers import OperationReply
from gpuplatform.operations.services import Accepted
from gpuplatform.tenancy.callers import scope_of
from gpuplatform.tenancy.models import Scope

OPERATOR_JOBS = "/api/v1/operator/jobs"
OWN_OPERATIONS = "/api/v1/operations"


def accepted_reply(request: Request, accepted: Accepted) -> Response:
    """Return 202 for a new operation, 200 and its present state for a replay.

    `Location` is where the caller can read on: a user's token does not open the operators' jobs.
    """
    operation = accepted.operation
    jobs = OPERATOR_JOBS if scope_of(request.path_info) == Scope.OPERATOR else OWN_OPERATIONS
    location = f"{jobs}/{operation.operation_id}"
    if "tenant" in request.query_params:  # An operator's, about another tenant's job.
        location += f"?tenant={operation.tenant.name}"
    headers = {"Location": location}
    if accepted.is_replay:
        headers["Idempotent-Replayed"] = "true"
    return Response(
        OperationReply.of(operation),
        status=status.HTTP_200_OK if accepted.is_replay else status.HTTP_202_ACCEPTED,
        headers=headers,
    )
