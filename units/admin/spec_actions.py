"""The admin actions on the catalogue, which call the services of the API."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from gpuplatform.adminkit.actions.action import Action, ActionRequest, ActionResult, Values
from gpuplatform.adminkit.actions.forms import DeclaredForm
from gpuplatform.adminkit.display.text import all_gpus_text, counted, humanize
from gpuplatform.operations.admin_actions import creation, result_of, service_call
from gpuplatform.samples.capacity import SpecCapacity
from gpuplatform.tenancy.selectors import tenant_by_name
from gpuplatform.workloads.resources import GPU_RESOURCE
from inventory.models import GpuSpec
from inventory.products import offered_products, possible_products
from inventory.requests.catalogue import COLUMNS, GpuSpecCreate, GpuSpecPatch
from inventory.services.catalogue import gpu_spec_create, gpu_spec_delete, gpu_spec_update
from units.admin.actions import seed_consequence
from units.requests import StockSeed
from units.selectors import capacity_by_spec
from units.services.stock import stock_seed

LABELS: Final = {
    "cpu": "CPU",
    "gpu": "GPUs",
    "resourceName": "GPU resource",
    "resources": "Further resources",
    "product": "GPU product",
    "imagePullSecrets": "Pull secrets",
    "topUpPaused": "Top-up paused",
    "restockOnDelete": "Restock on delete",
    "mayPreempt": "May preempt",
    "replicas": "Stock units",
}
HELP_TEXTS: Final = {
    "description": "Description of the GPU spec for users.",
    "resourceName": "Extended resource that the number of GPUs counts. Stock and units that exist"
    " keep theirs.",
    "topUpPaused": "Whether the automatic top-up is paused.",
    "enabled": "Whether units can claim stock of the spec. Disabling it removes the stock and"
    " keeps the units.",
}
_FIELDS: Final = (
    "description",
    "gpu",
    "resourceName",
    "resources",
    "cpu",
    "memory",
    "product",
    "placement",
    "warmImages",
    "imagePullSecrets",
    "warmTarget",
    "topUpPaused",
    "restockOnDelete",
    "mayPreempt",
    "enabled",
)


class SpecForm(DeclaredForm):
    """The form that creates a GPU spec."""

    declaration = GpuSpecCreate
    field_names = ("name", *_FIELDS)
    labels = LABELS
    help_texts: ClassVar[Mapping[str, str]] = {
        **HELP_TEXTS,
        "gpu": "Number of GPUs of one unit. Enter 0 for units without GPUs.",
        "product": "Required value of the node label nvidia.com/gpu.product. Leave empty for any"
        " GPU product.",
        "name": "Name of the GPU spec: at most 63 letters, digits, '-', '_' and '.'; it begins"
        " with a lowercase letter or a digit.",
    }
    defaults: ClassVar[Mapping[str, Any]] = {
        "resourceName": GPU_RESOURCE,
        "mayPreempt": True,
        "enabled": True,
    }


class EditForm(DeclaredForm):
    """The form that changes a GPU spec."""

    declaration = GpuSpecPatch
    field_names = _FIELDS
    labels = LABELS
    help_texts = HELP_TEXTS
    empty_values: ClassVar[Mapping[str, Any]] = {"resourceName": GPU_RESOURCE}
    is_change = True


class TargetForm(DeclaredForm):
    """The form that changes the warm target."""

    declaration = GpuSpecPatch
    field_names = ("warmTarget",)
    required_names = frozenset(field_names)


class CountForm(DeclaredForm):
    """The form for the number of stock units to seed."""

    declaration = StockSeed
    field_names = ("replicas",)
    labels = LABELS
    fixed_values: ClassVar[Mapping[str, Any]] = {"specName": "any"}


def _address(spec: GpuSpec) -> dict[str, Any]:
    return {"tenant": tenant_by_name(), "name": spec.name}


def _change(request: ActionRequest, **fixed: Any) -> ActionResult:
    body = request.parse(GpuSpecPatch, **fixed)
    accepted = gpu_spec_update(body=body, **_address(request.row))
    return result_of(accepted, "Changed by operation '{}'.")


def _pause(request: ActionRequest) -> ActionResult:
    return _change(request, topUpPaused=True)


def _resume(request: ActionRequest) -> ActionResult:
    return _change(request, topUpPaused=False)


def _seed(request: ActionRequest) -> ActionResult:
    body = request.parse(StockSeed, specName=request.row.name)
    return result_of(stock_seed(tenant=tenant_by_name(), body=body))


def _values(spec: GpuSpec) -> Values:
    """Return the values of a GPU spec by the field names of the API."""
    return {name: getattr(spec, column) for name, column in COLUMNS.items()}


def _seed_consequence(specs: Sequence[GpuSpec], values: Values) -> str:
    return seed_consequence(specs, int(values["replicas"]))


def _target_consequence(specs: Sequence[GpuSpec], values: Values) -> str:
    target = int(values["warmTarget"])
    before = sum(spec.warm_target for spec in specs)
    topped_up = [spec for spec in specs if spec.is_enabled and not spec.is_top_up_paused]
    missing = _missing(topped_up, {spec.name: target for spec in topped_up})
    gpus = all_gpus_text((spec.resource_name, missing[spec.name] * spec.gpu) for spec in topped_up)
    each = f" ({target} for each of {len(specs)} GPU specs)" if len(specs) > 1 else ""
    idle = len(specs) - len(topped_up)
    skipped = f" {counted(idle, 'GPU spec', 'is', 'are')} disabled or paused, and not topped up."
    return (
        f"Warm target: {before} → {target * len(specs)}{each}. The top-up creates"
        f" {counted(sum(missing.values()), 'stock unit')} with {gpus}; surplus"
        f" stock is kept.{skipped if idle else ''}"
    )


def _pause_consequence(specs: Sequence[GpuSpec], _: Values) -> str:
    ready = sum(one.ready for one in _counts(specs))
    target = sum(spec.warm_target for spec in specs)
    return (
        f"Automatic top-up of {counted(len(specs), 'GPU spec')} stops until it is resumed."
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
        f"Deletes {counted(len(specs), 'GPU spec')}, including the warm target."
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
    outcome = "removed" if values.get("enabled") is False else "kept"
    return (
        f"Changes {counted(len(values), 'setting')} ({changes}). {stock} {outcome};"
        f" {counted(counts.active, 'active unit', 'is', 'are')} not affected."
    )


def _missing(specs: Sequence[GpuSpec], targets: Mapping[str, int]) -> dict[str, int]:
    """Return the number of stock units that are missing from the target of each spec."""
    held = {one.name: one.ready + one.starting for one in _counts(specs)}
    return {name: max(target - held.get(name, 0), 0) for name, target in targets.items()}


def _counts(specs: Sequence[GpuSpec]) -> list[SpecCapacity]:
    names = {spec.name for spec in specs}
    return [one for one in capacity_by_spec() if one.name in names]


def _seed_obstacle(spec: GpuSpec) -> str:
    return "" if spec.is_enabled else "The GPU spec is disabled. Enable it first."


def _pause_obstacle(spec: GpuSpec) -> str:
    return "The top-up is already paused." if spec.is_top_up_paused else ""


def _resume_obstacle(spec: GpuSpec) -> str:
    return "" if spec.is_top_up_paused else "The top-up is not paused."


def _delete_obstacle(spec: GpuSpec) -> str:
    enabled = "The GPU spec is enabled. Disable it first; this also removes its stock."
    return enabled if spec.is_enabled else ""


def _create_consequence(values: Values) -> str:
    """Return the GPU products of which a unit can get any; empty unless there are several."""
    columns = {COLUMNS[name]: value for name, value in values.items() if name in COLUMNS}
    products = possible_products(GpuSpec(**columns), offered_products()) or ()
    if len(products) < 2:
        return ""
    return (
        f"Creates the GPU spec '{values['name']}' without a GPU product. A unit gets any of"
        f" {len(products)} products: {', '.join(products)}."
    )


CREATE: Final = creation(
    "Create GPU spec",
    SpecForm,
    gpu_spec_create,
    GpuSpec.objects,
    consequence=_create_consequence,
)
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
        service=service_call(gpu_spec_delete, _address, "Deleted by operation '{}'."),
        is_final=True,
    ),
)
