"""The pages of actions: forms, confirmations and results.

An action has up to three steps: a form, a confirmation that states the effects in numbers, and the
result for each row. A service performs it; the page itself changes no rows. The confirmation page
contains the prefix of the operationIDs, so that submitting it twice results in one request. Every
action is recorded in the admin log.
"""

import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar, Final
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_permission_codename
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from typing_extensions import override

from gpuplatform.adminkit.actions.action import (
    Action,
    ActionRequest,
    ActionResult,
    Creation,
    Values,
)
from gpuplatform.adminkit.actions.forms import DeclaredForm
from gpuplatform.adminkit.detail.panels import RelatedRow
from gpuplatform.adminkit.display.badges import Shape, shape_badge
from gpuplatform.adminkit.display.urls import list_url
from gpuplatform.adminkit.lists.journal import form_observed, rejection_observed
from gpuplatform.adminkit.lists.model_admin import ModelAdmin, ObjectAdmin
from gpuplatform.adminkit.overview.sections import OverviewSection
from gpuplatform.errors import PlatformError

MAX_ROWS: Final = 100
"""Maximum number of rows of one action."""
OPERATIONS_URL: Final = "admin:operations_operation_changelist"
AUDIT_URL: Final = "admin:audit_auditentry_changelist"
AUDIT_PERMISSION: Final = "audit.view_auditentry"
KEY: Final = "key"
"""The POST parameter that contains the prefix of the operationIDs."""
SUBMITTED: Final = "submitted"
"""The POST parameter that marks a submitted form."""
CONFIRMED: Final = "confirmed"
"""The POST parameter that marks the confirmation of a creation."""
EDIT: Final = "edit"
"""The POST parameter of the button that returns to the form."""
_KEY: Final = re.compile("admin-[0-9a-f]{32}")
_ID: Final = re.compile("[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class RowResult:
    """A row of the results page."""

    row: Any
    line: RelatedRow
    result: ActionResult
    is_done: bool

    @property
    def badge(self) -> SafeString:
        """The badge Rejected, Accepted (as an operation) or Done."""
        if not self.is_done:
            return shape_badge(Shape.FAILED, "Rejected")
        return shape_badge(Shape.READY, "Accepted" if self.result.url else "Done")


class ActionAdmin(ObjectAdmin):
    """A read-only list with actions, and pages of its rows with the same actions."""

    row_actions: ClassVar[tuple[Action, ...]] = ()
    creation: ClassVar[Creation | None] = None
    is_live_with_actions = True

    def overview_section(self) -> OverviewSection:
        """Return the section of these rows on the overview. By default, it is empty."""
        return OverviewSection()

    def may(self, request: HttpRequest, action: Action) -> bool:
        """Return whether the user has the permission for an action."""
        codename = get_permission_codename(action.permission or action.name, self.opts)
        return bool(request.user.has_perm(f"{self.opts.app_label}.{codename}"))

    @override
    def offered_permissions(self) -> Mapping[str, str]:
        labels = {"view": "View"} | ({"add": self.creation.title} if self.creation else {})
        for one in self.row_actions:
            verb = one.permission or one.name
            labels[verb] = f"{labels[verb]}, {one.label.lower()}" if verb in labels else one.label
        return labels

    @override
    def has_add_permission(self, request: HttpRequest) -> bool:
        return self.creation is not None and ModelAdmin.has_add_permission(self, request)

    @override
    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        offered = [one for one in self.row_actions if self.may(request, one)]
        return {one.name: (_list_action(one), one.name, one.label) for one in offered}

    @override
    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.action_view)
        return [path("do/<slug:name>/", view, name=self.url_name("do")), *super().get_urls()]

    @override
    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        offered = [
            {"label": one.label, "url": self._url(one), "is_final": one.is_final}
            for one in self.row_actions
            if self.may(request, one) and not one.obstacle(row)
        ]
        shared = {"row_id": row.pk, "row_actions": offered, "audit_url": self._audit(request, row)}
        return {**super().page_context(request, row), **shared}

    def _audit(self, request: HttpRequest, row: Any) -> str:
        """Return the URL of the audit entries about a row, if the user may view them."""
        name = getattr(row, self.search_fields[0], "") if self.search_fields else ""
        if not name or not request.user.has_perm(AUDIT_PERMISSION):
            return ""
        return f"{reverse(AUDIT_URL)}?{urlencode({'q': name})}"

    @override
    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        creation = self.creation
        if creation is None:
            return super().add_view(request, form_url, extra_context)
        if not self.has_add_permission(request):
            raise PermissionDenied
        if request.method != "POST":
            return self._form_page(request, creation.title, creation.form(), creation)
        form, key = creation.form(request.POST), request.POST.get(KEY, "")
        if EDIT not in request.POST and _KEY.fullmatch(key) and form.is_valid():
            consequence = creation.consequence(form.entered)
            if consequence and CONFIRMED not in request.POST:
                return self._creation_confirmation(request, creation, form, consequence)
            try:
                result, row = creation.service(ActionRequest(None, key, form.entered))
            except PlatformError as error:
                form.add_errors(error)
            else:
                return self._created(request, result, row)
        return self._form_page(request, creation.title, form, creation)

    def action_view(self, request: HttpRequest, name: str) -> HttpResponse:
        """Return the page of the next step of an action on the selected rows."""
        action = next((one for one in self.row_actions if one.name == name), None)
        if action is None:
            raise Http404
        if not self.may(request, action):
            raise PermissionDenied
        if request.method != "POST":
            return HttpResponseRedirect(list_url(self.model))
        ids = [one for one in request.POST.getlist(ACTION_CHECKBOX_NAME) if _ID.fullmatch(one)]
        return self.step(request, action, self.get_queryset(request).filter(pk__in=ids))

    def step(self, request: HttpRequest, action: Action, rows: QuerySet[Any]) -> HttpResponse:
        """Return the form, the confirmation or the results, depending on the request."""
        selected = list(rows.order_by("-pk")[: MAX_ROWS + 1])
        if error := _selection_error(action, selected):
            self.message_user(request, error, messages.ERROR)
            return HttpResponseRedirect(list_url(self.model))
        form = None
        if action.form is not None:
            data = request.POST if SUBMITTED in request.POST else None
            initial = action.initial(selected[0]) if len(selected) == 1 else {}
            form = action.form(data, initial=initial)
            if EDIT in request.POST or not form.is_valid():
                title = f"{action.label}: {self._named(selected)}"
                return self._form_page(request, title, form, action, selected)
        values = form.entered if form is not None else {}
        key = request.POST.get(KEY, "")
        if not _KEY.fullmatch(key):
            return self._confirmation(request, action, selected, form)
        results = [self._perform(request, action, row, values, key) for row in selected]
        return self._results(request, action, results, key)

    def _form_page(
        self,
        request: HttpRequest,
        title: str,
        form: DeclaredForm,
        purpose: Action | Creation,
        selected: Sequence[Any] = (),
    ) -> HttpResponse:
        context = {
            "title": title,
            "form": form,
            "url": self._url(purpose) if isinstance(purpose, Action) else request.path,
            "lines": [(row.pk, self.line(row)) for row in selected],
            "key": request.POST.get(KEY, "") or f"admin-{uuid.uuid4().hex}",
            "is_creation": isinstance(purpose, Creation),
        }
        return self._page(request, "form", context)

    def _confirmation(
        self,
        request: HttpRequest,
        action: Action,
        selected: Sequence[Any],
        form: DeclaredForm | None,
    ) -> HttpResponse:
        obstacles = {row.pk: action.obstacle(row) for row in selected}
        possible = [row for row in selected if not obstacles[row.pk]]
        impossible: dict[str, list[RelatedRow]] = {}
        for row in selected:
            if obstacle := obstacles[row.pk]:
                impossible.setdefault(obstacle, []).append(self.line(row))
        values = form.entered if form is not None else {}
        context = {
            "title": f"{action.label}: {self._named(possible or selected)}",
            "action": action,
            "form": form,
            "url": self._url(action),
            "key": f"admin-{uuid.uuid4().hex}",
            "consequence": action.consequence(possible, values) if possible else "",
            "lines": [(row.pk, self.line(row)) for row in possible],
            "impossible": list(impossible.items()),
            "impossible_count": len(selected) - len(possible),
        }
        return self._page(request, "confirm", context)

    def _creation_confirmation(
        self, request: HttpRequest, creation: Creation, form: DeclaredForm, consequence: str
    ) -> HttpResponse:
        context = {
            "title": creation.title,
            "action": {"label": creation.title},
            "form": form,
            "url": request.path,
            "key": request.POST[KEY],
            "consequence": consequence,
            "is_creation": True,
        }
        return self._page(request, "confirm", context)

    def _perform(
        self, request: HttpRequest, action: Action, row: Any, values: Values, key: str
    ) -> RowResult:
        line, row_request = self.line(row), ActionRequest(row, f"{key}-{row.pk}", values)
        try:
            with transaction.atomic() if action.is_direct else nullcontext():
                result = action.service(row_request)
                self._log(request, action, row_request, result)
        except PlatformError as error:
            rejection_observed(row, action.name, error.code)
            return RowResult(row, line, ActionResult(str(error)), is_done=False)
        return RowResult(row, line, result, is_done=True)

    def _log(
        self,
        request: HttpRequest,
        action: Action,
        row_request: ActionRequest,
        result: ActionResult,
    ) -> None:
        """Add an entry to the admin log, unless the same request already added it.

        The text names the operation or contains the operationID, so a repeated request has the
        same text.
        """
        if result.is_replay:
            return
        text = f"{action.label}: {result.text}"
        if not result.url:
            text = f"{text} operationID '{row_request.operation_id}'."
            same = {"object_id": row_request.row.pk, "change_message": text}
            if LogEntry.objects.filter(user=request.user.pk, **same).exists():
                return
            form_observed(row_request.row, action.name, text, result.changed)
        ModelAdmin.log_change(self, request, row_request.row, text)

    def _results(
        self, request: HttpRequest, action: Action, results: Sequence[RowResult], key: str
    ) -> HttpResponse:
        if len(results) == 1:
            (only,) = results
            self._report(request, only, action.label)
            exists = self.get_queryset(request).filter(pk=only.row.pk).exists()
            return HttpResponseRedirect(only.line.url if exists else list_url(self.model))
        done = sum(one.is_done for one in results)
        has_operations = any(one.result.url for one in results)
        context = {
            "title": f"{action.label}: {self._named([one.row for one in results])}",
            "results": sorted(results, key=lambda one: one.is_done),
            "done": done,
            "rejected": len(results) - done,
            "operations_url": (
                f"{reverse(OPERATIONS_URL)}?{urlencode({'q': key})}" if has_operations else ""
            ),
        }
        return self._page(request, "results", context)

    def _created(self, request: HttpRequest, result: ActionResult, row: Any) -> HttpResponse:
        if not result.is_replay:
            # The audit log contains the operation, if there is one.
            page = ModelAdmin if result.url else type(self)
            page.log_addition(self, request, row, result.text)
        line = self.line(row)
        self._report(request, RowResult(row, line, result, is_done=True), "Creation")
        return HttpResponseRedirect(line.url)

    def _report(self, request: HttpRequest, done: RowResult, label: str) -> None:
        """Show the result of a row as a message, with a link to the operation if there is one."""
        noun, text = capfirst(self.opts.verbose_name), done.result.text
        if done.result.url:
            link = '{} accepted. <a href="{}">View operation</a>'
            text = format_html(link, label, done.result.url)
        text = format_html("{} {}: {}", noun, done.line.name, text)
        self.message_user(request, text, messages.SUCCESS if done.is_done else messages.ERROR)

    def _page(self, request: HttpRequest, step: str, context: Mapping[str, Any]) -> HttpResponse:
        shared = {**self.admin_site.each_context(request), "opts": self.opts}
        return TemplateResponse(request, f"admin/action_{step}.html", {**shared, **context})

    def _named(self, selected: Sequence[Any]) -> str:
        if len(selected) == 1:
            return self.line(selected[0]).name
        return f"{len(selected)} {self.opts.verbose_name_plural}"

    def _url(self, action: Action) -> str:
        return reverse(f"admin:{self.url_name('do')}", args=[action.name])


def _list_action(
    action: Action,
) -> Callable[[ActionAdmin, HttpRequest, QuerySet[Any]], HttpResponse]:
    """Return the function that Django's change list calls for the action."""

    def run(page: ActionAdmin, request: HttpRequest, rows: QuerySet[Any]) -> HttpResponse:
        return page.step(request, action, rows)

    return run


def _selection_error(action: Action, selected: Sequence[Any]) -> str:
    if not selected:
        return "The selected items no longer exist."
    if len(selected) > MAX_ROWS:
        return f"Select at most {MAX_ROWS} items."
    if action.is_of_one and len(selected) > 1:
        return f"Select one item for the action '{action.label}'."
    return ""
