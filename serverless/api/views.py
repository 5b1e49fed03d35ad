"""Routes of functions and their invocations."""

from typing import Final

from django.http import HttpResponse
from drf_spectacular.utils import OpenApiParameter
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from gpuplatform.api.endpoint import Endpoint
from gpuplatform.api.pagination import mapped, paginate
from gpuplatform.api.query import DeletionQuery
from gpuplatform.api.views import ApiView
from gpuplatform.errors import (
    NameConflict,
    NotAllowed,
    NotFound,
    OperationConflict,
    PhaseConflict,
    Throttled,
)
from gpuplatform.operations.api.replies import accepted_reply
from gpuplatform.operations.api.serializers import OperationReply
from gpuplatform.tenancy.callers import caller_of
from serverless.api.filters import (
    FunctionsQuery,
    InvocationsQuery,
    ResultQuery,
)
from serverless.api.serializers import FunctionReply, InvocationReply, has_result
from serverless.api.waiting import wait_for_end
from serverless.models import Invocation
from serverless.requests import FunctionCreate, FunctionUpdate, InvocationAction, InvocationCreate
from serverless.selectors import function_seen, functions_seen, invocation_get, invocations
from serverless.services import (
    function_create,
    function_request_deletion,
    function_update,
    invocation_accept,
    invocation_cancel,
    invocation_replay,
)
from serverless.signing import signed_row

_FUNCTIONS: Final = "Functions"
_INVOCATIONS: Final = "Invocations"
_ACCEPTED = {202: OperationReply, 200: OperationReply}
_ADDRESS: Final = "/api/v1/serverless/invocations"
_LOCATION = OpenApiParameter(
    "Location",
    str,
    OpenApiParameter.HEADER,
    response=[202, 200],
    description="Where the invocation is read.",
)


class Functions(ApiView):
    """All functions of the tenant."""

    @Endpoint(
        id="listFunctions",
        summary="List your functions, newest first",
        tag=_FUNCTIONS,
        query=FunctionsQuery,
        replies={200: FunctionReply},
    )
    def get(self, request: Request, *, query: FunctionsQuery) -> Response:
        """Return one page of functions."""
        rows = functions_seen(caller_of(request).tenant).filter(**query.wanted())
        page = paginate(rows, query)
        return Response(mapped(page, [FunctionReply.of(row) for row in page.rows]))

    @Endpoint(
        id="createFunction",
        summary="Create a function",
        tag=_FUNCTIONS,
        body=FunctionCreate,
        replies=_ACCEPTED,
        errors=[NameConflict],
    )
    def post(self, request: Request, *, body: FunctionCreate) -> Response:
        """Accept the creation; the function can be invoked at once."""
        accepted = function_create(tenant=caller_of(request).tenant, asked=body)
        return accepted_reply(request, accepted)


class FunctionDetail(ApiView):
    """One function."""

    @Endpoint(
        id="getFunction",
        summary="Read one function",
        tag=_FUNCTIONS,
        replies={200: FunctionReply},
        errors=[NotFound],
    )
    def get(self, request: Request, *, request_id: str) -> Response:
        """Return the function with its backlog and workers."""
        return Response(FunctionReply.of(function_seen(caller_of(request).tenant, request_id)))

    @Endpoint(
        id="putFunction",
        summary="Replace the spec of a function; its workers are replaced one by one",
        tag=_FUNCTIONS,
        body=FunctionUpdate,
        replies=_ACCEPTED,
        errors=[NotFound, PhaseConflict],
    )
    def put(self, request: Request, *, request_id: str, body: FunctionUpdate) -> Response:
        """Accept the change; what has begun is finished by the workers that began it."""
        tenant = caller_of(request).tenant
        accepted = function_update(tenant=tenant, request_id=request_id, asked=body)
        return accepted_reply(request, accepted)

    @Endpoint(
        id="deleteFunction",
        summary="Delete a function: what waits is cancelled, what has begun is finished",
        tag=_FUNCTIONS,
        query=DeletionQuery,
        replies=_ACCEPTED,
        errors=[NotFound],
    )
    def delete(self, request: Request, *, request_id: str, query: DeletionQuery) -> Response:
        """Accept the deletion; the function shows `Terminating` until its workers are gone."""
        accepted = function_request_deletion(
            tenant=caller_of(request).tenant,
            request_id=request_id,
            operation_id=query.operation_id,
        )
        return accepted_reply(request, accepted)


