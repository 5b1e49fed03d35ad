"""Collectors of the metrics that are read at each scrape.

Beat serves the state of the platform. The controller and the activator serve the metrics of their
leader election and watches. The client library is imported only if a port is configured.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from gpuplatform.audit.selectors import unsealed
from gpuplatform.health import HealthCode, queue_lengths
from gpuplatform.metrics import declared
from gpuplatform.metrics.declared import Metric, Type
from gpuplatform.observability.reporter import SteadyState, read_state
from gpuplatform.samples.capacity import Capacity
from gpuplatform.samples.models import PlatformSample
from gpuplatform.samples.selectors import latest_capacity, latest_sample
from gpuplatform.usage.selectors import overdue_seconds

if TYPE_CHECKING:
    from prometheus_client import Metric as Family

    from gpuplatform.kube.reflector import Reflector

Values = Mapping[tuple[str, ...], float]
"""Values by label values, in the declared order of the labels."""


class LeaderProcess(Protocol):
    """A process with leader election."""

    @property
    def is_leader(self) -> bool:
        """Whether this process is the leader."""


class WatchingProcess(LeaderProcess, Protocol):
    """A leader that watches the cluster."""

    @property
    def reflectors(self) -> "Sequence[Reflector]":
        """The reflectors of the process."""


def state_values() -> Iterator[tuple[Metric, Values]]:
    """Yield the metrics from the database and the broker, unless they do not respond."""
    state, queues = read_state(), queue_lengths()
    yield declared.DATABASE_UP, {(): float(state is not None)}
    if state is not None:
        yield from _database_values(state)
    yield declared.BROKER_UP, {(): float(queues is not None)}
    yield declared.QUEUE_MESSAGES, {(queue,): n for queue, n in (queues or {}).items()}


def _database_values(state: SteadyState) -> Iterator[tuple[Metric, Values]]:
    yield declared.POOLS, {(phase,): n for phase, n in state.pools.items()}
    yield (
        declared.POOL_REPLICAS,
        {("available",): state.available, ("allocated",): state.allocated},
    )
    yield declared.UNITS, {key: float(n) for key, n in state.units.items()}
    yield declared.TENANT_GPUS, {labels: float(n) for labels, n in state.tenant_gpus.items()}
    limits = {(one.tenant, one.resource): one for one in state.tenant_limits}
    yield declared.TENANT_LIMIT, {key: float(one.hard) for key, one in limits.items()}
    yield declared.TENANT_USED, {key: float(one.used) for key, one in limits.items()}
    yield declared.USAGE_OVERDUE, {(): overdue_seconds()}
    entries, seconds = unsealed()
    yield declared.AUDIT_UNSEALED, {(): float(entries)}
    yield declared.AUDIT_UNSEALED_SECONDS, {(): seconds}
    yield declared.GPUS, _gpus(latest_capacity()[1])
    yield declared.CLAIM_TO_READY, _claim_to_ready(latest_sample())
    yield declared.OPERATIONS, {key: float(n) for key, n in state.operations.items()}
    yield declared.OLDEST_OPERATION, {(): state.oldest_operation_seconds or 0.0}
    yield declared.INVOCATIONS, {(name,): float(n) for name, n in state.invocations.items()}
    failed = state.failed_invocations.items()
    yield declared.FAILED_INVOCATIONS, {key: float(n) for key, n in failed}
    yield declared.WEBHOOKS, {(name,): float(n) for name, n in state.webhooks.items()}
    yield declared.OLDEST_WEBHOOK, {(): state.oldest_webhook_seconds or 0.0}
    yield declared.OLDEST_INVOCATION, {(): state.oldest_invocation_seconds or 0.0}
    yield declared.OLDEST_DUE, {(rows,): age or 0.0 for rows, age in state.due_seconds.items()}
    cluster = state.cluster.code
    yield declared.CLUSTER_UP, {(): float(cluster is not HealthCode.UNREACHABLE)}
    yield declared.RECOVERY_NEEDED, {(): float(cluster is HealthCode.RECOVERY_NEEDED)}
    if state.nodes is not None and state.ready_nodes is not None:
        nodes: Values = {("true",): state.ready_nodes, ("false",): state.nodes - state.ready_nodes}
        yield declared.NODES, nodes
    running = (process for process in state.processes if process.code is not HealthCode.OFF)
    yield declared.PART_UP, {(process.part,): float(process.ok) for process in running}


def _gpus(capacity: Capacity | None) -> Values:
    """Return the GPUs of the latest sample of the capacity."""
    products = (capacity.products if capacity else None) or ()
    return {
        (one.name, one.resource_name, use): float(number)
        for one in products
        for use, number in {**one.gpus, "free": one.free}.items()
    }


def _claim_to_ready(sample: PlatformSample | None) -> Values:
    if sample is None:
        return {}
    quantiles = {
        ("hour", "0.5"): sample.hour_p50,
        ("hour", "0.95"): sample.hour_p95,
        ("day", "0.5"): sample.day_p50,
        ("day", "0.95"): sample.day_p95,
    }
    return {labels: seconds for labels, seconds in quantiles.items() if seconds is not None}


def controller_values(controller: WatchingProcess) -> Iterator[tuple[Metric, Values]]:
    """Yield the metrics of a controller."""
    yield declared.IS_LEADER, {(): float(controller.is_leader)}
    restarts: dict[tuple[str, ...], float] = {}
    ages: dict[tuple[str, ...], float] = {}
    for reflector in controller.reflectors:
        kind = (reflector.kind.kind,)
        restarts[kind] = restarts.get(kind, 0) + reflector.restarts
        ages[kind] = max(ages.get(kind, 0.0), reflector.last_good_list_age_seconds())
    yield declared.WATCH_RESTARTS, restarts
    if controller.is_leader:
        yield declared.WATCH_AGE, ages


def state_render() -> Callable[[], bytes]:
    """Return a function that renders the metrics of the state of the platform."""
    return _render_of(state_values)


def controller_render(controller: WatchingProcess) -> Callable[[], bytes]:
    """Return a function that renders the metrics of the controller."""
    return _render_of(lambda: controller_values(controller))


def activator_render(activator: LeaderProcess) -> Callable[[], bytes]:
    """Return a function that renders the metrics of the activator."""
    return _render_of(lambda: [(declared.ACTIVATOR_IS_LEADER, {(): float(activator.is_leader)})])


class _Collector:
    """A collector that converts values to metric families at each scrape."""

    def __init__(self, read: Callable[[], Iterable[tuple[Metric, Values]]]) -> None:
        self._read = read

    def collect(self) -> Iterator["Family"]:
        """Yield a family for each metric."""
        from prometheus_client.core import (  # noqa: PLC0415 - see above
            CounterMetricFamily,
            GaugeMetricFamily,
        )

        for metric, values in self._read():
            family = (
                CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
                if metric.type is Type.COUNTER
                else GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
            )
            for labels, value in values.items():
                family.add_metric(labels, value)
            yield family


def _render_of(read: Callable[[], Iterable[tuple[Metric, Values]]]) -> Callable[[], bytes]:
    from prometheus_client import CollectorRegistry, generate_latest  # noqa: PLC0415 - see above

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(read))
    return lambda: generate_latest(registry)
