"""What operators do about stock pools in the admin, by the services that the API calls too."""

from collections.abc import Sequence
from typing import Any, ClassVar, Final

from gpuplatform.adminkit.actions.action import (
    Action,
    ActionRequest,
    ActionResult,
    Creation,
    Values,
    counted,
)
from gpuplatform.adminkit.actions.forms import (
    MEMORY_HELP,
    OPERATION_ID,
    DeclaredForm,
    Suggestions,
)
from gpuplatform.operations.admin_actions import result_of
from gpuplatform.reconciliation.mirror import count
from gpuplatform.tenancy.models import Tenant
from gpuplatform.tenancy.selectors import tenant_by_name
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

LABELS: Final = {"specName": "GPU spec", "gpu": "GPUs a pod", "memory": "Memory a pod"}
HELPS: Final = {
    "specName": "The GPU spec that the pool holds.",
    "name": "A DNS label of at most 58 characters; empty: the platform makes one.",
    "gpu": "Request and limit.",
    "memory": MEMORY_HELP,
}


class PoolForm(DeclaredForm):
    """Asks for a new pool."""

    declaration = StockPoolCreate
    field_names = (
        "specName",
        "name",
        "namespace",
        "replicas",
        "gpu",
        "memory",
        "image",
        "template",
    )
    labels = LABELS
    help_texts = HELPS
    suggestions: ClassVar[Suggestions] = {"specName": spec_names}


class ScaleForm(DeclaredForm):
    """Asks how many pods a pool holds."""

    declaration = StockPoolPatch
    field_names = ("replicas",)
    required_names = frozenset(field_names)


def _made(operation_id: str, values: Values) -> tuple[ActionResult, StockPool]:
    asked = StockPoolCreate.parse({**values, OPERATION_ID: operation_id})
    accepted = pool_create(tenant=tenant_by_name(), body=asked)
    return result_of(accepted), StockPool.objects.get(pk=accepted.operation.object_row or 0)


def _scaled(asked: ActionRequest) -> ActionResult:
    wanted = StockPoolPatch.parse({**asked.values, OPERATION_ID: asked.operation_id})
    return result_of(pool_update(body=wanted, **_place(asked.row)))


def _deleted(asked: ActionRequest) -> ActionResult:
    accepted = pool_request_deletion(operation_id=asked.operation_id, **_place(asked.row))
    return result_of(accepted)


def _reconciled(asked: ActionRequest) -> ActionResult:
    pool_reconcile_soon(asked.row)
    return ActionResult("It is looked at now.")


def _place(pool: StockPool) -> dict[str, Any]:
    tenant: Tenant = pool.tenant or tenant_by_name()
    return {"tenant": tenant, "namespace": pool.namespace, "name": pool.name}


def is_going(pool: StockPool) -> str:
    """Return why nothing can be asked of a pool any more; empty where something can."""
    if pool.deleted_at:
        return "It is deleted."
    is_ending = pool.deletion_requested_at or pool.phase == PoolPhase.TERMINATING
    return "It is being deleted." if is_ending else ""


def _unseen(pool: StockPool) -> str:
    if pool.deleted_at:
        return "It is deleted."
    return "" if pool.uid else "It has no resource in the cluster yet."


def _scale_consequence(pools: Sequence[StockPool], values: Values) -> str:
    wanted = int(values["replicas"])
    before = sum(pool.desired_replicas for pool in pools)
    more = sum(wanted * _gpus(pool) - _held(pool) for pool in pools)
    change = f"{counted(max(more, 0), 'GPU')} more"
    if more < 0:
        change = f"{counted(-more, 'GPU', 'becomes', 'become')} free"
    return (
        f"{counted(len(pools), 'pool')} with {counted(before, 'pod')} now: {wanted} a pool makes"
        f" {counted(wanted * len(pools), 'pod')}; {change}."
    )


def _delete_consequence(pools: Sequence[StockPool], _: Values) -> str:
    pods = sum(pool.desired_replicas for pool in pools)
    gpus = sum(map(_held, pools))
    return (
        f"Deletes {counted(len(pools), 'stock pool')}: {counted(pods, 'pod', 'ends', 'end')}"
        f" and {counted(gpus, 'GPU', 'becomes', 'become')} free. It cannot be undone."
    )


def _reconcile_consequence(pools: Sequence[StockPool], _: Values) -> str:
    paused = sum(1 for pool in pools if pool.failures)
    return (
        f"Looks at {counted(len(pools), 'pool')} now and brings the cluster to what is wanted;"
        f" {paused} of them waited out a pause after failures. Nothing else changes."
    )


def _held(pool: StockPool) -> int:
    """Return the GPUs that a pool holds, as the inventory counts them."""
    failed = pool.phase == PoolPhase.FAILED
    return (pool.available_replicas if failed else pool.desired_replicas) * _gpus(pool)


def _gpus(pool: StockPool) -> int:
    return count(pool.spec if isinstance(pool.spec, dict) else {}, "gpu")


CREATE: Final = Creation(form=PoolForm, title="Create a stock pool", service=_made)
POOL_ACTIONS: Final = (
    Action(
        name="scale",
        label="Scale",
        consequence=_scale_consequence,
        obstacle=is_going,
        service=_scaled,
        form=ScaleForm,
        present=lambda pool: {"replicas": pool.desired_replicas},
    ),
    Action(
        name="reconcile",
        label="Reconcile now",
        consequence=_reconcile_consequence,
        obstacle=_unseen,
        service=_reconciled,
    ),
    Action(
        name="delete",
        label="Delete",
        consequence=_delete_consequence,
        obstacle=is_going,
        service=_deleted,
        is_final=True,
    ),
)
