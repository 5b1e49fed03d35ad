"""What operators do about rows: declared once, offered on a row's page and on many in the list.

An action goes in steps: what it needs to know, what will happen (in numbers, from the chosen
rows), and what became of each row. It is done by a service, never on rows. The confirmation
carries the key of the operationIDs, so that sending it twice is one request; whatever is done is
in the admin's log.
"""

import re
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_permission_codename
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from typing_extensions import override

from gpuplatform.adminkit.actions.forms import DeclaredForm
from gpuplatform.adminkit.detail.panels import RelatedRow
from gpuplatform.adminkit.display.badges import Shape, shape_badge
from gpuplatform.adminkit.display.generics import ModelAdmin
from gpuplatform.adminkit.lists.readonly import ReadOnlyAdmin
from gpuplatform.errors import PlatformError

MOST_AT_ONCE: Final = 100
JOBS: Final = "admin:operations_operation_changelist"
"""Where what was accepted is followed."""
KEY: Final = "key"
ASKED: Final = "asked"
"""Sent with the fields of an action: they were filled in."""
AGAIN: Final = "again"
"""Sent by the button that leads back to the fields."""
_KEY: Final = re.compile("admin-[0-9a-f]{32}")
_NUMBER: Final = re.compile("[0-9]{1,18}")

Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ActionRequest:
    """One row's part of a request: under which operationID, and what was entered."""

    row: Any
    operation_id: str
    values: Values


@dataclass(frozen=True, slots=True)
class ActionResult:
    """What became of a row: a sentence, the page to follow it, whether it was done before."""

    text: str
    url: str = ""
    is_replay: bool = False


@dataclass(frozen=True, slots=True)
class Action:
    """Something that an operator does about rows."""

    name: str
    label: str
    consequence: Callable[[Sequence[Any], Values], str]
    """What happens to these rows, with numbers."""
    service: Callable[[ActionRequest], ActionResult]
    """Does it; raises a `PlatformError` that says why not."""
    obstacle: Callable[[Any], str] = lambda _: ""
    """Why it is not possible for a row, as a sentence; empty where it is."""
    form: type[DeclaredForm] | None = None
    present: Callable[[Any], Values] = lambda _: {}
    """What the fields hold for a row before anything is entered."""
    right: str = ""
    """The permission, as Django forms its name: `scale` on pools is `scale_stockpool`."""
    is_final: bool = False
    """Whether it takes away what does not come back."""
    is_of_one: bool = False
    """Whether it makes sense for one row only."""
    button: str = ""
    """What the last button says where the label would be misread; empty: the label."""


@dataclass(frozen=True, slots=True)
class Creation:
    """How rows are made: what is asked for, and the service, which returns the page to go to."""

    form: type[DeclaredForm]
    title: str
    service: Callable[[str, Values], tuple[ActionResult, Any]]
    """Given operationID and values; returns what is said, and the (first) row that was made."""


@dataclass(frozen=True, slots=True)
class RowResult:
    """A row of the page of results."""

    row: Any
    line: RelatedRow
    said: ActionResult
    is_done: bool


