"""Hand-overs on real nodes during which the workers, the broker or the database are killed."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pytest

from gpuplatform.kube.client import Cluster
from gpuplatform.kube.fields import field
from gpuplatform.kube.kinds import GPU_UNIT
from tests.benchmarks.bench import NAMESPACE as TENANT_NAMESPACE
from tests.benchmarks.bench import (
    PORTS,
    SPEC,
    UNITS,
    Bench,
    UnitsPlatform,
    started,
    temporary_folder,
)
from tests.node.cluster import NodeCluster
from tests.node.images import APP
from tests.node.pod_events import PodEvents, following
from tests.node.processes import images_of_the_nodes, stopped_afterwards

pytestmark = [pytest.mark.node, pytest.mark.timeout(300)]

WORKERS: Final = ("operations", "reconcile")
FREE: Final = (
    "SELECT name FROM units_gpuunit WHERE role = 'stock' AND phase = 'Ready'"
    " AND claimed_by_id IS NULL AND consumed_by = '' AND deleted_at IS NULL"
)
SOURCE: Final = (
    "SELECT stock.name FROM units_gpuunit unit JOIN units_gpuunit stock"
    " ON stock.uid = unit.source_uid AND stock.consumed_by = unit.uid"
    " WHERE unit.role = 'active' AND unit.name = %s"
)


@dataclass(frozen=True, slots=True)
class HandOver:
    """What the cluster shows of a hand-over."""

    cluster: Cluster
    events: PodEvents
    unit: str
    stock: frozenset[str]
    """The stock units of which the unit consumes one."""

    def is_unit_created(self) -> bool:
        """Return whether the unit exists in the cluster."""
        return self.cluster.get(GPU_UNIT, self.unit, namespace=TENANT_NAMESPACE) is not None

    def is_stock_ending(self) -> bool:
        """Return whether the pod of a stock unit is terminating."""
        states = [state for name in self.stock for state in self.events.pods_of(name)]
        return any(field(state, "metadata", "deletionTimestamp") for state in states)

    def has_stock_ended(self) -> bool:
        """Return whether the pod of a stock unit has ended."""
        return any(self.events.ended(name) is not None for name in self.stock)

    def has_pod(self) -> bool:
        """Return whether the unit has a pod."""
        return self.events.created(self.unit) is not None


Moment = Callable[[HandOver], bool]
MOMENTS: Final[dict[str, Moment]] = {
    "request accepted": lambda _: True,
    "unit created": HandOver.is_unit_created,
    "stock terminating": HandOver.is_stock_ending,
    "stock ended": HandOver.has_stock_ended,
    "pod created": HandOver.has_pod,
}
OUTAGES: Final = [
    *(pytest.param(WORKERS, moment, id=f"workers, {moment}") for moment in MOMENTS),
    pytest.param(("valkey",), "request accepted", id="broker, request accepted"),
    pytest.param(("valkey",), "stock terminating", id="broker, stock terminating"),
    pytest.param(("postgres",), "request accepted", id="database, request accepted"),
    pytest.param(("postgres",), "stock terminating", id="database, stock terminating"),
]


@pytest.fixture(scope="module")
def bench(nodes: NodeCluster) -> Iterator[Bench]:
    """The platform with short leases and frequent sweeps."""
    with contextlib.ExitStack() as stack:
        folder = temporary_folder(stack)
        with images_of_the_nodes():
            platform = UnitsPlatform(folder, kubeconfig=nodes.kubeconfig)
        stack.enter_context(stopped_afterwards(platform))
        yield started(stack, platform, nodes.kubeconfig)


@pytest.fixture
def stock(bench: Bench) -> Iterator[frozenset[str]]:
    """The names of two stock units; at the end, all units are deleted."""
    bench.seed(2)
    yield frozenset(name for (name,) in bench.platform.sql(FREE))
    bench.empty()


@pytest.mark.parametrize(("parts", "moment"), OUTAGES)
def test_a_hand_over_completes_after_an_outage(
    bench: Bench, cluster: Cluster, stock: frozenset[str], parts: tuple[str, ...], moment: str
) -> None:
    platform, unit = bench.platform, bench.name("unit")
    with following(cluster) as events:
        hand_over = HandOver(cluster, events, unit, stock)
        body = {"operationID": unit, "name": unit, "specName": SPEC, "image": APP}

        assert platform.request("POST", UNITS, {**body, "template": PORTS}).status == 202
        platform.wait(lambda: MOMENTS[moment](hand_over), moment)
        with killed(platform, parts):
            if moment == "stock terminating":  # The platform misses the end of the pod.
                platform.wait(hand_over.has_stock_ended, "the end of the pod of the stock")
        platform.wait(lambda: is_ready(platform, unit), "the unit to be ready")

    [(source,)] = platform.sql(SOURCE, unit)
    ended, created = events.ended(source), events.created(unit)
    assert ended is not None
    assert created is not None
    assert ended < created
    assert len({pod["metadata"]["uid"] for pod in events.pods_of(unit)}) == 1
    assert {name for (name,) in platform.sql(FREE)} == stock - {source}


@contextlib.contextmanager
def killed(platform: UnitsPlatform, parts: Sequence[str]) -> Iterator[None]:
    """Kill parts with SIGKILL, and start them after the block."""
    platform.kill_at_once(parts)
    try:
        yield
    finally:
        for name in parts:
            platform.start(name)


def is_ready(platform: UnitsPlatform, unit: str) -> bool:
    """Return whether the API responds that the unit is ready."""
    answer = platform.request("GET", f"{UNITS}/{unit}")
    return answer.status == 200 and answer.data["phase"] == "Ready"
