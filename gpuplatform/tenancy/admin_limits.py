"""The limits of a tenant in the admin: bars of their use, and the form that replaces them."""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from django.db import transaction
from django.utils.html import format_html
from django.utils.safestring import SafeString

from gpuplatform.adminkit.actions.action import Action, ActionRequest, ActionResult, Values
from gpuplatform.adminkit.actions.forms import DeclaredForm
from gpuplatform.adminkit.detail.panels import Fact
from gpuplatform.adminkit.display.charts import Segment, stacked_bar
from gpuplatform.adminkit.display.text import humanize, visible
from gpuplatform.tenancy.models import Tenant
from gpuplatform.tenancy.quota import Usage, limits_of, usage_of
from gpuplatform.tenancy.requests import TenantLimitsForm
from gpuplatform.tenancy.resources import Resource, spec_resource
from gpuplatform.tenancy.services import tenant_limits_replace, tenant_lock_for_change

_SPEC_PREFIX: Final = spec_resource("")


_LABELS: Final = {"gpus": "GPUs", "tokens": "API tokens", "specs": "GPUs by GPU spec"}


class LimitsForm(DeclaredForm):
    """The form that replaces the limits of a tenant."""

    declaration = TenantLimitsForm
    field_names = (*(one.value for one in Resource), "specs")
    labels: ClassVar[Mapping[str, str]] = _LABELS


def _replace(request: ActionRequest) -> ActionResult:
    limits = request.parse(TenantLimitsForm).limits()
    with transaction.atomic():
        tenant_lock_for_change(request.row)
        before = limits_of(request.row.pk)
        is_changed = tenant_limits_replace(request.row, limits)
    if not is_changed:
        return ActionResult("The limits are unchanged.", is_replay=True)
    return ActionResult(
        "The limits are changed.", changed=({"limits": before}, {"limits": limits})
    )


def _consequence(rows: Sequence[Tenant], values: Values) -> str:
    numbers = {name: value for name, value in values.items() if name != "specs"}
    numbers |= {spec_resource(name): hard for name, hard in (values.get("specs") or {}).items()}
    shown = ", ".join(f"{name} {hard}" for name, hard in sorted(numbers.items()))
    return (
        f"The limits of '{rows[0]}' will be: {shown or 'none'}. Nothing in use is stopped; if the"
        " tenant uses more than a limit, nothing new starts."
    )


def _initial(tenant: Tenant) -> Values:
    limits = limits_of(tenant.pk)
    specs = {
        name.removeprefix(_SPEC_PREFIX): hard
        for name, hard in limits.items()
        if name.startswith(_SPEC_PREFIX)
    }
    return {**{name: limits[name] for name in limits if name in set(Resource)}, "specs": specs}


LIMITS: Final = Action(
    name="quota",
    label="Change limits",
    consequence=_consequence,
    service=_replace,
    form=LimitsForm,
    initial=_initial,
    is_of_one=True,
    is_direct=True,
)


def limit_facts(tenant: Tenant) -> list[Fact]:
    """Return a fact with a bar for each limit of a tenant."""
    limits = limits_of(tenant.pk)
    usage = usage_of([tenant.pk])[tenant.pk] if limits else {}
    return [
        Fact(f"Limit of {_label(name)}", _bar(usage.get(name, Usage()), hard))
        for name, hard in limits.items()
    ]


def _label(resource: str) -> str:
    if resource.startswith(_SPEC_PREFIX):
        return f"GPUs of {visible(resource.removeprefix(_SPEC_PREFIX))}"
    return _LABELS.get(resource) or humanize(resource).lower()


def _bar(usage: Usage, hard: int) -> SafeString:
    text = f"{usage.used} of {hard} used"
    if usage.releasing:
        text += f", {usage.releasing} being released"
    segments = [
        Segment("active", usage.used - usage.releasing, "used"),
        Segment("deleting", usage.releasing, "being released"),
        Segment("free", max(hard - usage.used, 0), "left"),
    ]
    return format_html("{} {}", text, stacked_bar(segments, text, mark=hard))
