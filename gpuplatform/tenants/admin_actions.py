"""The admin actions on tenants, which call the services of the API."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from gpuplatform.adminkit.actions.action import Action, ActionRequest, ActionResult, Values
from gpuplatform.adminkit.actions.forms import DeclaredForm
from gpuplatform.adminkit.display.text import counted, humanize, visible
from gpuplatform.operations.admin_actions import creation, result_of, service_call
from gpuplatform.tenancy.models import DEFAULT_TENANT_NAME, ApiToken, Tenant
from gpuplatform.tenancy.phases import NamespaceOrigin, TenantPhase
from gpuplatform.tenancy.selectors import tenant_by_name
from gpuplatform.tenants.requests import TenantCreate, TenantPatch
from gpuplatform.tenants.services.contents import contents_text, running_units, tenant_contents
from gpuplatform.tenants.services.tenants import (
    tenant_create,
    tenant_request_deletion,
    tenant_resume,
    tenant_suspend,
    tenant_update,
)

COLUMNS: Final = {"displayName": "display_name", "weight": "weight"}
"""The columns of the settings, by the field names of the API."""


class TenantForm(DeclaredForm):
    """The form that creates a tenant."""

    declaration = TenantCreate
    field_names = ("name", "displayName", "weight", "namespace", "adoptNamespace")
    labels: ClassVar[Mapping[str, str]] = {"adoptNamespace": "Adopt the namespace"}
    help_texts: ClassVar[Mapping[str, str]] = {
        "namespace": "Namespace of the tenant. Leave empty for tenant- and the name.",
        "adoptNamespace": "Confirms that the tenant gets an existing namespace. The platform never"
        " deletes it.",
    }
    defaults: ClassVar[Mapping[str, Any]] = {"weight": 1}


class EditForm(DeclaredForm):
    """The form that changes the settings of a tenant."""

    declaration = TenantPatch
    field_names = ("displayName", "weight")
    is_change = True


def _address(tenant: Tenant) -> dict[str, Any]:
    return {"tenant": tenant_by_name(), "name": tenant.name}


def _change(request: ActionRequest) -> ActionResult:
    body = request.parse(TenantPatch)
    accepted = tenant_update(body=body, **_address(request.row))
    return result_of(accepted, "Changed by operation '{}'.")


def _values(tenant: Tenant) -> Values:
    return {name: getattr(tenant, column) for name, column in COLUMNS.items()}


def _names(tenants: Sequence[Tenant]) -> str:
    return f"'{tenants[0]}'" if len(tenants) == 1 else f"{len(tenants)} tenants"


def _edit_consequence(tenants: Sequence[Tenant], values: Values) -> str:
    (tenant,) = tenants
    before = _values(tenant)
    changes = "; ".join(
        f"{humanize(name)}: {visible(str(before[name])) or 'none'} → {visible(str(value))}"
        for name, value in values.items()
    )
    return (
        f"Changes {counted(len(values), 'setting')} of '{tenant}' ({changes}). Units keep running;"
        " the weight changes the order in which waiting requests get stock."
    )


def _suspend_consequence(tenants: Sequence[Tenant], _: Values) -> str:
    running = [running_units(tenant) for tenant in tenants]
    units, gpus = sum(one.units for one in running), sum(one.gpus for one in running)
    waiting = sum(one.waiting for one in running)
    requests = counted(waiting, "waiting request", "keeps its place", "keep their places")
    tokens = ApiToken.objects.filter(tenant__in=tenants, revoked_at__isnull=True).count()
    return (
        f"Stops {counted(units, 'GPU unit')} of {_names(tenants)} and releases"
        f" {counted(gpus, 'GPU')}. {counted(tokens, 'token')} can only read. {requests} and"
        " cannot get stock. Functions get no workers. Data is kept."
    )


def _resume_consequence(tenants: Sequence[Tenant], _: Values) -> str:
    waiting = sum(running_units(tenant).waiting for tenant in tenants)
    return (
        f"{_names(tenants)[:1].upper()}{_names(tenants)[1:]} can create and start units again."
        f" {counted(waiting, 'waiting request')} can get stock. Stopped units remain stopped."
    )


def _delete_consequence(tenants: Sequence[Tenant], _: Values) -> str:
    texts = {one.name: contents_text(tenant_contents(one)) for one in tenants}
    if used := [f"'{name}' has {text}" for name, text in texts.items() if text]:
        return f"A tenant with objects is not deleted: {'; '.join(used)}. Delete them first."
    created = sum(one.namespace_origin == NamespaceOrigin.CREATED for one in tenants)
    tokens = ApiToken.objects.filter(tenant__in=tenants).count()
    return (
        f"Deletes {_names(tenants)} with {counted(tokens, 'token')}, and"
        f" {counted(created, 'namespace')} with everything in it, such as Secrets. The name cannot"
        " be used again for 30 days. This cannot be undone."
    )


def _default_obstacle(tenant: Tenant) -> str:
    if tenant.name == DEFAULT_TENANT_NAME:
        return "The operations of the platform belong to this tenant."
    return ""


def _unfinished_obstacle(tenant: Tenant) -> str:
    if tenant.phase in {TenantPhase.ACTIVE, TenantPhase.SUSPENDED}:
        return ""
    return f"The phase of the tenant is {tenant.phase}."


def _suspend_obstacle(tenant: Tenant) -> str:
    is_suspended = tenant.phase == TenantPhase.SUSPENDED
    return (
        _default_obstacle(tenant)
        or _unfinished_obstacle(tenant)
        or ("The tenant is already suspended." if is_suspended else "")
    )


def _resume_obstacle(tenant: Tenant) -> str:
    is_suspended = tenant.phase == TenantPhase.SUSPENDED
    return "" if is_suspended else "The tenant is not suspended."


def _delete_obstacle(tenant: Tenant) -> str:
    return _default_obstacle(tenant) or _unfinished_obstacle(tenant)


CREATE: Final = creation("Create tenant", TenantForm, tenant_create, Tenant.objects)
TENANT_ACTIONS: Final = (
    Action(
        name="settings",
        label="Change settings",
        consequence=_edit_consequence,
        service=_change,
        obstacle=_unfinished_obstacle,
        form=EditForm,
        initial=_values,
        permission="change",
        is_of_one=True,
    ),
    Action(
        name="suspend",
        label="Suspend",
        consequence=_suspend_consequence,
        obstacle=_suspend_obstacle,
        service=service_call(tenant_suspend, _address, "Suspended by operation '{}'."),
    ),
    Action(
        name="resume",
        label="Resume",
        consequence=_resume_consequence,
        obstacle=_resume_obstacle,
        service=service_call(tenant_resume, _address, "Resumed by operation '{}'."),
        permission="suspend",
    ),
    Action(
        name="delete",
        label="Delete",
        consequence=_delete_consequence,
        obstacle=_delete_obstacle,
        service=service_call(tenant_request_deletion, _address),
        is_final=True,
    ),
)
