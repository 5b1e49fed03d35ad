"""Actions on the catalogue in the admin, by the services of the API."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from gpuplatform.adminkit.actions.action import (
    Action,
    ActionRequest,
    ActionResult,
    Creation,
    Values,
    counted,
)
from gpuplatform.adminkit.actions.forms import OPERATION_ID, DeclaredForm
from gpuplatform.adminkit.display.text import humanize
from gpuplatform.operations.admin_actions import result_of
from gpuplatform.samples.capacity import SpecCapacity
from gpuplatform.tenancy.selectors import tenant_by_name
from inventory.models import GpuSpec
from inventory.requests.catalogue import COLUMNS, GpuSpecCreate, GpuSpecPatch
from inventory.services.catalogue import gpu_spec_create, gpu_spec_delete, gpu_spec_update
from units.requests import StockSeed
from units.selectors import capacity_by_spec
from units.services.stock import stock_seed

LABELS: Final = {
    "cpu": "CPU",
    "gpu": "GPUs",
    "product": "GPU product",
    "topUpPaused": "Top-up paused",
    "restockOnDelete": "Restock on delete",
    "mayPreempt": "May preempt",
    "replicas": "Stock units",
}
HELP_TEXTS: Final = {
    "description": "Shown to users.",
    "topUpPaused": "Pause automatic top-up.",
    "enabled": "When off: no new claims or stock, existing stock is removed, units are kept.",
}
_FIELDS: Final = (
    "description",
    "gpu",
    "cpu",
    "memory",
    "product",
    "placement",
    "warmTarget",
    "topUpPaused",
    "restockOnDelete",
    "mayPreempt",
    "enabled",
)


class SpecForm(DeclaredForm):
    """The form of a new GPU spec."""

    declaration = GpuSpecCreate
    field_names = ("name", *_FIELDS)
    labels = LABELS
    help_texts: ClassVar[Mapping[str, str]] = {
        **HELP_TEXTS,
        "name": "The name in requests: up to 63 letters, digits, '-', '_' and '.', beginning with"
        " a lower-case letter or a digit.",
    }
    defaults: ClassVar[Mapping[str, Any]] = {"mayPreempt": True, "enabled": True}


class EditForm(DeclaredForm):
    """The form that changes a GPU spec."""

    declaration = GpuSpecPatch
    field_names = _FIELDS
    labels = LABELS
    help_texts = HELP_TEXTS
    is_change = True


class TargetForm(DeclaredForm):
    """The warm target."""

    declaration = GpuSpecPatch
    field_names = ("warmTarget",)
    required_names = frozenset(field_names)


class CountForm(DeclaredForm):
    """The number of stock units to seed."""

    declaration = StockSeed
    field_names = ("replicas",)
    labels = LABELS
    fixed_values: ClassVar[Mapping[str, Any]] = {"specName": "any"}


def _create(operation_id: str, values: Values) -> tuple[ActionResult, GpuSpec]:
    body = GpuSpecCreate.parse({**values, OPERATION_ID: operation_id})
    accepted = gpu_spec_create(tenant=tenant_by_name(), body=body)
    return result_of(accepted), GpuSpec.objects.get(pk=accepted.operation.object_row or 0)


def _change(request: ActionRequest) -> ActionResult:
    return _patch(request, request.values)


def _pause(request: ActionRequest) -> ActionResult:
    return _patch(request, {"topUpPaused": True})


def _resume(request: ActionRequest) -> ActionResult:
    return _patch(request, {"topUpPaused": False})


def _patch(request: ActionRequest, values: Values) -> ActionResult:
    body = GpuSpecPatch.parse({**values, OPERATION_ID: request.operation_id})
    accepted = gpu_spec_update(tenant=tenant_by_name(), name=request.row.name, body=body)
    return result_of(accepted, "Changed by operation '{}'.")


def _seed(request: ActionRequest) -> ActionResult:
    body = {**request.values, "specName": request.row.name, OPERATION_ID: request.operation_id}
    return result_of(stock_seed(tenant=tenant_by_name(), body=StockSeed.parse(body)))


def _delete(request: ActionRequest) -> ActionResult:
    accepted = gpu_spec_delete(
        tenant=tenant_by_name(), name=request.row.name, operation_id=request.operation_id
    )
    return result_of(accepted, "Deleted by operation '{}'.")


def _values(spec: GpuSpec) -> Values:
    """Return the columns of a GPU spec by the API's names."""
    return {name: getattr(spec, column) for name, column in COLUMNS.items()}


def _seed_consequence(specs: Sequence[GpuSpec], values: Values) -> str:
    each = int(values["replicas"])
    gpus = sum(each * spec.gpu for spec in specs)
    ready = sum(one.ready for one in _counts(specs))
    return (
        f"Creates {counted(each * len(specs), 'stock unit')} of {counted(len(specs), 'GPU spec')}"
        f" with {counted(gpus, 'GPU')}. {counted(ready, 'stock unit', 'is', 'are')} ready now."
    )


