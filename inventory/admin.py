"""Stock pools in the admin."""

from collections.abc import Iterator, Sequence

from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse
from typing_extensions import override

from gpuplatform.adminkit.actions.cluster_section import ClusterSectionAdmin
from gpuplatform.adminkit.actions.mirrors import (
    MirrorAdmin,
    comparison_note,
    generation_line,
    mirror_badge,
    mirror_copies,
    mirror_facts,
    mirror_panel,
    mirror_since,
    mirror_subject,
    service_line,
)
from gpuplatform.adminkit.detail.links import ObjectPage, register_object_page
from gpuplatform.adminkit.detail.panels import (
    Comparison,
    Detail,
    Document,
    Fact,
    RelatedRow,
    condition_lines,
    secrets_fact,
)
from gpuplatform.adminkit.display.age import age_html
from gpuplatform.adminkit.display.badges import Shape, phase_shape, phase_title
from gpuplatform.adminkit.display.causes import register_reasons
from gpuplatform.adminkit.display.text import (
    as_yaml,
    condense,
    message_or_reason,
    shortened,
    visible,
)
from gpuplatform.adminkit.display.timeline import Step, timeline
from gpuplatform.adminkit.lists.filters import (
    AgeFilter,
    HistoryFilter,
    NamespaceFilter,
    PhaseTabs,
    ReasonFilter,
    SpecFilter,
    TenantFilter,
)
from gpuplatform.kube.fields import items
from gpuplatform.kube.kinds import STOCK_POOL
from gpuplatform.operations.admin import operations_of
from gpuplatform.operations.admin_display import operation_steps
from gpuplatform.planning.ownership import POOL_LABEL
from gpuplatform.reconciliation.inspection import Subject
from inventory.admin_actions import CREATE, POOL_ACTIONS
from inventory.core.names import object_name
from inventory.models import GpuSpec, StockPool
from inventory.phases import POOL_REASONS, PoolPhase, PoolReason

HEALTHY_PHASES = frozenset({PoolPhase.READY})
"""Phases that need no explanation."""

COUNTING_REASONS = frozenset({PoolReason.DEPLOYMENT_READY, PoolReason.DEPLOYMENT_PROGRESSING})
"""Reasons whose messages have the number of pods."""

KIND = "StockPool"
PAGE_URL = "admin:inventory_stockpool_change"
SPEC_URL = "admin:inventory_gpuspec_change"
VIEW_PERMISSION = "inventory.view_stockpool"


class PoolReasonFilter(ReasonFilter):
    """The reason of the phase."""

    reasons = POOL_REASONS


@admin.register(StockPool)
class StockPoolAdmin(ClusterSectionAdmin, MirrorAdmin):
    """The stock pools."""

    row_actions = POOL_ACTIONS
    empty_text = (
        "No stock pools yet. A pool holds GPUs with its own pods until it is deleted; its GPUs"
        " never become units."
    )
    search_order = 3
    creation = CREATE
    healthy_phases = HEALTHY_PHASES
    noun = "pool"
    sampled = "pools"
    list_display = (
        "phase_column",
        "name",
        "namespace",
        "spec_column",
        "replicas",
        "why_column",
        "since",
    )
    list_display_links = ("name",)
    list_filter = (
        SpecFilter,
        PoolReasonFilter,
        TenantFilter,
        NamespaceFilter,
        AgeFilter,
        HistoryFilter,
        PhaseTabs,
    )
    search_fields = ("name", "spec__image")
    search_help_text = "name, operationID or image"
    sortable_by = ("name", "namespace", "spec_column", "since")

    @admin.display(description="Ready")
    def replicas(self, row: StockPool) -> str:
        """Return the number of available and of desired pods."""
        return f"{row.available_replicas}/{row.desired_replicas}"

    @override
    def line(self, row: StockPool) -> RelatedRow:
        return _line(row)

    @override
    def detail(self, row: StockPool) -> Detail:
        return Detail(
            title=row.name,
            badge=mirror_badge(row),
            since=mirror_since(row),
            panel=mirror_panel(row, POOL_REASONS, healthy=HEALTHY_PHASES),
            facts=_facts(row),
            comparisons=_comparisons(row),
            comparison_note=comparison_note(row),
            timeline=timeline((*operation_steps(row.operation), *_steps(row))),
            copies=mirror_copies(row, "stockpool"),
            conditions=condition_lines(
                row.conditions, failed=row.phase == PoolPhase.FAILED, cause=row.cause
            ),
            has_conditions=True,
            related=[operations_of(KIND, row.pk)],
            documents=(Document("Spec", visible(as_yaml(row.spec))),),
        )

    @override
    def subject(self, request: HttpRequest, row: StockPool) -> Subject | None:
        return _subject(row)


