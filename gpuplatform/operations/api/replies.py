"""The reply to an accepted write."""

from rest_framework import status
from rest_framework.response import Response

from gpuplatform.operations.api.serializers import OperationReply
from gpuplatform.operations.services import Accepted

OPERATOR_JOBS = "/api/v1/operator/jobs"


def accepted_reply(accepted: Accepted) -> Response:
    """Return 202 for a new operation, 200 and its present state for a replay."""
    operation = accepted.operation
    headers = {"Location": f"{OPERATOR_JOBS}/{operation.operation_id}"}
    if accepted.is_replay:
        headers["Idempotent-Replayed"] = "true"
    return Response(
        OperationReply.of(operation),
        status=status.HTTP_200_OK if accepted.is_replay else status.HTTP_202_ACCEPTED,
        headers=headers,
    )