def _target_consequence(specs: Sequence[GpuSpec], values: Values) -> str:
    target = int(values["warmTarget"])
    before = sum(spec.warm_target for spec in specs)
    topped_up = [spec for spec in specs if spec.is_enabled and not spec.is_top_up_paused]
    missing = _missing(topped_up, {spec.name: target for spec in topped_up})
    gpus = sum(missing[spec.name] * spec.gpu for spec in topped_up)
    each = f" ({target} for each of {len(specs)} GPU specs)" if len(specs) > 1 else ""
    idle = len(specs) - len(topped_up)
    skipped = f" {counted(idle, 'GPU spec', 'is', 'are')} disabled or paused and not topped up."
    return (
        f"Warm target: {before} → {target * len(specs)}{each}. The top-up creates"
        f" {counted(sum(missing.values()), 'stock unit')} with {counted(gpus, 'GPU')}; surplus"
        f" stock is kept.{skipped if idle else ''}"
    )


def _pause_consequence(specs: Sequence[GpuSpec], _: Values) -> str:
    ready = sum(one.ready for one in _counts(specs))
    target = sum(spec.warm_target for spec in specs)
    return (
        f"Automatic top-up of {counted(len(specs), 'GPU spec')} stops until resumed."
        f" {counted(ready, 'stock unit', 'is', 'are')} ready; the warm target is {target}."
    )


def _resume_consequence(specs: Sequence[GpuSpec], _: Values) -> str:
    missing = sum(_missing(specs, {spec.name: spec.warm_target for spec in specs}).values())
    return (
        f"Automatic top-up of {counted(len(specs), 'GPU spec')} resumes and creates"
        f" {counted(missing, 'stock unit')}."
    )


def _delete_consequence(specs: Sequence[GpuSpec], _: Values) -> str:
    counts = _counts(specs)
    active, stock = sum(one.active for one in counts), sum(one.total for one in counts)
    return (
        f"Deletes {counted(len(specs), 'GPU spec')} with the warm target."
        f" {counted(active, 'active unit')} and {counted(stock, 'stock unit')} are kept. This"
        " cannot be undone."
    )


def _edit_consequence(specs: Sequence[GpuSpec], values: Values) -> str:
    (spec,) = specs
    before = _values(spec)
    changes = "; ".join(
        f"{LABELS.get(name) or humanize(name)}: {before[name]} → {value}"
        for name, value in values.items()
    )
    (counts,) = _counts(specs) or [SpecCapacity(name=spec.name)]
    stock = counted(counts.total, "stock unit", "is", "are")
    fate = "removed" if values.get("enabled") is False else "kept"
    return (
        f"Changes {counted(len(values), 'setting')} ({changes}). {stock} {fate};"
        f" {counted(counts.active, 'active unit', 'is', 'are')} not affected."
    )


def _missing(specs: Sequence[GpuSpec], targets: Mapping[str, int]) -> dict[str, int]:
    """Return the number of stock units that each spec lacks to its target."""
    held = {one.name: one.ready + one.starting for one in _counts(specs)}
    return {name: max(target - held.get(name, 0), 0) for name, target in targets.items()}


def _counts(specs: Sequence[GpuSpec]) -> list[SpecCapacity]:
    names = {spec.name for spec in specs}
    return [one for one in capacity_by_spec() if one.name in names]


def _seed_obstacle(spec: GpuSpec) -> str:
    return "" if spec.is_enabled else "Disabled. Enable the GPU spec first."


def _pause_obstacle(spec: GpuSpec) -> str:
    return "Top-up already paused." if spec.is_top_up_paused else ""


def _resume_obstacle(spec: GpuSpec) -> str:
    return "" if spec.is_top_up_paused else "Top-up not paused."


def _delete_obstacle(spec: GpuSpec) -> str:
    enabled = "Enabled. Disable the GPU spec first, which also removes its stock."
    return enabled if spec.is_enabled else ""


CREATE: Final = Creation(form=SpecForm, title="Create GPU spec", service=_create)
SPEC_ACTIONS: Final = (
    Action(
        name="seed",
        label="Seed stock",
        consequence=_seed_consequence,
        obstacle=_seed_obstacle,
        service=_seed,
        form=CountForm,
    ),
    Action(
        name="target",
        label="Set warm target",
        consequence=_target_consequence,
        service=_change,
        form=TargetForm,
        initial=_values,
    ),
    Action(
        name="pause",
        label="Pause top-up",
        consequence=_pause_consequence,
        obstacle=_pause_obstacle,
        service=_pause,
    ),
    Action(
        name="resume",
        label="Resume top-up",
        consequence=_resume_consequence,
        obstacle=_resume_obstacle,
        service=_resume,
        permission="pause",
    ),
    Action(
        name="edit",
        label="Change settings",
        consequence=_edit_consequence,
        service=_change,
        form=EditForm,
        initial=_values,
        permission="change",
        is_of_one=True,
    ),
    Action(
        name="delete",
        label="Delete",
        consequence=_delete_consequence,
        obstacle=_delete_obstacle,
        service=_delete,
        is_final=True,
    ),
)
