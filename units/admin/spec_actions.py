"""What operators do about the catalogue in the admin, by the services that the API calls too."""

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
    "topUpPaused": "Top-up is paused",
    "restockOnDelete": "Restock on delete",
    "mayPreempt": "May preempt",
    "replicas": "Stock units",
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
    """Asks for a new entry of the catalogue."""

    declaration = GpuSpecCreate
    field_names = ("name", *_FIELDS)
    labels = LABELS
    help_texts: ClassVar[Mapping[str, str]] = {
        "name": "By which it is asked for: at most 63 letters, digits, '-', '_' and '.'; a"
        " lower-case letter or a digit first."
    }
    defaults: ClassVar[Mapping[str, Any]] = {"mayPreempt": True, "enabled": True}


class EditForm(DeclaredForm):
    """Asks for what changes of an entry."""

    declaration = GpuSpecPatch
    field_names = _FIELDS
    labels = LABELS
    is_change = True


class TargetForm(DeclaredForm):
    """Asks how much ready stock is kept."""

    declaration = GpuSpecPatch
    field_names = ("warmTarget",)
    required_names = frozenset(field_names)


class CountForm(DeclaredForm):
    """Asks how much stock is made."""

    declaration = StockSeed
    field_names = ("replicas",)
    labels = LABELS
    fixed_values: ClassVar[Mapping[str, Any]] = {"specName": "any"}


def _made(operation_id: str, values: Values) -> tuple[ActionResult, GpuSpec]:
    asked = GpuSpecCreate.parse({**values, OPERATION_ID: operation_id})
    accepted = gpu_spec_create(tenant=tenant_by_name(), body=asked)
    return result_of(accepted), GpuSpec.objects.get(pk=accepted.operation.object_row or 0)


def _changed(asked: ActionRequest) -> ActionResult:
    return _patched(asked, asked.values)


def _paused(asked: ActionRequest) -> ActionResult:
    return _patched(asked, {"topUpPaused": True})


def _resumed(asked: ActionRequest) -> ActionResult:
    return _patched(asked, {"topUpPaused": False})


def _patched(asked: ActionRequest, values: Values) -> ActionResult:
    wanted = GpuSpecPatch.parse({**values, OPERATION_ID: asked.operation_id})
    accepted = gpu_spec_update(tenant=tenant_by_name(), name=asked.row.name, body=wanted)
    return result_of(accepted, "Changed by the job '{}'.")


def _seeded(asked: ActionRequest) -> ActionResult:
    body = {**asked.values, "specName": asked.row.name, OPERATION_ID: asked.operation_id}
    return result_of(stock_seed(tenant=tenant_by_name(), body=StockSeed.parse(body)))


def _deleted(asked: ActionRequest) -> ActionResult:
    accepted = gpu_spec_delete(
        tenant=tenant_by_name(), name=asked.row.name, operation_id=asked.operation_id
    )
    return result_of(accepted, "Removed by the job '{}'.")


def present_values(spec: GpuSpec) -> Values:
    """Return what an entry says, by the API's names."""
    return {name: getattr(spec, column) for name, column in COLUMNS.items()}


def _seed_consequence(specs: Sequence[GpuSpec], values: Values) -> str:
    each = int(values["replicas"])
    gpus = sum(each * spec.gpu for spec in specs)
    ready = sum(one.ready for one in _counts(specs))
    return (
        f"Makes {counted(each * len(specs), 'stock unit')} of {counted(len(specs), 'GPU spec')};"
        f" {counted(gpus, 'GPU', 'is', 'are')} taken for them."
        f" {counted(ready, 'stock unit', 'is', 'are')} ready without them."
    )


def _target_consequence(specs: Sequence[GpuSpec], values: Values) -> str:
    target = int(values["warmTarget"])
    before = sum(spec.warm_target for spec in specs)
    tended = [spec for spec in specs if spec.is_enabled and not spec.is_top_up_paused]
    missing = _missing(tended, {spec.name: target for spec in tended})
    gpus = sum(missing[spec.name] * spec.gpu for spec in tended)
    idle = len(specs) - len(tended)
    paused = f" For {idle} of them nothing is made: disabled, or the top-up is paused."
    return (
        f"Keeps {target} ready of each of {counted(len(specs), 'GPU spec')},"
        f" {target * len(specs)} together in place of {before}. The top-up makes"
        f" {counted(sum(missing.values()), 'stock unit')} for it, with {counted(gpus, 'GPU')};"
        " what is there beyond it stays." + (paused if idle else "")
    )


