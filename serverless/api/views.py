"""Views of the function and invocation routes."""

from functools import partial
from typing import Final

from django.http import HttpResponse
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from gpuplatform.api.connection import has_disconnected
from gpuplatform.api.endpoint import Endpoint, Sample
from gpuplatform.api.etags import ETAG_HEADER, IF_MATCH_HEADER, etag_header, expected_etag
from gpuplatform.api.pagination import WithoutTemplate, mapped, paginate, paginate_light
from gpuplatform.api.parameters import response_header
from gpuplatform.api.query import DeletionQuery
from gpuplatform.api.views import ApiView
from gpuplatform.audit.services.entries import secret_read
from gpuplatform.audit.services.values import values_read
from gpuplatform.errors import (
    NameConflict,
    NotAllowed,
    NotFound,
    OperationConflict,
    PhaseConflict,
    QuotaExceeded,
    StaleEtag,
    Throttled,
)
from gpuplatform.operations.api.replies import accepted, accepted_reply
from gpuplatform.operations.selectors import OPERATION_UNREAD
from gpuplatform.tenancy.callers import Caller, caller_of
from gpuplatform.tenancy.permissions import Permission
from serverless.api.filters import FunctionsQuery, InvocationsQuery, ResultQuery
from serverless.api.serializers import (
    FunctionReply,
    WebhookSecretReply,
    function_replies,
    without_values,
)
from serverless.api.waiting import wait_for_end
from serverless.documents import InvocationReply, has_result
from serverless.links import signed_row
from serverless.models import OPEN_STATES, Invocation
from serverless.phases import InvocationState
from serverless.requests import (
    FunctionCreate,
    FunctionUpdate,
    InvocationAction,
    InvocationCreate,
    WebhookSecretCreate,
)
from serverless.selectors import (
    function_named,
    functions_of,
    invocation_with,
    invocations,
    with_oldest,
)
from serverless.services.functions import (
    function_create,
    function_request_deletion,
    function_update,
    function_version,
)
from serverless.services.invocations import invocation_accept, invocation_cancel, invocation_replay
from serverless.services.names import FUNCTION_KIND, INVOCATION_KIND, ServerlessOperation
from serverless.services.webhook_secrets import webhook_secret_create

_FUNCTIONS: Final = "Functions"
_INVOCATIONS: Final = "Invocations"
_NAMESPACE: Final = "runtime-instance"
_FUNCTION = (FUNCTION_KIND, "echo")
_INVOCATION = (INVOCATION_KIND, "order-4711")
_ADDRESS: Final = "/api/v1/serverless/invocations"
_WAITING: Final = {
    "state": InvocationState.QUEUED.value,
    "attempts": 0,
    **dict.fromkeys(("worker", "startedAt", "completedAt", "result")),
}


class Functions(ApiView):
    """The view that lists and creates functions."""

    @Endpoint(
        id="listFunctions",
        summary="List your functions, newest first",
        tag=_FUNCTIONS,
        query=FunctionsQuery,
        replies={200: FunctionReply},
    )
    def get(self, request: Request, *, query: FunctionsQuery) -> Response:
        """Return one page of functions."""
        caller = caller_of(request)
        rows = with_oldest(functions_of(caller.tenant))
        page = paginate_light(
            query.applied_to(rows), query, "spec", WithoutTemplate("spec"), *OPERATION_UNREAD
        )
        replies = function_replies(page.rows, has_values=caller.may(Permission.WRITE))
        return Response(mapped(page, [reply.without("template") for reply in replies]))

    @Endpoint(
        id="createFunction",
        summary="Create a function",
        tag=_FUNCTIONS,
        body=FunctionCreate,
        replies=accepted(ServerlessOperation.CREATE, *_FUNCTION, namespace=_NAMESPACE),
        errors=[NameConflict, QuotaExceeded],
    )
    def post(self, request: Request, *, body: FunctionCreate) -> Response:
        """Accept a request to create a function, which can be invoked immediately."""
        result = function_create(tenant=caller_of(request).tenant, body=body)
        return accepted_reply(request, result)


