"""The admin actions on stock pools, which call the services of the API."""

from collections.abc import Sequence
from typing import Any, ClassVar, Final

from gpuplatform.adminkit.actions.action import (
    Action,
    ActionRequest,
    ActionResult,
    Values,
)
from gpuplatform.adminkit.actions.forms import MEMORY_HELP, Choices, DeclaredForm
from gpuplatform.adminkit.actions.mirrors import ending_obstacle, reconcile_action
from gpuplatform.adminkit.display.text import all_gpus_text, counted
from gpuplatform.operations.admin_actions import creation, result_of, service_call
from gpuplatform.reconciliation.mirror import count
from gpuplatform.tenancy.models import Tenant
from gpuplatform.tenancy.selectors import tenant_by_name
from gpuplatform.workloads.resources import resource_in
from inventory.models import StockPool
from inventory.phases import PoolPhase
from inventory.requests.pools import StockPoolCreate, StockPoolPatch
from inventory.selectors import spec_names
from inventory.services.pools import (
    pool_create,
    pool_reconcile_soon,
    pool_request_deletion,
    pool_update,
)


class PoolForm(DeclaredForm):
    """The form that creates a pool."""

    declaration = StockPoolCreate
    field_names = (
        "specName",
        "name",
        "namespace",
        "replicas",
        "gpu",
        "resourceName",
        "resources",
        "memory",
        "placement",
        "image",
        "template",
    )
    labels: ClassVar = {
        "specName": "GPU spec",
        "gpu": "GPUs per pod",
        "resourceName": "GPU resource",
        "resources": "Further resources",
        "memory": "Memory per pod",
    }
    help_texts: ClassVar = {
        "specName": "GPU spec of the pods, from the catalogue.",
        "name": "DNS label of at most 58 characters. Leave empty to generate a name.",
        "gpu": "Number of GPUs of each pod, as request and limit.",
        "resourceName": "Extended resource that the number of GPUs counts. Leave empty for the"
        " resource of the GPU spec in the catalogue, or nvidia.com/gpu.",
        "resources": "Further extended resources of each pod. Leave empty for the resources of the"
        " GPU spec in the catalogue; {} means none.",
        "placement": "Node selector and tolerations. Leave empty for the placement of the GPU spec"
        " in the catalogue; {} means any node.",
        "image": "Reference of the container image.",
        "memory": MEMORY_HELP,
    }
    choices: ClassVar[Choices] = {"specName": spec_names}


class ScaleForm(DeclaredForm):
    """The form that changes the number of pods of a pool."""

    declaration = StockPoolPatch
    field_names = ("replicas",)
    required_names = frozenset(field_names)


def _scale(request: ActionRequest) -> ActionResult:
    body = request.parse(StockPoolPatch)
    return result_of(pool_update(body=body, **_address(request.row)))


def _address(pool: StockPool) -> dict[str, Any]:
    tenant: Tenant = pool.tenant or tenant_by_name()
    return {"tenant": tenant, "namespace": pool.namespace, "name": pool.name}


def _scale_consequence(pools: Sequence[StockPool], values: Values) -> str:
    replicas = int(values["replicas"])
    before = sum(pool.desired_replicas for pool in pools)
    changes = ((_resource(pool), replicas * _gpus(pool) - _held(pool)) for pool in pools)
    many = f"{len(pools)} pools: " if len(pools) > 1 else ""
    pods = counted(replicas * len(pools), "pod")
    return f"{many}{before} → {pods} ({all_gpus_text(changes, sign='+')})."


def _delete_consequence(pools: Sequence[StockPool], _: Values) -> str:
    pods = sum(pool.desired_replicas for pool in pools)
    gpus = all_gpus_text((_resource(pool), _held(pool)) for pool in pools)
    return (
        f"Deletes {counted(len(pools), 'stock pool')} with {counted(pods, 'pod')} and releases"
        f" {gpus}. This cannot be undone."
    )


def _held(pool: StockPool) -> int:
    """Return the number of GPUs that a pool holds according to the inventory."""
    failed = pool.phase == PoolPhase.FAILED
    return (pool.available_replicas if failed else pool.desired_replicas) * _gpus(pool)


def _gpus(pool: StockPool) -> int:
    return count(pool.spec if isinstance(pool.spec, dict) else {}, "gpu")


def _resource(pool: StockPool) -> str:
    return resource_in(pool.spec)


CREATE: Final = creation("Create stock pool", PoolForm, pool_create, StockPool.objects)
POOL_ACTIONS: Final = (
    Action(
        name="scale",
        label="Scale",
        consequence=_scale_consequence,
        obstacle=ending_obstacle,
        service=_scale,
        form=ScaleForm,
        initial=lambda pool: {"replicas": pool.desired_replicas},
    ),
    reconcile_action("pool", pool_reconcile_soon),
    Action(
        name="delete",
        label="Delete",
        consequence=_delete_consequence,
        obstacle=ending_obstacle,
        service=service_call(pool_request_deletion, _address),
        is_final=True,
    ),
)