def _pause_consequence(specs: Sequence[GpuSpec], _: Values) -> str:
    ready = sum(one.ready for one in _counts(specs))
    return (
        f"No stock is made by itself of {counted(len(specs), 'GPU spec')} until the top-up is"
        f" resumed; {counted(ready, 'stock unit', 'is', 'are')} ready now, of"
        f" {sum(spec.warm_target for spec in specs)} wanted."
    )


def _resume_consequence(specs: Sequence[GpuSpec], _: Values) -> str:
    missing = sum(_missing(specs, {spec.name: spec.warm_target for spec in specs}).values())
    return (
        f"Keeps the warm targets of {counted(len(specs), 'GPU spec')} again:"
        f" {counted(missing, 'stock unit', 'is', 'are')} missing now."
    )


def _delete_consequence(specs: Sequence[GpuSpec], _: Values) -> str:
    counts = _counts(specs)
    active, stock = sum(one.active for one in counts), sum(one.total for one in counts)
    return (
        f"Removes {counted(len(specs), 'GPU spec')} from the catalogue, with the warm targets."
        f" {counted(active, 'unit')} in use and {counted(stock, 'stock unit')} of that name stay"
        " as they are."
    )


def _edit_consequence(specs: Sequence[GpuSpec], values: Values) -> str:
    (spec,) = specs
    before = present_values(spec)
    changes = "; ".join(
        f"{LABELS.get(name) or humanize(name)}: {before[name]} → {value}"
        for name, value in values.items()
    )
    (stands,) = _counts(specs) or [SpecCapacity(name=spec.name)]
    is_drained = values.get("enabled") is False
    stock = counted(stands.total, "stock unit", "is removed", "are removed")
    if not is_drained:
        stock = counted(stands.total, "stock unit", "stays as it is", "stay as they are")
    return (
        f"Changes {counted(len(values), 'setting')} ({changes}). {stock};"
        f" {counted(stands.active, 'unit')} in use will not be touched."
    )


def _missing(specs: Sequence[GpuSpec], targets: Mapping[str, int]) -> dict[str, int]:
    """Return how much stock of each spec is missing to its target."""
    held = {one.name: one.ready + one.starting for one in _counts(specs)}
    return {name: max(target - held.get(name, 0), 0) for name, target in targets.items()}


def _counts(specs: Sequence[GpuSpec]) -> list[SpecCapacity]:
    names = {spec.name for spec in specs}
    return [one for one in capacity_by_spec() if one.name in names]


def _not_seedable(spec: GpuSpec) -> str:
    return "" if spec.is_enabled else "It is disabled. Enable it first."


def _not_pausable(spec: GpuSpec) -> str:
    return "Its top-up is paused already." if spec.is_top_up_paused else ""


def _not_resumable(spec: GpuSpec) -> str:
    return "" if spec.is_top_up_paused else "Its top-up is not paused."


def _not_deletable(spec: GpuSpec) -> str:
    enabled = "It is enabled. Disable it first; its stock is then removed."
    return enabled if spec.is_enabled else ""


CREATE: Final = Creation(form=SpecForm, title="Enter a GPU spec", service=_made)
SPEC_ACTIONS: Final = (
    Action(
        name="seed",
        label="Seed stock",
        consequence=_seed_consequence,
        obstacle=_not_seedable,
        service=_seeded,
        form=CountForm,
    ),
    Action(
        name="target",
        label="Set warm target",
        consequence=_target_consequence,
        service=_changed,
        form=TargetForm,
        present=present_values,
    ),
    Action(
        name="pause",
        label="Pause top-up",
        consequence=_pause_consequence,
        obstacle=_not_pausable,
        service=_paused,
    ),
    Action(
        name="resume",
        label="Resume top-up",
        consequence=_resume_consequence,
        obstacle=_not_resumable,
        service=_resumed,
        right="pause",
    ),
    Action(
        name="edit",
        label="Change settings",
        consequence=_edit_consequence,
        service=_changed,
        form=EditForm,
        present=present_values,
        right="change",
        is_of_one=True,
    ),
    Action(
        name="delete",
        label="Delete",
        consequence=_delete_consequence,
        obstacle=_not_deletable,
        service=_deleted,
        is_final=True,
    ),
)