class FunctionDetail(ApiView):
    """The view that returns, changes and deletes a function."""

    @Endpoint(
        id="getFunction",
        summary="Read a function",
        tag=_FUNCTIONS,
        replies={200: FunctionReply},
        errors=[NotFound],
        headers=[ETAG_HEADER],
    )
    def get(self, request: Request, *, request_id: str) -> Response:
        """Return the function with its ETag."""
        caller = caller_of(request)
        row = function_named(with_oldest(functions_of(caller.tenant)), request_id)
        has_values = caller.may(Permission.WRITE)
        [reply] = function_replies([row], has_values=has_values)
        if has_values and without_values(reply) != reply:
            place = {"namespace": caller.tenant.namespace, "name": request_id}
            values_read(FUNCTION_KIND, tenant=caller.tenant.name, **place)
        return Response(reply, headers=etag_header(function_version(row)))

    @Endpoint(
        id="putFunction",
        summary="Change a function and replace its workers one by one",
        tag=_FUNCTIONS,
        body=FunctionUpdate,
        replies=accepted(ServerlessOperation.UPDATE, *_FUNCTION, namespace=_NAMESPACE),
        errors=[NotFound, PhaseConflict, QuotaExceeded, StaleEtag],
        headers=[IF_MATCH_HEADER],
    )
    def put(self, request: Request, *, request_id: str, body: FunctionUpdate) -> Response:
        """Accept a request to change the function. Omitted fields are unchanged.

        Invocations in progress finish on their workers.
        """
        tenant, etag = caller_of(request).tenant, expected_etag(request)
        result = function_update(tenant=tenant, request_id=request_id, body=body, etag=etag)
        return accepted_reply(request, result)

    @Endpoint(
        id="deleteFunction",
        summary="Delete a function and cancel its queued invocations",
        tag=_FUNCTIONS,
        query=DeletionQuery,
        replies=accepted(ServerlessOperation.DELETE, *_FUNCTION, namespace=_NAMESPACE),
        errors=[NotFound],
    )
    def delete(self, request: Request, *, request_id: str, query: DeletionQuery) -> Response:
        """Accept a request to delete the function.

        The phase is `Terminating` until the workers have stopped.

        Running invocations finish on their workers.
        """
        tenant, operation_id = caller_of(request).tenant, query.operation_id
        result = function_request_deletion(
            tenant=tenant, request_id=request_id, operation_id=operation_id
        )
        return accepted_reply(request, result)


class FunctionWebhookSecret(ApiView):
    """The view that creates webhook secrets of a function."""

    @Endpoint(
        id="createWebhookSecret",
        summary="Create the secret that signs the webhooks of a function, or replace it",
        tag=_FUNCTIONS,
        body=WebhookSecretCreate,
        replies={201: Sample(WebhookSecretReply, description="The secret was created.")},
        errors=[NotFound, PhaseConflict],
    )
    def post(self, request: Request, *, request_id: str, body: WebhookSecretCreate) -> Response:
        """Create a secret and return it once. Earlier secrets remain valid for a time."""
        tenant = caller_of(request).tenant
        created = webhook_secret_create(tenant=tenant, request_id=request_id, body=body)
        reply = WebhookSecretReply.model_validate(created)
        return Response(reply, status=status.HTTP_201_CREATED)


class Invocations(ApiView):
    """The view that lists and creates invocations."""

    @Endpoint(
        id="listInvocations",
        summary="List your invocations, newest first, without the bodies of the results",
        tag=_INVOCATIONS,
        query=InvocationsQuery,
        replies={200: InvocationReply},
    )
    def get(self, request: Request, *, query: InvocationsQuery) -> Response:
        """Return one page of invocations."""
        caller = caller_of(request)
        rows = invocations().filter(tenant=caller.tenant)
        page = paginate(query.applied_to(rows), query)
        return Response(mapped(page, [_reply(caller, row, has_body=False) for row in page.rows]))

    @Endpoint(
        id="createInvocation",
        summary="Invoke a function, and optionally wait for the result",
        tag=_INVOCATIONS,
        body=InvocationCreate,
        replies={
            202: Sample(InvocationReply, _WAITING),
            200: Sample(
                InvocationReply,
                description="The invocation has ended, or the request had been accepted before.",
            ),
        },
        errors=[NotFound, OperationConflict, PhaseConflict, QuotaExceeded, Throttled],
        headers=[response_header("Retry-After", [202])],
    )
    def post(self, request: Request, *, body: InvocationCreate) -> Response:
        """Accept a request to invoke the function.

        The status is 202. It is 200 if the mode is `sync` and the invocation has ended, or if the
        mode is `async` and the request is repeated.

        In the mode `sync`, an invocation that no worker has started when the caller closes the
        connection expires. A repeated request queues it again.
        """
        caller = caller_of(request)
        tenant = caller.tenant
        result = invocation_accept(tenant=tenant, body=body)
        row, is_sync = result.invocation, body.mode == "sync"
        is_disconnected = partial(has_disconnected, request)
        headers = {"Location": f"{_ADDRESS}/{row.invocation_id}"}
        is_done = result.is_replay
        if is_sync:
            retry_seconds = wait_for_end(row, is_disconnected)
            # The row can have changed during the wait.
            row = invocation_with(Invocation.objects.all(), tenant, row.invocation_id)
            is_done = row.state not in OPEN_STATES
            if retry_seconds and not is_done:
                headers["Retry-After"] = str(retry_seconds)
        if result.is_replay:
            headers["Idempotent-Replayed"] = "true"
            # The entry of the acceptance covers only the first response.
            _record_read(caller, row)
        return Response(
            _reply(caller, row),
            status=status.HTTP_200_OK if is_done else status.HTTP_202_ACCEPTED,
            headers=headers,
        )