class Invocations(ApiView):
    """All invocations of the tenant."""

    @Endpoint(
        id="listInvocations",
        summary="List your invocations, newest first, without the bodies of their results",
        tag=_INVOCATIONS,
        query=InvocationsQuery,
        replies={200: InvocationReply},
    )
    def get(self, request: Request, *, query: InvocationsQuery) -> Response:
        """Return one page of invocations."""
        rows = invocations().filter(tenant=caller_of(request).tenant, **query.wanted())
        page = paginate(rows, query)
        shown = [InvocationReply.of(row, has_body=False) for row in page.rows]
        return Response(mapped(page, shown))

    @Endpoint(
        id="createInvocation",
        summary="Invoke a function, and wait for its result or not",
        tag=_INVOCATIONS,
        body=InvocationCreate,
        replies={202: InvocationReply, 200: InvocationReply},
        errors=[NotFound, PhaseConflict, OperationConflict, Throttled],
        headers=[_LOCATION],
    )
    def post(self, request: Request, *, body: InvocationCreate) -> Response:
        """Accept the invocation: 202 while it has not ended, 200 with mode `sync` once it has.

        An invocation that was accepted before is answered with 200 in either mode.
        """
        tenant = caller_of(request).tenant
        accepted = invocation_accept(tenant=tenant, asked=body)
        row = accepted.invocation
        has_ended = body.mode == "sync" and wait_for_end(row)
        # What was accepted just now is in hand; only a wait may have changed it.
        shown = invocation_get(tenant, row.invocation_id) if body.mode == "sync" else row
        is_done = has_ended or (accepted.is_replay and body.mode == "async")
        headers = {"Location": f"{_ADDRESS}/{row.invocation_id}"}
        if accepted.is_replay:
            headers["Idempotent-Replayed"] = "true"
        return Response(
            InvocationReply.of(shown),
            status=status.HTTP_200_OK if is_done else status.HTTP_202_ACCEPTED,
            headers=headers,
        )


class InvocationDetail(ApiView):
    """One invocation."""

    @Endpoint(
        id="getInvocation",
        summary="Read one invocation with its result",
        tag=_INVOCATIONS,
        replies={200: InvocationReply},
        errors=[NotFound],
    )
    def get(self, request: Request, *, invocation_id: str) -> Response:
        """Return the invocation, and once it has ended its result."""
        row = invocation_get(caller_of(request).tenant, invocation_id)
        return Response(InvocationReply.of(row))


class InvocationCancel(ApiView):
    """Cancelling an invocation."""

    @Endpoint(
        id="cancelInvocation",
        summary="Cancel an invocation that no worker has begun",
        tag=_INVOCATIONS,
        body=InvocationAction,
        replies=_ACCEPTED,
        errors=[NotFound, PhaseConflict],
    )
    def post(self, request: Request, *, invocation_id: str, body: InvocationAction) -> Response:
        """Accept the cancellation; the invocation has ended at once."""
        accepted = invocation_cancel(
            tenant=caller_of(request).tenant,
            invocation_id=invocation_id,
            operation_id=body.operation_id,
        )
        return accepted_reply(request, accepted)


class InvocationReplay(ApiView):
    """Sending a dead letter again, for operators."""

    @Endpoint(
        id="replayInvocation",
        summary="Put a dead-lettered invocation into the queue again; operators only",
        tag=_INVOCATIONS,
        body=InvocationAction,
        replies=_ACCEPTED,
        errors=[NotFound, PhaseConflict],
    )
    def post(self, request: Request, *, invocation_id: str, body: InvocationAction) -> Response:
        """Accept the replay; the invocation has all its deliveries again."""
        accepted = invocation_replay(
            tenant=caller_of(request).tenant,
            invocation_id=invocation_id,
            operation_id=body.operation_id,
        )
        return accepted_reply(request, accepted)


class InvocationResult(ApiView):
    """The result behind a signed link: the link is the permission, nobody has to say who asks."""

    authentication_classes = ()
    permission_classes = ()

    @Endpoint(
        id="getInvocationResult",
        summary="Read the body of a result by its signed link, without a token",
        tag=_INVOCATIONS,
        query=ResultQuery,
        replies={},
        text="The body, with the media type that the function gave it.",
        errors=[NotAllowed, NotFound],
    )
    def get(self, request: Request, *, invocation_id: str, query: ResultQuery) -> HttpResponse:
        """Return the bytes that the function answered with."""
        key = signed_row(invocation_id, query.expires, query.sig)
        if key is None:
            msg = "The link is wrong or no longer valid. Read the invocation for a new one."
            raise NotAllowed(msg)
        row = Invocation.objects.filter(pk=key, invocation_id=invocation_id).first()
        if row is None or not has_result(row):
            msg = f"There is no result of the invocation '{invocation_id}'."
            raise NotFound(msg)
        return _download(row)


def _download(row: Invocation) -> HttpResponse:
    """Return the body as a file: what a function answers must never act as a page of ours."""
    answer = HttpResponse(
        bytes(row.result_body or b""),
        content_type=row.result_content_type or "application/octet-stream",
    )
    answer.headers["Content-Disposition"] = "attachment"
    answer.headers["X-Content-Type-Options"] = "nosniff"
    answer.headers["Content-Security-Policy"] = "sandbox; default-src 'none'"
    answer.headers["Cache-Control"] = "private, no-store"
    answer.headers["Referrer-Policy"] = "no-referrer"
    if row.is_truncated:
        answer.headers["X-Result-Truncated"] = "true"
    return answer
