"""State machines are complete: the database allows every phase; each has an entry and an exit."""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import pytest
from django.apps import apps
from django.db.models import CheckConstraint, Model, TextChoices

from gpuplatform.adminkit.display import badges
from gpuplatform.lifecycle.explanations import Explanation
from gpuplatform.lifecycle.transition import PhaseTable, terminal_phases
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import (
    OPERATION_PHASES,
    OPERATION_TRANSITIONS,
    OPERATION_WAITS,
    OperationPhase,
    OperationWait,
)
from gpuplatform.tenancy.models import Tenant
from gpuplatform.tenancy.phases import TENANT_PHASES, TENANT_TRANSITIONS, TenantPhase
from gpuplatform.tenants.names import TENANT_WAITS, TenantWait
from inventory.models import StockPool
from inventory.phases import POOL_PHASES, POOL_REASONS, PoolPhase, PoolReason
from serverless.models import Function, Invocation
from serverless.phases import (
    FAILURE_CLASSES,
    FUNCTION_PHASES,
    FUNCTION_REASONS,
    FUNCTION_TRANSITIONS,
    FUNCTION_WAITS,
    INVOCATION_STATES,
    INVOCATION_TRANSITIONS,
    FailureClass,
    FunctionPhase,
    FunctionReason,
    FunctionWait,
    InvocationState,
)
from serverless.webhook_phases import (
    WEBHOOK_FAILURES,
    WEBHOOK_STATES,
    WebhookFailure,
    WebhookState,
)
from tests.contract.source_files import ROOT
from units.models import CapacityRequest, GpuUnit, UnitHistory, WarmImage
from units.phases import (
    QUEUE_CAUSES,
    REQUEST_TRANSITIONS,
    UNIT_PHASES,
    UNIT_REASONS,
    UNIT_WAITS,
    QueueCause,
    RequestPhase,
    UnitPhase,
    UnitReason,
    UnitWait,
    WarmImageState,
)

Machine = tuple[type[Model], type[TextChoices], PhaseTable]
MACHINES: Mapping[str, Machine] = {
    "operation": (Operation, OperationPhase, OPERATION_TRANSITIONS),
    "function": (Function, FunctionPhase, FUNCTION_TRANSITIONS),
    "invocation": (Invocation, InvocationState, INVOCATION_TRANSITIONS),
    "capacity request": (CapacityRequest, RequestPhase, REQUEST_TRANSITIONS),
    "tenant": (Tenant, TenantPhase, TENANT_TRANSITIONS),
}
MIRRORED: Mapping[str, tuple[type[Model], type[TextChoices]]] = {
    "stock pool": (StockPool, PoolPhase),
    "GPU unit": (GpuUnit, UnitPhase),
    "warm image": (WarmImage, WarmImageState),
}
"""Rows that copy the phase of a resource; its planner does not depend on the previous phase."""
COPIES = {UnitHistory}
"""Rows that repeat a phase of another row."""
REASONS: Mapping[str, tuple[type[StrEnum], Mapping[Any, Explanation]]] = {
    "stock pool": (PoolReason, POOL_REASONS),
    "GPU unit": (UnitReason, UNIT_REASONS),
    "function": (FunctionReason, FUNCTION_REASONS),
    "invocation": (FailureClass, FAILURE_CLASSES),
    "webhook": (WebhookFailure, WEBHOOK_FAILURES),
    "operation": (OperationWait, OPERATION_WAITS),
    "operation on units": (UnitWait, UNIT_WAITS),
    "capacity queue": (QueueCause, QUEUE_CAUSES),
    "operation on functions": (FunctionWait, FUNCTION_WAITS),
    "operation on tenants": (TenantWait, TENANT_WAITS),
}
MEANINGS: Mapping[str, tuple[type[TextChoices], Mapping[Any, str]]] = {
    "operation": (OperationPhase, OPERATION_PHASES),
    "stock pool": (PoolPhase, POOL_PHASES),
    "GPU unit": (UnitPhase, UNIT_PHASES),
    "function": (FunctionPhase, FUNCTION_PHASES),
    "invocation": (InvocationState, INVOCATION_STATES),
    "webhook": (WebhookState, WEBHOOK_STATES),
    "tenant": (TenantPhase, TENANT_PHASES),
}
APPS = ("gpuplatform/operations", "gpuplatform/tenants", "inventory", "units", "serverless")
_WAITING = re.compile(r"\b(?:Waiting|_Obstacle)\(\s*([^,\s)]+),")
_SENTENCE = re.compile(r"[A-Z][^|\n]+\.")
each_machine = pytest.mark.parametrize(
    ("model", "phases", "table"), MACHINES.values(), ids=list(MACHINES)
)


