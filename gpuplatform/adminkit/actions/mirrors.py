"""Base class and parts of the pages of mirrored resources."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

from django.contrib import admin
from django.db.models import Q, QuerySet, Value
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from typing_extensions import override

from gpuplatform.adminkit.actions.action import Action, ActionRequest, ActionResult, Values
from gpuplatform.adminkit.actions.model_admin import ActionAdmin
from gpuplatform.adminkit.detail.panels import (
    Panel,
    RelatedRow,
)
from gpuplatform.adminkit.display.age import age_html
from gpuplatform.adminkit.display.badges import Shape, phase_badge, phase_shape, shape_badge
from gpuplatform.adminkit.display.causes import (
    cause_of,
    message_of,
    next_step_of,
    reason_html,
    register_reasons,
)
from gpuplatform.adminkit.display.text import counted, visible
from gpuplatform.adminkit.display.urls import list_url, page_url
from gpuplatform.adminkit.lists.filters import (
    AgeFilter,
    HistoryFilter,
    NamespaceFilter,
    PhaseTabs,
    ReasonFilter,
    SpecFilter,
    TenantFilter,
)
from gpuplatform.adminkit.lists.model_admin import column
from gpuplatform.adminkit.overview.failing import STUCK_AFTER, FailingRows
from gpuplatform.adminkit.overview.sections import CountedRows, OverviewSection
from gpuplatform.clock import now
from gpuplatform.kube.fields import field
from gpuplatform.lifecycle.conditions import DEGRADED
from gpuplatform.lifecycle.explanations import Explanation
from gpuplatform.reconciliation.mirror import FAILED, TERMINATING

MAX_WORDS = 4
"""Maximum number of words of a search; the search ignores the others."""
MAX_OPERATIONS = 1_000
"""Maximum number of operations that match a word of a search."""
TRANSIENT_PHASES: Final = frozenset({"Pending", "Progressing", TERMINATING})
"""Phases that usually last less than a minute."""
DELETED = "Deleted"
"""Displayed instead of the phase in the row of a deleted resource."""
LONGER_THAN_USUAL = "This takes longer than usual. See the pod, Events and log below."


def mirror_badge(row: Any) -> SafeString:
    """Return the badge of a mirrored row: Deleted, Degraded, or its phase."""
    if is_degraded(row) and not row.deleted_at:
        return shape_badge(Shape.WAITING, DEGRADED)
    return phase_badge(DELETED if row.deleted_at else row.phase)


def is_degraded(row: Any) -> bool:
    """Return whether the condition Degraded of a row is true; not all kinds have conditions."""
    return any(
        field(one, "type") == DEGRADED and field(one, "status") == "True"
        for one in getattr(row, "conditions", ())
    )


def is_healthy(row: Any, healthy: Collection[str]) -> bool:
    """Return whether a row is in one of the phases `healthy` and is not degraded."""
    return row.phase in healthy and not is_degraded(row)


def mirror_since(row: Any) -> SafeString:
    """Return the time since the deletion or the last change of the phase of a row."""
    return age_html(row.deleted_at or row.phase_since)


def mirror_line(row: Any, text: str) -> RelatedRow:
    """Return a mirrored row as a line of a table on another page."""
    return RelatedRow(mirror_badge(row), str(row), page_url(row), text, mirror_since(row))


def mirror_panel(
    row: Any, reasons: Mapping[Any, Explanation], *, healthy: Collection[str]
) -> Panel | None:
    """Return the explanation of an unhealthy row, or `None` if the row is healthy."""
    if row.deleted_at or is_healthy(row, healthy):
        return None
    is_late = now() - row.phase_since > STUCK_AFTER
    if row.phase == TERMINATING and not row.reason:
        return _late_deletion(row) if is_late else None
    if not row.reason:
        return None
    cause = cause_of(row)
    next_step = next_step_of(reasons, row.reason, cause)
    if row.phase != FAILED and not cause and is_late and row.phase not in healthy:
        next_step = LONGER_THAN_USUAL
    return Panel(
        shape=phase_shape(row.phase) if row.phase not in healthy else Shape.WAITING,
        title=reason_html(row.reason, cause),
        text=visible(row.message),
        since=age_html(row.phase_since),
        next_step=next_step,
    )


def _late_deletion(row: Any) -> Panel:
    return Panel(
        shape=Shape.WAITING,
        title="Deleting",
        text=visible(row.message) or "The deletion in the cluster is still in progress.",
        since=age_html(row.phase_since),
        next_step=LONGER_THAN_USUAL,
    )


def ending_obstacle(row: Any) -> str:
    """Return a sentence if a row is deleted or is being deleted, otherwise an empty string."""
    if row.deleted_at:
        return "It is already deleted."
    is_ending = row.deletion_requested_at or row.phase == TERMINATING
    return "It is being deleted." if is_ending else ""


def _missing_obstacle(row: Any) -> str:
    if row.deleted_at:
        return "It is already deleted."
    return "" if row.uid else "It is not in the cluster yet."


def reconcile_action(noun: str, enqueue: Callable[[Any], object]) -> Action:
    """Return the action that reconciles rows immediately.

    Args:
        noun: The singular noun of a row.
        enqueue: Marks a row due and sends its hint.
    """

    def consequence(rows: Sequence[Any], _: Values) -> str:
        waiting = sum(1 for row in rows if row.failures)
        retried = f" {waiting} of them would otherwise wait for the next retry." if waiting else ""
        return f"Reconciles {counted(len(rows), noun)} immediately. No setting changes.{retried}"

    def reconcile(request: ActionRequest) -> ActionResult:
        enqueue(request.row)
        return ActionResult("Reconciliation started.")

    return Action(
        name="reconcile",
        label="Reconcile now",
        consequence=consequence,
        obstacle=_missing_obstacle,
        service=reconcile,
        is_direct=True,
    )


def _spec_name(row: Any) -> str:
    """Return the name of the GPU spec of a row, marked if the catalogue does not have it."""
    name = visible(row.spec_name)
    if not name or getattr(row, "is_spec_catalogued", True):
        return name
    return format_html('{} <span class="off">(not in the catalogue)</span>', name)


class MirrorAdmin(ActionAdmin):
    """A list of mirrored resources."""

    healthy_phases: ClassVar[Collection[str]]
    """Phases that need no explanation."""
    reasons: ClassVar[Mapping[Any, Explanation]]
    """The explanations of the reasons of the phases."""
    noun: ClassVar[str]
    """The singular noun of a row, without the article."""
    sampled: ClassVar[str] = ""
    """The key of the rows in the samples."""
    name_field: ClassVar[str] = "name"
    list_display_links: Any = ("name",)
    list_filter: ClassVar[Any] = (
        SpecFilter,
        ReasonFilter,
        TenantFilter,
        NamespaceFilter,
        AgeFilter,
        HistoryFilter,
        PhaseTabs,
    )
    sortable_by: ClassVar[tuple[str, ...]] = ("name", "namespace", "spec_column", "since")

    phase_column = column("Phase", mirror_badge)
    spec_column = column("Spec", _spec_name, ordering="spec_name")
    since = column("Since", mirror_since, ordering="-phase_since")

    def __init__(self, model: Any, admin_site: admin.AdminSite) -> None:
        super().__init__(model, admin_site)
        register_reasons(self.reasons)

    @admin.display(description="Message", empty_value="")
    def why_column(self, row: Any) -> SafeString:
        """Return the reason and message of an unhealthy row on one line."""
        return SafeString("") if is_healthy(row, self.healthy_phases) else message_of(row)

    def live_rows(self) -> QuerySet[Any]:
        """Return the rows whose resources exist."""
        rows: QuerySet[Any] = self.model.objects.filter(deleted_at__isnull=True)
        return rows

    def failed_rows(self) -> QuerySet[Any]:
        """Return the failed rows whose resources exist."""
        return self.live_rows().filter(phase=FAILED)

    @override
    def overview_section(self) -> OverviewSection:
        """Return the rows by phase, and the failing ones."""
        phases = [phase for phase, _label in self.opts.get_field("phase").choices]  # type: ignore[union-attr]  # a CharField
        counted_rows = CountedRows(
            str(capfirst(self.opts.verbose_name_plural)),
            self.live_rows(),
            phases,
            list_url(self.model),
            self.sampled,
        )
        return OverviewSection(counted=[counted_rows], failing=self.failing())

    def failing(self) -> list[FailingRows]:
        """Return the failed rows and the rows in a transient phase."""
        failed = FailingRows(
            self.noun,
            self.failed_rows(),
            list_url(self.model),
            f"admin:{self.url_name('change')}",
            cause="cause",
            name=self.name_field,
        )
        transient = self.live_rows().filter(phase__in=TRANSIENT_PHASES)
        return [failed, replace(failed, rows=transient, order="pk", waits=True)]

    @override
    def get_queryset(self, request: Any) -> Any:
        return super().get_queryset(request).select_related("tenant", "operation")

    @override
    def get_search_results(
        self, request: Any, queryset: Any, search_term: str
    ) -> tuple[Any, bool]:
        """Return the rows that have every word in a search field or in the operationID.

        A separate query reads the operations, because a condition on both tables scans both.
        """
        words = search_term.split()[:MAX_WORDS]
        for word, operations in zip(words, self._operations_named(request, words), strict=True):
            condition = Q(operation_id__in=operations)
            for name in self.search_fields:
                condition |= Q(**{f"{name}__icontains": word})
            queryset = queryset.filter(condition)
        return queryset, False

    def _operations_named(self, request: Any, words: Sequence[str]) -> Sequence[Sequence[int]]:
        """Return the ids of the operations whose operationID contains each word, with one query.

        The result is cached on the request.
        """
        known: dict[str, list[int]] = request.__dict__.setdefault("operations_named", {})
        unknown = [word for word in dict.fromkeys(words) if word not in known]
        # This package must not import the model of operations.
        operations: Any = self.model._meta.get_field("operation").related_model  # noqa: SLF001
        parts = [
            operations.objects.filter(operation_id__icontains=word)
            .order_by("-id")
            .values_list(Value(place), "pk")[:MAX_OPERATIONS]
            for place, word in enumerate(unknown)
        ]
        known |= {word: [] for word in unknown}
        for place, number in parts[0].union(*parts[1:], all=True) if parts else ():
            known[unknown[place]].append(number)
        return [known[word] for word in words]
