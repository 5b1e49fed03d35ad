"""The cause for which the requests of a GPU spec wait for stock."""

import pytest

from units.core.shortfall import StockOfSpec, queue_cause
from units.phases import QUEUE_CAUSES, QueueCause

CASES = {
    QueueCause.SPEC_MISSING: StockOfSpec(is_known=False, starting=1),
    QueueCause.SPEC_DISABLED: StockOfSpec(is_enabled=False, ready=1),
    QueueCause.STOCK_AVAILABLE: StockOfSpec(is_known=False, ready=1, unplaced=1),
    QueueCause.STOCK_UNSCHEDULABLE: StockOfSpec(starting=1, unplaced=1, is_top_up_paused=True),
    QueueCause.STOCK_STARTING: StockOfSpec(starting=1, is_top_up_paused=True, has_failures=True),
    QueueCause.STOCK_FAILED: StockOfSpec(has_failures=True, is_top_up_paused=True),
    QueueCause.TOP_UP_PAUSED: StockOfSpec(is_top_up_paused=True),
    QueueCause.STOCK_MISSING: StockOfSpec(),
}


# The limits of a tenant concern one request, and not the stock.
@pytest.mark.parametrize("cause", sorted(set(QueueCause) - {QueueCause.WAITING_FOR_QUOTA}))
def test_the_most_important_cause_is_returned(cause: QueueCause) -> None:
    assert queue_cause(CASES[cause]) == cause
    assert QUEUE_CAUSES[cause].next_step
