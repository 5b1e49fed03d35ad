"""Values that are derived from a phase table."""

from gpuplatform.lifecycle.transition import open_phases, previous_phases, terminal_phases

TABLE = {"A": frozenset({"A", "B"}), "B": frozenset({"C"}), "C": frozenset[str]()}


def test_a_phase_that_nothing_follows_is_terminal() -> None:
    assert terminal_phases(TABLE) == {"C"}


def test_every_other_phase_is_open() -> None:
    assert open_phases(TABLE) == {"A", "B"}


def test_the_phases_before_another_are_those_that_may_lead_to_it() -> None:
    assert previous_phases(TABLE, "A") == {"A"}
    assert previous_phases(TABLE, "B") == {"A"}
    assert previous_phases(TABLE, "no such phase") == frozenset()