each_model = pytest.mark.parametrize(
    ("model", "phases"),
    [*((model, phases) for model, phases, _ in MACHINES.values()), *MIRRORED.values()],
    ids=[*MACHINES, *MIRRORED],
)


def test_every_model_with_a_phase_is_checked_here() -> None:
    with_phase = {
        model
        for model in apps.get_models()
        if {"phase", "state"} & {f.name for f in model._meta.fields} and not model._meta.proxy
    }

    machines = {model for model, _, _ in MACHINES.values()}
    assert with_phase - COPIES == machines | {model for model, _ in MIRRORED.values()}


@each_machine
def test_the_table_has_every_phase_and_no_other(
    model: type[Model], phases: type[TextChoices], table: PhaseTable
) -> None:
    assert set(table) == set(phases)
    assert {phase for following in table.values() for phase in following} <= set(phases)


@each_machine
def test_every_phase_can_be_reached_and_left(
    model: type[Model], phases: type[TextChoices], table: PhaseTable
) -> None:
    first = str(next(iter(phases)))
    reached, new = {first}, {first}
    while new:
        new = {phase for one in new for phase in table[one]} - reached
        reached |= new

    assert reached == set(phases)
    assert terminal_phases(table)  # without an end, rows are kept forever
    assert all(following - {phase} for phase, following in table.items() if following)


@each_model
def test_the_database_accepts_exactly_the_phases(
    model: type[Model], phases: type[TextChoices]
) -> None:
    checks = [c for c in model._meta.constraints if isinstance(c, CheckConstraint)]

    known = [c for c in checks if re.search("(phase|state)__in", str(c.condition))]
    assert any(all(str(phase) in str(c.condition) for phase in phases) for c in known)


@each_model
def test_every_phase_has_a_badge(model: type[Model], phases: type[TextChoices]) -> None:
    assert {str(phase) for phase in phases} <= badges.PHASE_SHAPES.keys()


@pytest.mark.parametrize(("reasons", "explained"), REASONS.values(), ids=list(REASONS))
def test_every_reason_has_a_meaning_and_a_next_step(
    reasons: type[StrEnum], explained: Mapping[Any, Explanation]
) -> None:
    sentences = [text for one in explained.values() for text in (one.meaning, one.next_step)]

    assert set(explained) == set(reasons)
    assert [text for text in sentences if not _SENTENCE.fullmatch(text)] == []


@pytest.mark.parametrize(("phases", "meanings"), MEANINGS.values(), ids=list(MEANINGS))
def test_every_phase_is_explained(phases: type[TextChoices], meanings: Mapping[Any, str]) -> None:
    assert set(meanings) == set(phases)
    assert [text for text in meanings.values() if not _SENTENCE.fullmatch(text)] == []


def test_every_wait_of_an_operation_is_explained() -> None:
    files = [p for app in APPS for p in (ROOT / app).rglob("*.py")]
    waits = [_WAITING.findall(path.read_text()) for path in files]

    # A literal text would have no explanation.
    assert {reason for found in waits for reason in found} == {
        f"{words.__name__}.{word.name}"
        for words in (OperationWait, UnitWait, FunctionWait, TenantWait)
        for word in words
    }
