"""Cancelling and retrying jobs in the admin: the consequence is said first.

It is done by the services, as by the API. The confirmation carries the key of the new
operationIDs, so that sending it twice is one request.
"""

import re
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from typing_extensions import override

from gpuplatform.adminkit.age import age_html
from gpuplatform.adminkit.badges import phase_badge
from gpuplatform.adminkit.detail import RelatedRow
from gpuplatform.adminkit.generics import ModelAdmin
from gpuplatform.adminkit.readonly import ReadOnlyAdmin
from gpuplatform.adminkit.text import visible
from gpuplatform.errors import PlatformError
from gpuplatform.operations.interventions import (
    cancel_obstacle,
    operation_cancel,
    operation_retry,
    retry_obstacle,
)
from gpuplatform.operations.models import Operation
from gpuplatform.operations.services import Accepted

MOST_AT_ONCE: Final = 100
KEY: Final = "key"
_KEY: Final = re.compile("admin-[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Intervention:
    """Something that an operator does about jobs."""

    name: str
    label: str
    consequence: str
    said: str
    """What became of a job, with a place for the new operationID."""
    obstacle: Callable[[Operation], str]
    service: Callable[..., Accepted]


CANCEL: Final = Intervention(
    name="cancel",
    label="Cancel",
    consequence="What was made stays; what was not made is given up, and what was set aside for it"
    " is free again. A seeding that a worker has ends after the part that it is at. It cannot be"
    " taken up again.",
    said="Its end was asked for by the job '{}'.",
    obstacle=cancel_obstacle,
    service=operation_cancel,
)
RETRY: Final = Intervention(
    name="retry",
    label="Retry",
    consequence="The same is asked for again as a new job; of a seeding or a removal that ended"
    " half-way, the rest. It takes what is free now, so that a name or the stock may be gone; a"
    " change is made over what was changed since.",
    said="It was asked for again as the job '{}'.",
    obstacle=retry_obstacle,
    service=operation_retry,
)


class InterveningAdmin(ReadOnlyAdmin):
    """Adds the two actions to the list of jobs, and to the page of one where they are possible."""

    actions = ("cancel", "retry")
    is_live_with_actions = True

    def has_intervene_permission(self, request: HttpRequest) -> bool:
        """Say whether somebody may do something about jobs: who may change them."""
        return ModelAdmin.has_change_permission(self, request)

    @admin.action(description="Cancel", permissions=["intervene"])
    def cancel(self, request: HttpRequest, rows: QuerySet[Operation]) -> HttpResponse | None:
        """End jobs as they are."""
        return self._intervene(request, rows, CANCEL)

    @admin.action(description="Retry", permissions=["intervene"])
    def retry(self, request: HttpRequest, rows: QuerySet[Operation]) -> HttpResponse | None:
        """Ask again for what failed."""
        return self._intervene(request, rows, RETRY)

    @override
    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        row = self.get_object(request, unquote(object_id))
        possible = [one for one in (CANCEL, RETRY) if row is not None and not one.obstacle(row)]
        context = {
            "row_actions": possible if self.has_intervene_permission(request) else (),
            "row_number": row.pk if row is not None else None,
        }
        return super().change_view(
            request, object_id, form_url, {**(extra_context or {}), **context}
        )

    def _intervene(
        self, request: HttpRequest, rows: QuerySet[Operation], what: Intervention
    ) -> HttpResponse | None:
        chosen = list(rows.order_by("-id")[: MOST_AT_ONCE + 1])
        if len(chosen) > MOST_AT_ONCE:
            text = f"Choose at most {MOST_AT_ONCE} jobs at once."
            self.message_user(request, text, messages.ERROR)
            return None
        key = request.POST.get(KEY, "")
        if not _KEY.fullmatch(key):
            return self._confirmation(request, chosen, what)
        for row in chosen:
            self._do(request, row, what, f"{key}-{row.pk}")
        return None

    def _do(
        self, request: HttpRequest, row: Operation, what: Intervention, operation_id: str
    ) -> None:
        try:
            accepted = what.service(operation=row, operation_id=operation_id)
        except PlatformError as error:
            self.message_user(request, f"Job {visible(str(row))}: {error}", messages.ERROR)
            return
        said = what.said.format(operation_id)
        if not accepted.is_replay:
            self.log_change(request, row, said)
        self.message_user(request, f"Job {visible(str(row))}: {said}", messages.SUCCESS)

    def _confirmation(
        self, request: HttpRequest, chosen: Sequence[Operation], what: Intervention
    ) -> HttpResponse:
        context = {
            **self.admin_site.each_context(request),
            "title": f"{what.label} jobs",
            "opts": self.opts,
            "what": what,
            "key": f"admin-{uuid.uuid4().hex}",
            "lines": [_line(row, what.obstacle(row)) for row in chosen],
            "numbers": [row.pk for row in chosen],
        }
        return TemplateResponse(request, "admin/confirm_jobs.html", context)


def _line(row: Operation, obstacle: str) -> RelatedRow:
    return RelatedRow(
        badge=phase_badge(row.phase),
        name=visible(str(row)),
        url="",
        text=visible(obstacle or f"{row.kind} {row.object_namespace}/{row.object_name}"),
        since=age_html(row.created_at),
    )