def _subject(row: StockPool) -> Subject | None:
    dependents = object_name(row.name)
    return mirror_subject(row, STOCK_POOL, label=POOL_LABEL, dependents=dependents)


def _steps(row: StockPool) -> Iterator[Step]:
    """Yield the phase of a pool, and its readiness while that is pending."""
    if row.deleted_at:
        yield Step("Deleted", row.deleted_at, Shape.OFF)
        return
    text = message_or_reason(row.reason, row.message)
    yield Step(phase_title(row.phase), row.phase_since, phase_shape(row.phase), text)
    if row.phase not in HEALTHY_PHASES | {PoolPhase.EMPTY, PoolPhase.TERMINATING}:
        pods = f"{row.available_replicas} of {row.desired_replicas} pods"
        yield Step("Ready", None, Shape.OFF, f"not yet: {pods}")


def _facts(row: StockPool) -> Sequence[Fact]:
    spec = row.spec if isinstance(row.spec, dict) else {}
    entry = GpuSpec.objects.filter(name=row.spec_name).first()
    facts = [
        Fact("GPU spec", row.spec_name, reverse(SPEC_URL, args=[entry.pk]) if entry else ""),
        Fact("GPUs per pod", str(spec.get("gpu", ""))),
        Fact("Memory per pod", visible(str(spec.get("memory", "")))),
        Fact("Image", shortened(str(spec.get("image", "")), 512)),
        secrets_fact(spec),
        *mirror_facts(row),
    ]
    return [fact for fact in facts if fact.value]


def _comparisons(row: StockPool) -> Sequence[Comparison]:
    if row.deleted_at:
        return ()
    lines = [
        Comparison("Replicas", str(row.desired_replicas), str(row.available_replicas)),
        generation_line(row),
    ]
    if row.service_name or items(row.spec, "template", "ports"):
        lines.append(service_line(row))
    return lines


def _line(row: StockPool) -> RelatedRow:
    return RelatedRow(
        badge=mirror_badge(row),
        name=str(row),
        url=reverse(PAGE_URL, args=[row.pk]),
        text=_summary(row),
        since=age_html(row.phase_since),
    )


def _summary(row: StockPool) -> str:
    """Return the number of pods, unless the message has it, and the message."""
    pods = f"{row.available_replicas} of {row.desired_replicas} pods"
    message = shortened(condense(row.message))
    if row.reason in COUNTING_REASONS:
        return message
    return f"{pods} · {message}" if message else pods


def _rows(row_id: int) -> Sequence[RelatedRow]:
    return [_line(row) for row in StockPool.objects.filter(pk=row_id)]


def _steps_of(row_id: int) -> Sequence[Step]:
    row = StockPool.objects.filter(pk=row_id).first()
    return list(_steps(row)) if row else ()


def _subject_of(request: HttpRequest, row_id: int) -> Subject | None:
    row = StockPool.objects.filter(pk=row_id).first()
    return _subject(row) if row and request.user.has_perm(VIEW_PERMISSION) else None


register_reasons(POOL_REASONS)
register_object_page(KIND, ObjectPage(PAGE_URL, _rows, _steps_of, _subject_of))
