"""Views that report the health of the platform and of this process."""

from datetime import datetime

from django.db import Error as DatabaseFault
from django.http import HttpRequest, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_safe
from pydantic import Field
from rest_framework.request import Request
from rest_framework.response import Response

from gpuplatform import __version__
from gpuplatform.api.endpoint import Endpoint
from gpuplatform.api.schema import Reply
from gpuplatform.api.views import ApiView
from gpuplatform.errors import Unauthenticated
from gpuplatform.health import HealthCode
from gpuplatform.observability.health_document import health, recent_health
from gpuplatform.observability.readiness import readiness
from gpuplatform.tenancy.authentication import TokenAuthentication
from gpuplatform.tenancy.permissions import Permission


class PartReply(Reply):
    """The health of a part of the platform."""

    ok: bool = Field(description="Whether the part is healthy.", examples=[True])
    code: HealthCode = Field(
        description="Machine-readable state of the part.", examples=["healthy"]
    )
    detail: str = Field(
        description="Human-readable details, or the meaning of the code.", examples=["Healthy"]
    )


class PartsReply(Reply):
    """The health of all parts of the platform."""

    database: PartReply = Field(description="Health of the PostgreSQL database.")
    broker: PartReply = Field(description="Health of the message broker (Valkey or Redis).")
    rates: PartReply = Field(
        description="Health of the rates of requests: `degraded` while this web process counts"
        " requests alone."
    )
    cluster: PartReply = Field(description="Health of the Kubernetes API server.")
    queue: PartReply = Field(description="Health of the NATS server, which queues invocations.")
    controller: PartReply = Field(
        description="Health of the controller, which watches the cluster."
    )
    activator: PartReply = Field(
        description="Health of the activator, which starts and stops workers of functions."
    )
    results: PartReply = Field(
        description="Health of the result store, which stores results of invocations."
    )
    operations: PartReply = Field(description="Health of the worker that executes operations.")
    reconcile: PartReply = Field(description="Health of the worker that reconciles resources.")
    periodic: PartReply = Field(description="Health of the worker that runs periodic tasks.")
    beat: PartReply = Field(description="Health of beat, which schedules periodic tasks.")


class HealthReply(Reply):
    """The health of the platform. Unknown values are null."""

    ready: bool = Field(description="Whether all parts are healthy.", examples=[True])
    version: str = Field(description="Version of the platform.", examples=[__version__])
    started_at: datetime = Field(description="Time at which this web process started.")
    uptime_seconds: int = Field(
        description="Duration in seconds since this web process started.", examples=[3600]
    )
    kubernetes_connected: bool = Field(
        description="Whether the Kubernetes API server responds.", examples=[True]
    )
    kube_error: str = Field(
        description="Error of the Kubernetes API server, or an empty string if it responds.",
        examples=[""],
    )
    node_count: int | None = Field(description="Number of nodes.", examples=[3])
    ready_node_count: int | None = Field(
        description="Number of nodes that are ready.", examples=[3]
    )
    stock_pool_count: int | None = Field(description="Number of stock pools.", examples=[2])
    stock_unit_count: int | None = Field(
        description="Number of ready, unclaimed stock units.", examples=[2]
    )
    active_unit_count: int | None = Field(description="Number of active units.", examples=[1])
    pending_operations: int | None = Field(
        description="Number of operations that have not ended.", examples=[0]
    )
    oldest_pending_seconds: float | None = Field(
        description="Age in seconds of the oldest operation that has not ended, or null if all"
        " operations have ended."
    )
    parts: PartsReply = Field(description="Health of each part of the platform.")


class Health(ApiView):
    """The view of the health of the platform.

    The view requires no token, because it must respond even if the database, which contains the
    tokens, is down.
    """

    @Endpoint(
        id="getHealth",
        summary="Read the health of the platform; the status is always 200",
        tag="Platform",
        replies={200: HealthReply},
    )
    def get(self, request: Request) -> Response:
        """Return the health of all parts within two seconds. The status is always 200.

        The numbers of objects are null for callers without the operator scope.
        """
        found = health() if _is_operator(request) else recent_health()
        return Response(HealthReply.model_validate({"version": __version__, **found}))


def _is_operator(request: Request) -> bool:
    """Return whether the caller can see the numbers of objects of all tenants."""
    try:
        found = TokenAuthentication().identify(request)
    except (DatabaseFault, Unauthenticated):  # The health is also for callers without a token.
        return False
    return found is not None and found[1].may(Permission.OPERATOR)


@csrf_exempt
@require_safe
def livez(_: HttpRequest) -> JsonResponse:
    """Report that this process responds. The view depends on no other process."""
    return JsonResponse({"ok": True})


@csrf_exempt
@require_safe
def readyz(_: HttpRequest) -> JsonResponse:
    """Report whether the database responds and has all migrations, and the cause if not."""
    ok, document = readiness()
    return JsonResponse(document, status=200 if ok else 503)
