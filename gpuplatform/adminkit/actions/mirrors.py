"""What the pages of all mirrored resources share: columns, badge, panel and plain facts."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.utils.safestring import SafeString
from typing_extensions import override

from gpuplatform.adminkit.actions.action import ActionAdmin
from gpuplatform.adminkit.detail.panels import Comparison, Copy, Fact, Panel, kubectl_copies
from gpuplatform.adminkit.display.age import age_html
from gpuplatform.adminkit.display.badges import Shape, phase_badge, phase_shape, shape_badge
from gpuplatform.adminkit.display.causes import cause_of, next_step_of, reason_html, why_of
from gpuplatform.adminkit.display.text import visible
from gpuplatform.adminkit.overview.failing import WAITS_LONG
from gpuplatform.clock import now
from gpuplatform.kube.fields import field, items, number
from gpuplatform.lifecycle.conditions import DEGRADED
from gpuplatform.lifecycle.explanations import Explanation
from gpuplatform.reconciliation.mirror import FAILED, TERMINATING
from gpuplatform.reconciliation.models import MirrorRow

MOST_WORDS = 4
MOST_JOBS = 1_000
"""So many words of a search, and jobs that fit one of them, are looked for."""
DELETED = "Deleted"
"""Stands for the phase of a row that is history."""
LONGER_THAN_USUAL = "That is far longer than usual: see its pod, its Events and its log below."


class MirrorAdmin(ActionAdmin):
    """The columns that every list of mirrored resources has.

    A subclass says in which phases a row is well, so that its list explains nothing.
    """

    well: Collection[str] = ()

    def failed_rows(self) -> QuerySet[Any]:
        """Return its rows that have failed, for the count beside its name."""
        rows: QuerySet[Any] = self.model.objects.filter(deleted_at__isnull=True, phase=FAILED)
        return rows

    @admin.display(description="Phase")
    def phase_column(self, row: Any) -> SafeString:
        """Return the badge."""
        return mirror_badge(row)

    @admin.display(description="Spec", ordering="spec_name")
    def spec_column(self, row: Any) -> str:
        """Return the GPU spec."""
        return visible(row.spec_name)

    @admin.display(description="Why", empty_value="")
    def why_column(self, row: Any) -> SafeString:
        """Return reason and message on one line; nothing for what is well."""
        return SafeString("") if is_healthy(row, self.well) else why_of(row)

    @admin.display(description="Since", ordering="-phase_since")
    def since(self, row: Any) -> SafeString:
        """Return how long phase and reason are what they are."""
        return mirror_since(row)

    @override
    def get_queryset(self, request: Any) -> Any:
        return super().get_queryset(request).select_related("tenant", "operation")

    @override
    def get_search_results(
        self, request: Any, queryset: Any, search_term: str
    ) -> tuple[Any, bool]:
        """Find rows whose own texts, or whose operation's ID, contain every word.

        The operations are looked up first: a condition on both tables would read all of both.
        """
        for word in search_term.split()[:MOST_WORDS]:
            wanted = Q(operation_id__in=self._jobs_named(request, word))
            for column in self.search_fields:
                wanted |= Q(**{f"{column}__icontains": word})
            queryset = queryset.filter(wanted)
        return queryset, False

    def _jobs_named(self, request: Any, word: str) -> list[int]:
        """Return the jobs whose operationID has a word, looked up once a request."""
        known: dict[str, list[int]] = request.__dict__.setdefault("jobs_named", {})
        if word not in known:
            # Which model jobs are only the app's model knows.
            jobs: Any = self.model._meta.get_field("operation").related_model  # noqa: SLF001
            named = jobs.objects.filter(operation_id__icontains=word).order_by("-id")
            known[word] = list(named.values_list("pk", flat=True)[:MOST_JOBS])
        return known[word]


def mirror_badge(row: Any) -> SafeString:
    """Return the badge of a mirrored row; what works and is degraded bears that word."""
    if is_degraded(row) and not row.deleted_at:
        return shape_badge(Shape.WAITING, DEGRADED)
    return phase_badge(DELETED if row.deleted_at else row.phase)


def is_degraded(row: Any) -> bool:
    """Say whether the condition Degraded of a row is true; what is no resource has none."""
    return any(
        field(one, "type") == DEGRADED and field(one, "status") == "True"
        for one in getattr(row, "conditions", ())
    )


def is_healthy(row: Any, well: Collection[str]) -> bool:
    """Say whether nothing about a row has to be explained; `well` are the phases without need."""
    return row.phase in well and not is_degraded(row)


def mirror_since(row: MirrorRow) -> SafeString:
    """Return how long the row is what it is."""
    return age_html(row.deleted_at or row.phase_since)


def mirror_panel(
    row: Any, reasons: Mapping[Any, Explanation], *, well: Collection[str]
) -> Panel | None:
    """Return why a row is not well; None where there is nothing to explain."""
    if row.deleted_at or is_healthy(row, well):
        return None
    is_late = now() - row.phase_since > WAITS_LONG
    if row.phase == TERMINATING and not row.reason:
        return _late_deletion(row) if is_late else None
    if not row.reason:
        return None
    cause = cause_of(row)
    next_step = next_step_of(reasons, row.reason, cause)
    if row.phase != FAILED and not cause and is_late and row.phase not in well:
        next_step = LONGER_THAN_USUAL
    return Panel(
        shape=phase_shape(row.phase) if row.phase not in well else Shape.WAITING,
        title=reason_html(row.reason, cause),
        text=visible(row.message),
        since=age_html(row.phase_since),
        next_step=next_step,
    )


def _late_deletion(row: Any) -> Panel:
    return Panel(
        shape=Shape.WAITING,
        title="Being deleted",
        text=visible(row.message) or "The cluster has not finished its deletion.",
        since=age_html(row.phase_since),
        next_step=LONGER_THAN_USUAL,
    )


def mirror_facts(row: Any) -> Sequence[Fact]:
    """Return the facts that every mirrored row has."""
    return (
        Fact("Namespace", row.namespace),
        Fact("UID", row.uid),
        Fact("Tenant", row.tenant.name if row.tenant else ""),
        Fact.time("Asked for", row.created_at),
        Fact.time("Last copied", row.last_sync_at),
        Fact.time("Deletion asked", row.deletion_requested_at),
        Fact.time("Deleted", row.deleted_at),
        Fact.time("Next look", row.due_at),
        Fact("Failed tries", str(row.failures) if row.failures else ""),
    )


def mirror_copies(row: Any, kind: str) -> Sequence[Copy]:
    """Return what people take elsewhere: its names, and the commands that lead to it."""
    ports = items(row.spec, "template", "ports")
    port = number(ports[0], "port") if ports else None
    copies = kubectl_copies(
        row.namespace, row.name, kind=kind, service=row.service_name, port=port
    )
    if row.operation:
        copies.insert(1, Copy("operationID", visible(row.operation.operation_id)))
    return copies


def generation_line(row: MirrorRow) -> Comparison:
    """Return the comparison of the generations."""
    return Comparison("Generation", str(row.generation), str(row.observed_generation))


def comparison_note(row: MirrorRow) -> str:
    """Return what is to be known before wanted and seen are compared."""
    if row.deleted_at:
        return "It is deleted; nothing is wanted any more."
    if not row.uid:
        return "The resource is not in the cluster yet."
    if row.generation != row.observed_generation:
        return "The last change of the spec has not been worked on yet."
    return ""
