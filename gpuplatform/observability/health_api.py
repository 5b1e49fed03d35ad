"""Routes that tell how the platform and this process are doing."""

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

from gpuplatform.api.endpoint import Endpoint
from gpuplatform.api.schema import Reply
from gpuplatform.api.views import ApiView
from gpuplatform.health import HealthCode
from gpuplatform.observability.health_document import health


class PartReply(Reply):
    """One part of the platform."""

    ok: bool = Field(description="Whether it works.", examples=[True])
    code: HealthCode = Field(description="State of the part, for programs.", examples=["healthy"])
    detail: str = Field(
        description="Details, or the meaning of the code, for people.", examples=["Healthy"]
    )


class PartsReply(Reply):
    """Every part of the platform."""

    database: PartReply
    broker: PartReply
    cluster: PartReply
    queue: PartReply
    controller: PartReply
    activator: PartReply
    results: PartReply
    operations: PartReply
    reconcile: PartReply
    periodic: PartReply
    beat: PartReply


class HealthReply(Reply):
    """How the platform is doing. What could not be learned is null."""

    ready: bool = Field(description="True exactly when every part works.", examples=[True])
    started_at: datetime = Field(description="When this web process started.")
    uptime_seconds: int = Field(description="How long this web process runs.", examples=[3600])
    kubernetes_connected: bool = Field(description="Whether the cluster answers.")
    kube_error: str = Field(description="Why it does not; empty when it does.", examples=[""])
    node_count: int | None = Field(description="Nodes of the cluster.", examples=[3])
    ready_node_count: int | None = Field(description="Nodes that are Ready.", examples=[3])
    stock_pool_count: int | None = Field(description="Stock pools.", examples=[2])
    stock_unit_count: int | None = Field(
        description="Stock units that are ready and unclaimed.", examples=[0]
    )
    active_unit_count: int | None = Field(description="Units in use.", examples=[0])
    pending_operations: int | None = Field(description="Operations not ended.", examples=[0])
    oldest_pending_seconds: float | None = Field(
        description="Age of the oldest of them; null when there is none.", examples=[None]
    )
    parts: PartsReply


class Health(ApiView):
    """The whole platform.

    Open to all: it answers when the database, which knows the tokens, does not.
    """

    authentication_classes = ()
    permission_classes = ()

    @Endpoint(
        id="getHealth",
        summary="How the platform is doing; always 200, within 2 seconds",
        tag="Health",
        replies={200: HealthReply},
    )
    def get(self, request: Request) -> Response:
        """Return the state of every part."""
        return Response(HealthReply.model_validate(health()))


@csrf_exempt
@require_safe
def livez(_: HttpRequest) -> JsonResponse:
    """Say that this process answers; depends on nothing outside it."""
    return JsonResponse({"ok": True})


@csrf_exempt
@require_safe
def readyz(_: HttpRequest) -> JsonResponse:
    """Say whether this process can serve: the database answers and is migrated."""
    try:
        executor = MigrationExecutor(connection)
    except DatabaseFault:
        return JsonResponse({"ok": False, "missingMigrations": None}, status=503)
    missing = executor.migration_plan(executor.loader.graph.leaf_nodes())
    status = 503 if missing else 200
    return JsonResponse({"ok": not missing, "missingMigrations": len(missing)}, status=status)
