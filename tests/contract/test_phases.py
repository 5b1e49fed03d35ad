"""State machines are whole: the database knows every phase, and none is a trap or an island."""

from collections.abc import Mapping

import pytest
from django.apps import apps
from django.db.models import CheckConstraint, Model, TextChoices

from gpuplatform.adminkit import badges
from gpuplatform.lifecycle.transition import PhaseTable, terminal_phases
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OPERATION_TRANSITIONS, OperationPhase
from inventory.models import StockPool
from inventory.phases import NEXT_STEPS, POOL_TRANSITIONS, PoolPhase, PoolReason

Machine = tuple[type[Model], type[TextChoices], PhaseTable]
MACHINES: Mapping[str, Machine] = {
    "operation": (Operation, OperationPhase, OPERATION_TRANSITIONS),
    "stock pool": (StockPool, PoolPhase, POOL_TRANSITIONS),
}
each_machine = pytest.mark.parametrize(
    ("model", "phases", "table"), MACHINES.values(), ids=list(MACHINES)
)


def test_every_model_with_a_phase_is_checked_here() -> None:
    with_phase = {
        model for model in apps.get_models() if "phase" in [f.name for f in model._meta.fields]
    }

    assert with_phase == {model for model, _, _ in MACHINES.values()}


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
    reached, new = {"Pending"}, {"Pending"}
    while new:
        new = {phase for one in new for phase in table[one]} - reached
        reached |= new

    assert reached == set(phases)
    assert terminal_phases(table)
    assert all(following - {phase} for phase, following in table.items() if following)


@each_machine
def test_the_database_knows_the_phases(
    model: type[Model], phases: type[TextChoices], table: PhaseTable
) -> None:
    checks = [c for c in model._meta.constraints if isinstance(c, CheckConstraint)]

    known = [c for c in checks if "phase__in" in str(c.condition)]
    assert any(all(str(phase) in str(c.condition) for phase in phases) for c in known)


@each_machine
def test_every_phase_has_a_badge(
    model: type[Model], phases: type[TextChoices], table: PhaseTable
) -> None:
    shown = {phase: str(badges.phase_badge(phase)) for phase in phases}

    assert all(phase in text for phase, text in shown.items())


def test_every_reason_says_what_to_do_next() -> None:
    assert set(NEXT_STEPS) == set(PoolReason)
    assert all(step.endswith(".") for step in NEXT_STEPS.values())
