"""The common part of the pages of mirrored resources: columns, badge, panel, facts, actions."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.utils.safestring import SafeString
from typing_extensions import override

from gpuplatform.adminkit.actions.action import (
    Action,
    ActionRequest,
    ActionResult,
    Values,
    counted,
)
from gpuplatform.adminkit.actions.model_admin import ActionAdmin
from gpuplatform.adminkit.detail.panels import Comparison, Copy, Fact, Panel, kubectl_copies
from gpuplatform.adminkit.display.age import age_html
from gpuplatform.adminkit.display.badges import Shape, phase_badge, phase_shape, shape_badge
from gpuplatform.adminkit.display.causes import cause_of, message_of, next_step_of, reason_html
from gpuplatform.adminkit.display.text import visible
from gpuplatform.adminkit.overview.failing import STUCK_AFTER, FailingRows
from gpuplatform.adminkit.overview.sections import CountedRows, OverviewSection
from gpuplatform.clock import now
from gpuplatform.kube.fields import field, items, number
from gpuplatform.kube.kinds import ResourceKind
from gpuplatform.lifecycle.conditions import DEGRADED
from gpuplatform.lifecycle.explanations import Explanation
from gpuplatform.reconciliation.inspection import Subject
from gpuplatform.reconciliation.mirror import FAILED, TERMINATING
from gpuplatform.reconciliation.models import MirrorRow

MAX_WORDS = 4
"""Maximum number of words of a search; further ones are ignored."""
MAX_OPERATIONS = 1_000
"""Maximum number of operations that match a word of a search."""
TRANSIENT_PHASES: Final = frozenset({"Pending", "Progressing", TERMINATING})
"""Phases that usually last less than a minute."""
DELETED = "Deleted"
"""Shown in place of the phase of a deleted resource's row."""
LONGER_THAN_USUAL = "This takes longer than usual. See the pod, Events and log below."


class MirrorAdmin(ActionAdmin):
    """The columns of every list of mirrored resources.

    A subclass defines the healthy phases, whose rows need no message, and the `noun` of a row.
    """

    healthy_phases: Collection[str] = ()
    noun: ClassVar[str]
    sampled: ClassVar[str] = ""
    """The name of the rows in the samples."""
    name_field: ClassVar[str] = "name"

    def live_rows(self) -> QuerySet[Any]:
        """Return the rows of existing resources."""
        rows: QuerySet[Any] = self.model.objects.filter(deleted_at__isnull=True)
        return rows

    def failed_rows(self) -> QuerySet[Any]:
        """Return the failed rows."""
        return self.live_rows().filter(phase=FAILED)

    @override
    def overview_section(self) -> OverviewSection:
        """Return the rows by phase, and the failing ones."""
        title = str(self.opts.verbose_name_plural)
        phases = [phase for phase, _label in self.opts.get_field("phase").choices]  # type: ignore[union-attr]  # a CharField
        counted = CountedRows(
            f"{title[:1].upper()}{title[1:]}",
            self.live_rows(),
            phases,
            self._list_url(),
            self.sampled,
        )
        return OverviewSection(counted=[counted], failing=self.failing())

    def failing(self) -> list[FailingRows]:
        """Return the failed rows, and those in a transient phase."""
        page = f"admin:{self._url_name('change')}"
        failed = FailingRows(
            self.noun,
            self.failed_rows(),
            self._list_url(),
            page,
            cause="cause",
            name=self.name_field,
        )
        transient = self.live_rows().filter(phase__in=TRANSIENT_PHASES)
        return [failed, replace(failed, rows=transient, order="pk", waits=True)]

    @admin.display(description="Phase")
    def phase_column(self, row: Any) -> SafeString:
        """Return the badge."""
        return mirror_badge(row)

    @admin.display(description="Spec", ordering="spec_name")
    def spec_column(self, row: Any) -> str:
        """Return the GPU spec."""
        return visible(row.spec_name)

    @admin.display(description="Message", empty_value="")
    def why_column(self, row: Any) -> SafeString:
        """Return reason and message on one line; empty for a healthy row."""
        return SafeString("") if is_healthy(row, self.healthy_phases) else message_of(row)

    @admin.display(description="Since", ordering="-phase_since")
    def since(self, row: Any) -> SafeString:
        """Return the time since the last change of phase or reason."""
        return mirror_since(row)

    @override
    def get_queryset(self, request: Any) -> Any:
        return super().get_queryset(request).select_related("tenant", "operation")

    @override
    def get_search_results(
        self, request: Any, queryset: Any, search_term: str
    ) -> tuple[Any, bool]:
        """Find rows whose columns, or whose operationID, contain every word.

        The operations are read first: a condition on both tables would scan both.
        """
        for word in search_term.split()[:MAX_WORDS]:
            condition = Q(operation_id__in=self._operations_named(request, word))
            for column in self.search_fields:
                condition |= Q(**{f"{column}__icontains": word})
            queryset = queryset.filter(condition)
        return queryset, False

    def _operations_named(self, request: Any, word: str) -> list[int]:
        """Return the ids of operations whose operationID has a word, read once per request."""
        known: dict[str, list[int]] = request.__dict__.setdefault("operations_named", {})
        if word not in known:
            # This package does not import the model of operations.
            operations: Any = self.model._meta.get_field("operation").related_model  # noqa: SLF001
            named = operations.objects.filter(operation_id__icontains=word).order_by("-id")
            known[word] = list(named.values_list("pk", flat=True)[:MAX_OPERATIONS])
        return known[word]


