"""The cause for which the requests of a GPU spec wait for stock. Pure."""

from dataclasses import dataclass

from units.phases import QueueCause


@dataclass(frozen=True, slots=True)
class StockOfSpec:
    """What is known about a GPU spec and its unclaimed stock."""

    is_known: bool = True
    is_enabled: bool = True
    is_top_up_paused: bool = False
    ready: int = 0
    starting: int = 0
    unplaced: int = 0
    """Number of stock units that do not fit any node."""
    has_failures: bool = False
    """Whether so much stock has failed that the top-up has stopped."""


def queue_cause(stock: StockOfSpec) -> QueueCause:
    """Return the cause for which the requests of a GPU spec wait, the most important one first."""
    causes = (
        (not stock.is_known and not stock.ready, QueueCause.SPEC_MISSING),
        (not stock.is_enabled, QueueCause.SPEC_DISABLED),
        (stock.ready > 0, QueueCause.STOCK_AVAILABLE),
        (stock.unplaced > 0, QueueCause.STOCK_UNSCHEDULABLE),
        (stock.starting > 0, QueueCause.STOCK_STARTING),
        (stock.has_failures, QueueCause.STOCK_FAILED),
        (stock.is_top_up_paused, QueueCause.TOP_UP_PAUSED),
    )
    return next((cause for is_so, cause in causes if is_so), QueueCause.STOCK_MISSING)