class ActionAdmin(ReadOnlyAdmin):
    """Offers actions on the rows of a read-only list.

    A subclass names them, and says by `line` how a row looks on their pages.
    """

    row_actions: ClassVar[tuple[Action, ...]] = ()
    creation: ClassVar[Creation | None] = None
    is_live_with_actions = True

    def may(self, request: HttpRequest, action: Action) -> bool:
        """Say whether somebody may do this."""
        codename = get_permission_codename(action.right or action.name, self.opts)
        return bool(request.user.has_perm(f"{self.opts.app_label}.{codename}"))

    @override
    def offered_permissions(self) -> Mapping[str, str]:
        asked = {"view": "See"} | ({"add": self.creation.title} if self.creation else {})
        for one in self.row_actions:
            verb = one.right or one.name
            asked[verb] = f"{asked[verb]}, {one.label.lower()}" if verb in asked else one.label
        return asked

    @override
    def has_add_permission(self, request: HttpRequest) -> bool:
        return self.creation is not None and ModelAdmin.has_add_permission(self, request)

    @override
    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        offered = [one for one in self.row_actions if self.may(request, one)]
        return {one.name: (_begin(one), one.name, one.label) for one in offered}

    @override
    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.action_view)
        return [path("do/<slug:name>/", view, name=self._url_name("do")), *super().get_urls()]

    @override
    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        shared = super().page_context(request, row)
        return {**shared, "row_number": row.pk, "row_actions": self._of_row(request, row)}

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
            return self._fields(request, creation.title, creation.form(), creation)
        form, key = creation.form(request.POST), request.POST.get(KEY, "")
        if _KEY.fullmatch(key) and form.is_valid():
            try:
                said, row = creation.service(key, form.entered)
            except PlatformError as error:
                form.refuse(error)
            else:
                return self._made(request, said, row)
        return self._fields(request, creation.title, form, creation)

    def action_view(self, request: HttpRequest, name: str) -> HttpResponse:
        """Answer one step of an action on the rows that were chosen."""
        action = self._action(name)
        if action is None:
            raise Http404
        if not self.may(request, action):
            raise PermissionDenied
        if request.method != "POST":
            return HttpResponseRedirect(self._list())
        numbers = request.POST.getlist(ACTION_CHECKBOX_NAME)
        chosen = [number for number in numbers if _NUMBER.fullmatch(number)]
        return self.step(request, action, self.get_queryset(request).filter(pk__in=chosen))

    def step(self, request: HttpRequest, action: Action, rows: QuerySet[Any]) -> HttpResponse:
        """Ask for the fields, say what will happen, or do it: as far as the request has come."""
        chosen = list(rows.order_by("-pk")[: MOST_AT_ONCE + 1])
        if trouble := _trouble(action, chosen):
            self.message_user(request, trouble, messages.ERROR)
            return HttpResponseRedirect(self._list())
        form = _filled(request, action, chosen)
        if form is not None and (AGAIN in request.POST or not form.is_valid()):
            title = f"{action.label}: {self._named(chosen)}"
            return self._fields(request, title, form, action, chosen)
        values = form.entered if form is not None else {}
        key = request.POST.get(KEY, "")
        if not _KEY.fullmatch(key):
            context = {**self._consequence(action, chosen, values), "form": form}
            return self._page(request, "confirm", context)
        results = [self._do(request, action, row, values, key) for row in chosen]
        return self._results(request, action, results, key)

    def _action(self, name: str) -> Action | None:
        return next((one for one in self.row_actions if one.name == name), None)

    def _of_row(self, request: HttpRequest, row: Any) -> list[dict[str, Any]]:
        return [
            {"label": one.label, "url": self._url(one), "is_final": one.is_final}
            for one in self.row_actions
            if self.may(request, one) and not one.obstacle(row)
        ]

    def _consequence(
        self, action: Action, chosen: Sequence[Any], values: Values
    ) -> dict[str, Any]:
        why = {row.pk: action.obstacle(row) for row in chosen}
        acting = [row for row in chosen if not why[row.pk]]
        return {
            "title": f"{action.label}: {self._named(acting or chosen)}",
            "action": action,
            "url": self._url(action),
            "key": f"admin-{uuid.uuid4().hex}",
            "consequence": action.consequence(acting, values) if acting else "",
            "lines": [(row.pk, self.line(row)) for row in acting],
            "refused": _by_obstacle((why[row.pk], self.line(row)) for row in chosen),
            "refused_count": len(chosen) - len(acting),
        }

    def _do(
        self, request: HttpRequest, action: Action, row: Any, values: Values, key: str
    ) -> RowResult:
        line, asked = self.line(row), ActionRequest(row, f"{key}-{row.pk}", values)
        try:
            said = action.service(asked)
        except PlatformError as error:
            return RowResult(row, line, ActionResult(str(error)), is_done=False)
        self._log(request, f"{action.label}: {said.text}", asked, said)
        return RowResult(row, line, said, is_done=True)

    def _log(
        self, request: HttpRequest, text: str, asked: ActionRequest, said: ActionResult
    ) -> None:
        """Write a log entry, once; its text has the operation, or the operationID itself.

        A repeated request has the same operationID, and with it exactly the same text.
        """
        if said.is_replay:
            return
        if not said.url:
            text = f"{text} operationID '{asked.operation_id}'."
            same = {"object_id": asked.row.pk, "change_message": text}
            if LogEntry.objects.filter(user=request.user.pk, **same).exists():
                return
        self.log_change(request, asked.row, text)

    def _results(
        self, request: HttpRequest, action: Action, results: Sequence[RowResult], key: str
    ) -> HttpResponse:
        if len(results) == 1:
            (only,) = results
            self._tell(request, only, action.label)
            is_there = self.get_queryset(request).filter(pk=only.row.pk).exists()
            return HttpResponseRedirect(only.line.url if is_there else self._list())
        title = f"{action.label}: {self._named([one.row for one in results])}"
        return self._page(request, "results", {"title": title, **_summed(results, key)})

    def _made(self, request: HttpRequest, said: ActionResult, row: Any) -> HttpResponse:
        if not said.is_replay:
            self.log_addition(request, row, said.text)
        line = self.line(row)
        self._tell(request, RowResult(row, line, said, is_done=True), "Creation")
        return HttpResponseRedirect(line.url)

    def _tell(self, request: HttpRequest, result: RowResult, label: str) -> None:
        """Say what became of a row; what a job does has been accepted, and its page tells more."""
        noun, told = str(self.opts.verbose_name).partition(" (")[0], _told(result.said, label)
        text = format_html("{}{} {}: {}", noun[:1].upper(), noun[1:], result.line.name, told)
        self.message_user(request, text, messages.SUCCESS if result.is_done else messages.ERROR)

    def _fields(
        self,
        request: HttpRequest,
        title: str,
        form: DeclaredForm,
        what: Action | Creation,
        chosen: Sequence[Any] = (),
    ) -> HttpResponse:
        context = {
            "title": title,
            "form": form,
            "url": self._url(what) if isinstance(what, Action) else request.path,
            "lines": [(row.pk, self.line(row)) for row in chosen],
            "key": request.POST.get(KEY, "") or f"admin-{uuid.uuid4().hex}",
            "is_creation": isinstance(what, Creation),
        }
        return self._page(request, "fields", context)

    def _page(self, request: HttpRequest, step: str, context: Mapping[str, Any]) -> HttpResponse:
        shared = {**self.admin_site.each_context(request), "opts": self.opts}
        return TemplateResponse(request, f"admin/action_{step}.html", {**shared, **context})

    def _named(self, chosen: Sequence[Any]) -> str:
        if len(chosen) == 1:
            return self.line(chosen[0]).name
        return f"{len(chosen)} {self.opts.verbose_name_plural}"

    def _url_name(self, view: str) -> str:
        return f"{self.opts.app_label}_{self.opts.model_name}_{view}"

    def _url(self, action: Action) -> str:
        return reverse(f"admin:{self._url_name('do')}", args=[action.name])

    def _list(self) -> str:
        return reverse(f"admin:{self._url_name('changelist')}")