def mirror_badge(row: Any) -> SafeString:
    """Return the badge of a mirrored row: Deleted, Degraded, or its phase."""
    if is_degraded(row) and not row.deleted_at:
        return shape_badge(Shape.WAITING, DEGRADED)
    return phase_badge(DELETED if row.deleted_at else row.phase)


def is_degraded(row: Any) -> bool:
    """Return whether a row has the condition Degraded; a row of another kind has none."""
    return any(
        field(one, "type") == DEGRADED and field(one, "status") == "True"
        for one in getattr(row, "conditions", ())
    )


def is_healthy(row: Any, healthy: Collection[str]) -> bool:
    """Return whether a row needs no explanation; `healthy` are the healthy phases."""
    return row.phase in healthy and not is_degraded(row)


def mirror_since(row: MirrorRow) -> SafeString:
    """Return the time since the last change of phase."""
    return age_html(row.deleted_at or row.phase_since)


def mirror_panel(
    row: Any, reasons: Mapping[Any, Explanation], *, healthy: Collection[str]
) -> Panel | None:
    """Return the explanation of an unhealthy row; None for a healthy one."""
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
        text=visible(row.message) or "The deletion is still in progress in the cluster.",
        since=age_html(row.phase_since),
        next_step=LONGER_THAN_USUAL,
    )


def mirror_subject(row: Any, kind: ResourceKind, *, label: str, dependents: str) -> Subject | None:
    """Return a row's object in the cluster; None where it has none."""
    if row.deleted_at or not row.uid:
        return None
    return Subject(kind, row.namespace, row.name, row.uid, label, dependents)


def mirror_facts(row: Any) -> Sequence[Fact]:
    """Return the facts of every mirrored row."""
    return (
        Fact("Namespace", row.namespace),
        Fact("UID", row.uid),
        Fact("Tenant", row.tenant.name if row.tenant else ""),
        Fact.time("Requested", row.created_at),
        Fact.time("Last synced", row.last_sync_at),
        Fact.time("Deletion requested", row.deletion_requested_at),
        Fact.time("Deleted", row.deleted_at),
        Fact.time("Next check", row.due_at),
        Fact("Failed attempts", str(row.failures) if row.failures else ""),
    )


def mirror_copies(row: Any, kind: str) -> Sequence[Copy]:
    """Return the texts to copy: names and `kubectl` commands."""
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


def service_line(row: Any) -> Comparison:
    """Return the comparison of the Service, which a template with ports has."""
    has_ports = bool(items(row.spec, "template", "ports"))
    actual = visible(row.service_name) or "none"
    is_equal = has_ports == bool(row.service_name)
    return Comparison("Service", actual if is_equal else "yes" if has_ports else "none", actual)


def comparison_note(row: MirrorRow) -> str:
    """Return a note on the comparison of desired and actual values."""
    if row.deleted_at:
        return "Deleted: no desired state."
    if not row.uid:
        return "Not in the cluster yet."
    if row.generation != row.observed_generation:
        return "The latest change of the spec is not reconciled yet."
    return ""


def ending_obstacle(row: Any) -> str:
    """Return why a row accepts no more changes; empty where it does."""
    if row.deleted_at:
        return "Already deleted."
    is_ending = row.deletion_requested_at or row.phase == TERMINATING
    return "Deletion in progress." if is_ending else ""


def _missing_obstacle(row: Any) -> str:
    if row.deleted_at:
        return "Already deleted."
    return "" if row.uid else "Not in the cluster yet."


def reconcile_action(noun: str, enqueue: Callable[[Any], object]) -> Action:
    """Return the action that reconciles rows immediately; `enqueue` marks a row due."""

    def consequence(rows: Sequence[Any], _: Values) -> str:
        waiting = sum(1 for row in rows if row.failures)
        retried = f" {waiting} of them would otherwise wait to retry." if waiting else ""
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
    )
