"""Texts that the admin renders from its declarations, reviewed in tests/golden/admin/pages.txt.

Other tests assert values; a sentence of a page is asserted here and in
tests/contract/test_admin_texts.py only.
"""

from collections.abc import Callable, Iterator, Sequence
from html import unescape
from typing import Any

import pytest
from django import forms
from django.contrib.admin import site
from django.contrib.admin.utils import label_for_field
from django.contrib.auth.models import Group, User
from django.db.models import Model
from django.test import RequestFactory
from django.utils.html import strip_tags
from django_celery_beat.models import CrontabSchedule, IntervalSchedule, PeriodicTask

from gpuplatform.adminkit.actions.action import Action
from gpuplatform.adminkit.actions.model_admin import ActionAdmin
from gpuplatform.adminkit.lists.model_admin import PlatformModelAdmin, ReadOnlyAdmin
from gpuplatform.adminkit.site.navigation import place_of
from gpuplatform.operations.models import Operation
from gpuplatform.tenancy.models import ApiToken, Membership, Tenant
from gpuplatform.tenancy.permissions import Role
from gpuplatform.tenancy.selectors import tenant_by_name
from gpuplatform.tenancy.services import member_set
from inventory.models import GpuSpec, Node, StockPool
from serverless.models import Function, Invocation
from tests.conftest import GoldenFiles
from tests.factories.admin_rows import Rows
from tests.factories.node_rows import node_row
from tests.factories.serverless import accept, function_row
from tests.factories.unit_rows import group_row, spec_row, stock_row, unit_row
from tests.fakes.installed import cluster
from units.models import ActiveUnit, CapacityRequest, StockUnit, UnitGroup

__all__ = ["cluster"]

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("cluster")]

VALUES: dict[str, dict[str, Any]] = {
    "scale": {"replicas": 5, "minWorkers": 1, "maxWorkers": 4},
    "seed": {"replicas": 3},
    "target": {"warmTarget": 4},
    "limit": {"maxPriority": 40},
    "quota": {"gpus": 8, "specs": {"g1.1": 4}},
    "edit": {"warmTarget": 4, "enabled": False},
    "settings": {"weight": 4},
    "drain": {"units": "stop", "noticeMinutes": 30},
}
"""Entered values of the actions with a form."""


def _proxy(model: type[Model], row: Model) -> Model:
    return model._default_manager.get(pk=row.pk)


def _token(number: int) -> ApiToken:
    return ApiToken.objects.create(
        name=f"token-{number}", tenant=tenant_by_name(), scopes=["user"], digest=f"{number:064}"
    )


SAMPLES: dict[type[Model], Callable[[Rows, int], Model]] = {
    Operation: lambda rows, _: rows.operation("Failed", progress_total=3, progress_done=1),
    StockPool: lambda rows, _: rows.pool(),
    Node: lambda _, number: node_row(f"gpu-node-{number}"),
    GpuSpec: lambda _, number: spec_row(f"g{number}.1", gpu=2, warm_target=1),
    StockUnit: lambda _, number: _proxy(StockUnit, stock_row(name=f"stock-{number}", gpu=2)),
    ActiveUnit: lambda _, number: _proxy(ActiveUnit, unit_row(name=f"unit-{number}", gpu=2)),
    UnitGroup: lambda _, number: group_row(f"group-{number}"),
    CapacityRequest: lambda rows, number: rows.capacity_request(number),
    Function: lambda _, number: function_row(f"function-{number}"),
    Invocation: lambda _, number: accept(function_row(f"called-{number}")),
    Tenant: lambda _, number: Tenant.objects.create(
        name=f"tenant-{number}", namespace=f"tenant-{number}"
    ),
    ApiToken: lambda _, number: _token(number),
    Membership: lambda _, number: member_set(
        tenant=tenant_by_name(), user=None, group=f"group-{number}", role=Role.MEMBER
    ),
    PeriodicTask: lambda _, number: PeriodicTask(name=f"task-{number}", task=f"task{number}"),
    IntervalSchedule: lambda _, number: IntervalSchedule(every=10 * number, period="seconds"),
    CrontabSchedule: lambda _, number: CrontabSchedule(minute=str(number)),
    User: lambda _, number: User.objects.create_user(f"person-{number}"),
    Group: lambda _, number: Group.objects.order_by("name")[number - 1],
}
"""Creates a sample row of a model, by its number."""


def test_the_texts_of_the_pages_are_as_reviewed(
    golden: GoldenFiles, rows: Rows, operator: User
) -> None:
    request = RequestFactory().get("/admin/")
    request.user = operator
    pages = sorted(site._registry.values(), key=lambda page: place_of(page.opts.label_lower))

    texts = ["\n".join(_page(page, request, rows)) for page in pages]

    golden("admin/pages.txt").check("\n\n".join(texts) + "\n")


def _page(page: Any, request: Any, rows: Rows) -> Iterator[str]:
    title = str(page.opts.verbose_name_plural)
    yield f"# {title[:1].upper()}{title[1:]}"
    yield from _list(page)
    create = SAMPLES.get(page.model)
    samples = [create(rows, number) for number in (1, 2)] if create else []
    if isinstance(page, ActionAdmin):
        for action in page.row_actions:
            yield from _action(action, samples)
        if page.creation:
            yield from _form(page.creation.title, page.creation.form())
    elif isinstance(page, PlatformModelAdmin) and not isinstance(page, ReadOnlyAdmin):
        yield from _form("Change", page.get_form(request, samples[0], change=True)())
        for some in (samples[:1], samples):
            yield f"Delete {len(some)}: {page.deletion(some).consequence}"
    if not getattr(page, "creation", None) and page.has_add_permission(request):
        yield from _form(f"Create {page.opts.verbose_name}", page.get_form(request)())


def _list(page: Any) -> Iterator[str]:
    columns = [label_for_field(name, page.model, page) for name in page.list_display]
    filters = [one if isinstance(one, str) else one.title for one in page.list_filter]
    offered: Any = getattr(page, "offered_permissions", dict)()
    for label, text in (
        ("Columns", ", ".join(map(str, columns))),
        ("Filters", ", ".join(filters)),
        ("Search", page.search_help_text),
        ("Empty", page.empty_text),
        ("Permissions", ", ".join(offered.values())),
    ):
        if text:
            yield f"{label}: {text}"


def _action(action: Action, samples: Sequence[Model]) -> Iterator[str]:
    yield f"{action.label} [{action.button or action.label}]"
    if action.form:
        yield from _form("", action.form())
    for some in (samples[:1], samples):
        if len(some) == 1 or not action.is_of_one:
            text = action.consequence(some, VALUES.get(action.name, {}))
            yield f"  {len(some)}: {text}"
    if obstacle := action.obstacle(samples[0]):
        yield f"  Rejected: {obstacle}"


def _form(title: str, form: forms.BaseForm) -> Iterator[str]:
    if title:
        yield f"Form: {title}"
    for field in form:
        yield f"  {field.label}: {unescape(strip_tags(str(field.help_text)))}".rstrip(": ")
