"""Stock pools in the admin."""

from collections.abc import Iterable, Iterator, Sequence

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from typing_extensions import override

from gpuplatform.adminkit.actions.mirrors import mirror_line
from gpuplatform.adminkit.actions.resources import ResourceAdmin
from gpuplatform.adminkit.detail.panels import (
    Comparison,
    Detail,
    Fact,
    RelatedRow,
    secrets_fact,
)
from gpuplatform.adminkit.display.badges import Shape, phase_shape, phase_title
from gpuplatform.adminkit.display.text import (
    condense,
    gpu_value,
    message_or_reason,
    resources_value,
    shortened,
    visible,
)
from gpuplatform.adminkit.display.timeline import Step
from gpuplatform.adminkit.display.urls import page_url
from gpuplatform.adminkit.lists.model_admin import column
from gpuplatform.kube.kinds import STOCK_POOL
from gpuplatform.operations.admin import operations_of
from gpuplatform.operations.admin_display import operation_steps
from gpuplatform.planning.ownership import POOL_LABEL
from gpuplatform.reconciliation.inspection import Subject
from gpuplatform.reconciliation.mirror import count
from gpuplatform.workloads.resources import resource_in
from inventory.admin_actions import CREATE, POOL_ACTIONS
from inventory.core.names import object_name
from inventory.models import GpuSpec, StockPool
from inventory.phases import POOL_REASONS, PoolPhase, PoolReason
from inventory.selectors import is_spec_catalogued, spec_row

COUNTING_REASONS = frozenset({PoolReason.DEPLOYMENT_READY, PoolReason.DEPLOYMENT_PROGRESSING})
"""Reasons whose messages contain the number of pods."""


@admin.register(StockPool)
class StockPoolAdmin(ResourceAdmin):
    """The list and the pages of stock pools."""

    row_actions = POOL_ACTIONS
    empty_text = (
        "No stock pools yet. The pods of a stock pool hold GPUs until the pool is deleted. Its"
        " GPUs never become units."
    )
    search_order = 3
    resource_kind = STOCK_POOL
    owner_label = POOL_LABEL
    object_kind = STOCK_POOL.kind
    creation = CREATE
    healthy_phases = frozenset({PoolPhase.READY})
    reasons = POOL_REASONS
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
    search_fields = ("name", "spec__image")
    search_help_text = "name, operationID or image"

    replicas = column("Ready", lambda row: f"{row.available_replicas}/{row.desired_replicas}")

    @override
    def get_queryset(self, request: HttpRequest) -> QuerySet[StockPool]:
        rows: QuerySet[StockPool] = super().get_queryset(request)
        return rows.annotate(  # type: ignore[no-redef]  # declared
            is_spec_catalogued=is_spec_catalogued(), spec_row=spec_row()
        )

    @override
    def line(self, row: StockPool) -> RelatedRow:
        return mirror_line(row, _summary(row))

    @override
    def detail(self, row: StockPool) -> Detail:
        return self.resource_detail(
            row,
            facts=_facts(row),
            steps=(*operation_steps(row.operation), *_steps(row)),
            comparisons=[
                Comparison("Replicas", str(row.desired_replicas), str(row.available_replicas))
            ],
            related=[operations_of(self.object_kind, row.pk)],
        )

    @override
    def deployment_of(self, row: StockPool) -> str:
        return object_name(row.name)

    @override
    def steps_of_object(self, row_id: int) -> Sequence[Step]:
        row = StockPool.objects.filter(pk=row_id).first()
        return list(_steps(row)) if row else ()

    @override
    def subject_of_object(self, request: HttpRequest, row_id: int) -> Subject | None:
        row = StockPool.objects.filter(pk=row_id).first()
        return self.subject(request, row) if row and self.has_view_permission(request) else None


def spec_fact(name: str, row: int | None) -> Fact:
    """Return the name of a GPU spec, with a link to its page if the catalogue contains it.

    `row` is its id, or `None` if the catalogue does not contain it.
    """
    if name and row is None:
        return Fact("GPU spec", f"{name} (not in the catalogue)")
    return Fact("GPU spec", name, page_url(GpuSpec(pk=row)) if row else "")


def _steps(row: StockPool) -> Iterator[Step]:
    """Yield the phase of a pool and, until the pool is ready, its pending readiness."""
    if row.deleted_at:
        yield Step("Deleted", row.deleted_at, Shape.OFF)
        return
    text = message_or_reason(row.reason, row.message)
    yield Step(phase_title(row.phase), row.phase_since, phase_shape(row.phase), text)
    if row.phase not in {PoolPhase.READY, PoolPhase.EMPTY, PoolPhase.TERMINATING}:
        yield Step("Ready", None, Shape.OFF, f"not yet: {_pods(row)}")


def _facts(row: StockPool) -> Iterable[Fact]:
    spec = row.spec if isinstance(row.spec, dict) else {}
    yield spec_fact(row.spec_name, row.spec_row)
    yield Fact("GPUs per pod", gpu_value(count(spec, "gpu"), resource_in(spec)))
    yield Fact("Further resources", resources_value(spec.get("resources")))
    yield Fact("Memory per pod", visible(str(spec.get("memory", ""))))
    yield Fact("Image", shortened(str(spec.get("image", "")), 512))
    yield secrets_fact(spec)


def _summary(row: StockPool) -> str:
    """Return the message of a pool, preceded by the number of pods unless it contains that."""
    message = shortened(condense(row.message))
    if row.reason in COUNTING_REASONS:
        return message
    return f"{_pods(row)} · {message}" if message else _pods(row)


def _pods(row: StockPool) -> str:
    return f"{row.available_replicas} of {row.desired_replicas} pods"
