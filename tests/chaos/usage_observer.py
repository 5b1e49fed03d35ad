"""An observer of pods that is independent of the platform, and its comparison with the ledger.

The observer only lists pods. A unit holds GPUs while a pod of the unit, or of the stock unit that
it consumed, is bound and has not ended. The ledger may charge less than that only if it says that
an end is estimated, and never more.
"""

import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple, Self

from gpuplatform.kube.client import Cluster
from gpuplatform.kube.errors import ClusterError
from gpuplatform.kube.kinds import POD, Manifest
from gpuplatform.planning.ownership import UNIT_LABEL
from gpuplatform.usage.core.sights import sight_of
from gpuplatform.workloads.holders import holds_gpu
from tests.benchmarks.bench import say

EVERY_SECONDS: Final = 0.25
EXACT: Final = timedelta(seconds=2)
"""The largest difference of a unit whose ends are observed. Times of pods have whole seconds."""

INTERVALS: Final = (
    "SELECT unit_uid, unit_name, source_uid, started_at, COALESCE(ended_at, seen_at),"
    " end_basis = 'observed' FROM usage_usageinterval ORDER BY id"
)


class Hold(NamedTuple):
    """The time in which a pod held GPUs, as the observer saw it."""

    owner: str
    """UID of the unit or of the stock unit."""
    begin: datetime
    end: datetime


class Charge(NamedTuple):
    """A row of `INTERVALS`. An open interval is not observed."""

    unit: str
    name: str
    source: str
    begin: datetime
    end: datetime
    is_observed: bool


class Row(NamedTuple):
    """A unit in the table of the comparison, with times in seconds."""

    name: str
    charged: float
    held: float
    is_exact: bool
    """Whether the ledger knows all ends of the unit."""

    @property
    def is_wrong(self) -> bool:
        """Whether the ledger charged too much, or less without saying so."""
        difference = self.charged - self.held
        most = EXACT.total_seconds()
        return difference > most or (self.is_exact and difference < -most)


def compared(charges: Iterable[Charge], holds: Iterable[Hold]) -> list[Row]:
    """Return the charged and the held time of each unit, from the start of its first interval."""
    by_owner: dict[str, list[Hold]] = defaultdict(list)
    for hold in holds:
        by_owner[hold.owner].append(hold)
    by_unit: dict[str, list[Charge]] = defaultdict(list)
    for charge in charges:
        by_unit[charge.unit].append(charge)
    return [_row(found, by_owner) for found in by_unit.values()]


def _row(charges: Sequence[Charge], holds: Mapping[str, Sequence[Hold]]) -> Row:
    begun: dict[str, datetime] = {}
    for one in charges:
        begun.setdefault(one.source, one.begin)
    # The pod of a stock unit counts from the time at which the unit consumed it.
    spans = [
        (max(hold.begin, begin), hold.end)
        for source, begin in begun.items()
        for hold in holds.get(source, ())
    ]
    spans += [
        (max(hold.begin, charges[0].begin), hold.end) for hold in holds.get(charges[0].unit, ())
    ]
    charged = sum((one.end - one.begin for one in charges), timedelta())
    return Row(
        charges[0].name,
        charged.total_seconds(),
        _length(spans).total_seconds(),
        all(one.is_observed for one in charges),
    )


def _length(spans: Iterable[tuple[datetime, datetime]]) -> timedelta:
    """Return the length of the union of spans."""
    total, last = timedelta(), datetime.min.replace(tzinfo=UTC)
    for begin, end in sorted(spans):
        total += max(end - max(begin, last), timedelta())
        last = max(last, end)
    return total


@dataclass
class PodObserver:
    """Lists the pods of units in a thread of its own, from `__enter__` to `__exit__`."""

    cluster: Cluster
    _holds: dict[str, Hold] = field(default_factory=dict)
    _over: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        """Start to observe."""
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop to observe."""
        self._over.set()
        self._thread.join(10)

    def holds(self) -> list[Hold]:
        """Return the holds of all pods that were ever seen."""
        return list(self._holds.values())

    def _watch(self) -> None:
        while not self._over.wait(EVERY_SECONDS):
            try:
                pods = self.cluster.list(POD, label_selector=UNIT_LABEL).items
            except ClusterError:
                continue
            for pod in pods:
                self.saw(pod, datetime.now(UTC))

    def saw(self, pod: Manifest, at: datetime) -> None:
        """Record a pod that exists at `at`."""
        sight = sight_of(pod)
        if sight is None:
            return
        end = sight.at if sight.is_end or not holds_gpu(pod) else at
        known = self._holds.get(sight.pod_uid)
        if known is None or end > known.end or sight.is_end:
            self._holds[sight.pod_uid] = Hold(sight.unit_uid, sight.bound_at, end)


def faults_of(platform: Any, observer: PodObserver) -> list[str]:
    """Print the table of the comparison; return the violations."""
    charges = [Charge(*row) for row in platform.sql(INTERVALS)]
    rows = compared(charges, observer.holds())
    say(f"  {'unit':24} {'charged':>9} {'observed':>9}  seconds")
    for row in rows:
        say(
            f"  {row.name:24} {row.charged:9.1f} {row.held:9.1f}"
            f"  {'' if row.is_exact else 'estimated or open'}"
        )
    exact = sum(row.is_exact for row in rows)
    say(f"  {len(rows)} units, {exact} of them exact, {sum(row.is_wrong for row in rows)} wrong")
    return [
        f"{row.name}: {row.charged} s charged, {row.held} s held" for row in rows if row.is_wrong
    ]
