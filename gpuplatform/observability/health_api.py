"""Routes that report the health of the platform and of this process."""

from datetime import datetime

from django.db import Error as DatabaseFault
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
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
from gpuplatform.health import HealthCode
from gpuplatform.observability.health_document import health


class PartReply(Reply):
    """The health of one part."""

    ok: bool = Field(description="Whether the part works.", examples=[True])
    code: HealthCode = Field(description="State of the part, for programs.", examples=["healthy"])
    detail: str = Field(
        description="Details, or the meaning of the code, for people.", examples=["Healthy"]
    )


class PartsReply(Reply):
    """The health of every part."""

    database: PartReply = Field(description="PostgreSQL.")
    broker: PartReply = Field(description="Valkey or Redis.")
    cluster: PartReply = Field(description="The Kubernetes API server.")
    queue: PartReply = Field(description="The NATS server with the invocations.")
    controller: PartReply = Field(description="The process that watches the cluster.")
    activator: PartReply = Field(description="The process that starts and stops workers.")
    results: PartReply = Field(description="The process that stores results.")
    operations: PartReply = Field(description="The worker process of operations.")
    reconcile: PartReply = Field(description="The worker process of reconciliation.")
    periodic: PartReply = Field(description="The worker process of periodic tasks.")
    beat: PartReply = Field(description="The process that sends periodic tasks.")


class HealthReply(Reply):
    """The health of the platform. A value that could not be read is null."""

    ready: bool = Field(description="Whether every part works.", examples=[True])
    version: str = Field(description="Version of the platform.", examples=[__version__])
    started_at: datetime = Field(description="When this web process started.")
    uptime_seconds: int = Field(
        description="Seconds since this web process started.", examples=[3600]
    )
    kubernetes_connected: bool = Field(description="Whether the cluster answers.", examples=[True])
    kube_error: str = Field(
        description="Why the cluster does not answer; empty if it does.", examples=[""]
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
        description="Age of the oldest of these operations in seconds; null without one."
    )
    parts: PartsReply = Field(description="Health of each part.")


class Health(ApiView):
    """The health of the platform.

    It needs no token: it also answers when the database, which holds the tokens, does not.
    """

    authentication_classes = ()
    permission_classes = ()

    @Endpoint(
        id="getHealth",
        summary="Read the health of the platform; always 200, within 2 seconds",
        tag="Platform",
        replies={200: HealthReply},
        is_public=True,
    )
    def get(self, request: Request) -> Response:
        """Return the state of every part."""
        return Response(HealthReply.model_validate({"version": __version__, **health()}))


@csrf_exempt
@require_safe
def livez(_: HttpRequest) -> JsonResponse:
    """Report that this process answers; it depends on nothing outside of the process."""
    return JsonResponse({"ok": True})


@csrf_exempt
@require_safe
def readyz(_: HttpRequest) -> JsonResponse:
    """Report whether this process can serve: the database answers and is migrated."""
    try:
        executor = MigrationExecutor(connection)
    except DatabaseFault:
        return JsonResponse({"ok": False, "missingMigrations": None}, status=503)
    missing = executor.migration_plan(executor.loader.graph.leaf_nodes())
    status = 503 if missing else 200
    return JsonResponse({"ok": not missing, "missingMigrations": len(missing)}, status=status)