def _badge(result: RowResult) -> SafeString:
    """Return what became of a row: what a job does is accepted, everything else is done."""
    if not result.is_done:
        return shape_badge(Shape.FAILED, "Refused")
    return shape_badge(Shape.READY, "Accepted" if result.said.url else "Done")


def _told(said: ActionResult, label: str) -> str:
    """Return what became of a row as a sentence; that of a job is on the job's page."""
    if not said.url:
        return said.text
    return format_html('{} accepted. <a href="{}">See its job</a>', label, said.url)


def _summed(results: Sequence[RowResult], key: str) -> dict[str, Any]:
    """Return what the page of results is drawn with: the refused first, and the sums."""
    done = sum(one.is_done for one in results)
    has_jobs = any(one.said.url for one in results)
    return {
        "results": [(_badge(one), one) for one in sorted(results, key=lambda one: one.is_done)],
        "done": done,
        "refused": len(results) - done,
        "jobs_url": f"{reverse(JOBS)}?{urlencode({'q': key})}" if has_jobs else "",
    }


def _by_obstacle(lines: Iterable[tuple[str, RelatedRow]]) -> list[tuple[str, list[RelatedRow]]]:
    """Return the obstacles, each once with the rows that it is in the way of."""
    found: dict[str, list[RelatedRow]] = {}
    for obstacle, line in lines:
        if obstacle:
            found.setdefault(obstacle, []).append(line)
    return list(found.items())


def counted(number: int, noun: str, does: str = "", do: str = "") -> str:
    """Return a number with its noun, and a verb: `1 GPU becomes`, `2 GPUs become`."""
    name, verb = (noun, does) if number == 1 else (f"{noun}s", do)
    return f"{number} {name} {verb}".rstrip()


def _begin(action: Action) -> Callable[[ActionAdmin, HttpRequest, QuerySet[Any]], HttpResponse]:
    """Return the action as Django's list calls it."""

    def begin(page: ActionAdmin, request: HttpRequest, rows: QuerySet[Any]) -> HttpResponse:
        return page.step(request, action, rows)

    return begin


def _trouble(action: Action, chosen: Sequence[Any]) -> str:
    if not chosen:
        return "What was chosen is gone."
    if len(chosen) > MOST_AT_ONCE:
        return f"Choose at most {MOST_AT_ONCE} at once."
    if action.is_of_one and len(chosen) > 1:
        return f"{action.label}: choose one at a time."
    return ""


def _filled(request: HttpRequest, action: Action, chosen: Sequence[Any]) -> DeclaredForm | None:
    if action.form is None:
        return None
    data = request.POST if ASKED in request.POST else None
    present = action.present(chosen[0]) if len(chosen) == 1 else {}
    return action.form(data, initial=present)