class InvocationDetail(ApiView):
    """The view that returns an invocation."""

    @Endpoint(
        id="getInvocation",
        summary="Read an invocation and its result",
        tag=_INVOCATIONS,
        replies={200: InvocationReply},
        errors=[NotFound],
    )
    def get(self, request: Request, *, invocation_id: str) -> Response:
        """Return the invocation, with its result if it has ended."""
        caller = caller_of(request)
        row = invocation_with(Invocation.objects.all(), caller.tenant, invocation_id)
        _record_read(caller, row)
        return Response(_reply(caller, row))


class InvocationCancel(ApiView):
    """The view that cancels an invocation."""

    @Endpoint(
        id="cancelInvocation",
        summary="Cancel an invocation that no worker has started",
        tag=_INVOCATIONS,
        body=InvocationAction,
        replies=accepted(ServerlessOperation.CANCEL, *_INVOCATION, namespace=_NAMESPACE),
        errors=[NotFound, PhaseConflict],
    )
    def post(self, request: Request, *, invocation_id: str, body: InvocationAction) -> Response:
        """Accept a request to cancel the invocation, which ends immediately."""
        tenant, operation_id = caller_of(request).tenant, body.operation_id
        result = invocation_cancel(
            tenant=tenant, invocation_id=invocation_id, operation_id=operation_id
        )
        return accepted_reply(request, result)


class InvocationReplay(ApiView):
    """The view that replays an invocation that ended without success."""

    @Endpoint(
        id="replayInvocation",
        summary="Replay a failed, expired or dead-lettered invocation (operators only)",
        tag=_INVOCATIONS,
        body=InvocationAction,
        replies=accepted(ServerlessOperation.REPLAY, *_INVOCATION, namespace=_NAMESPACE),
        errors=[NotFound, PhaseConflict],
    )
    def post(self, request: Request, *, invocation_id: str, body: InvocationAction) -> Response:
        """Accept a request to replay the invocation, which is queued with all its attempts.

        The stored response of its last attempt is deleted.
        """
        tenant, operation_id = caller_of(request).tenant, body.operation_id
        result = invocation_replay(
            tenant=tenant, invocation_id=invocation_id, operation_id=operation_id
        )
        return accepted_reply(request, result)


class InvocationResult(ApiView):
    """The view that returns the body of a result for a signed link, without a token."""

    @Endpoint(
        id="getInvocationResult",
        summary="Read the body of a result by its signed link, without a token",
        tag=_INVOCATIONS,
        query=ResultQuery,
        replies={},
        text="Body of the function's response, with the media type of the response.",
        errors=[NotAllowed, NotFound],
    )
    def get(self, request: Request, *, invocation_id: str, query: ResultQuery) -> HttpResponse:
        """Return the body of the function's response."""
        key = signed_row(invocation_id, query.expires, query.sig)
        if key is None:
            msg = "The link is not valid or has expired. Get the invocation to receive a new link."
            raise NotAllowed(msg)
        row = Invocation.objects.filter(pk=key, invocation_id=invocation_id).first()
        if row is None or not has_result(row):
            msg = f"The invocation '{invocation_id}' has no result. Get the invocation instead."
            raise NotFound(msg)
        _read_result(row, row.tenant.name)
        return _download(row)


def _reply(caller: Caller, row: Invocation, *, has_body: bool = True) -> InvocationReply:
    """Return the response with the fields that the caller may read."""
    return InvocationReply.of(
        row,
        has_body=has_body,
        has_payloads=caller.may(Permission.PAYLOADS),
        has_values=caller.may(Permission.WRITE),
    )


def _record_read(caller: Caller, row: Invocation) -> None:
    """Record that the response contains a result, if it does."""
    if has_result(row) and caller.may(Permission.PAYLOADS):
        _read_result(row, caller.tenant.name)


def _read_result(row: Invocation, tenant: str) -> None:
    """Record that the request reads the result of an invocation."""
    secret_read("read-result", INVOCATION_KIND, tenant=tenant, name=row.invocation_id)


def _download(row: Invocation) -> HttpResponse:
    """Return the body as a download, so that a browser does not show it as a page of this site."""
    headers = {
        "Content-Disposition": "attachment",
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "sandbox; default-src 'none'",
        "Cache-Control": "private, no-store",
        "Referrer-Policy": "no-referrer",
    }
    return HttpResponse(
        bytes(row.result_body or b""),
        content_type=row.result_content_type or "application/octet-stream",
        headers=headers | ({"X-Result-Truncated": "true"} if row.is_truncated else {}),
    )
