"""The text about withheld stock, and the number of stock units that replace it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuplatform.workloads.causes import StartupCause
from units.core.withheld import units_missing, withheld_text


def test_the_text_has_the_number_of_each_cause() -> None:
    found = withheld_text({StartupCause.NODE_CORDONED: 2, StartupCause.NODE_TAINTED: 1, "": 1})

    assert [part in found for part in ("4 stock units", "2 \u00d7", "1 \u00d7")] == [True] * 3
    assert withheld_text({}) == ""


@pytest.mark.parametrize(
    ("target", "held", "withheld", "room", "missing"),
    [
        (4, 0, 0, None, 4),
        (4, 4, 0, None, 0),
        (4, 6, 0, 9, 0),
        (4, 4, 3, 9, 3),
        (4, 4, 3, 2, 2),
        (4, 4, 3, 0, 0),
        (4, 4, 3, None, 0),
        (4, 3, 2, 0, 1),
        (4, 8, 4, 9, 0),
        (4, 4, 4, -2, 0),
    ],
)
def test_withheld_stock_is_replaced_as_far_as_nodes_have_room(
    target: int, held: int, withheld: int, room: int | None, missing: int
) -> None:
    assert units_missing(target, held, withheld, room) == missing


@given(
    st.integers(0, 50), st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=20)
)
def test_repeated_top_ups_never_exceed_twice_the_target(
    target: int, rounds: list[tuple[int, int]]
) -> None:
    held = 0
    for withheld, room in rounds:
        held += units_missing(target, held, min(withheld, held), room)
        assert held <= 2 * target
