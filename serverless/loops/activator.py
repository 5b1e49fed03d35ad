"""The activator starts workers for waiting invocations and stops idle workers.

Leader election makes one of several activators active. Two active activators are safe, because a
start fails if the workers changed after it was planned. The activator only writes rows: a worker
is a GPU unit, which the services of `units` create. `manage.py run_activator` starts it.
"""

import logging
import threading
import time
from collections import Counter
from dataclasses import asdict, replace
from typing import Final

from django.conf import settings

from gpuplatform import clock
from gpuplatform.errors import (
    CapacityExceeded,
    InvalidSpec,
    PlatformError,
    QueueFull,
    QuotaExceeded,
)
from gpuplatform.kube.client import Cluster
from gpuplatform.kube.elector import Elector
from gpuplatform.kube.kinds import ACTIVATOR_LEASE
from gpuplatform.reconciliation import epoch, gate
from gpuplatform.reconciliation.heartbeats import Part, report_activity
from inventory.selectors import specs_enabled
from serverless.core.peaks import Peaks
from serverless.core.rejections import (
    without_capacity,
    without_quota,
    without_spec,
    without_stock,
)
from serverless.core.scaling import (
    Demand,
    FunctionView,
    Plan,
    Status,
    plan_workers,
    workers_needed,
)
from serverless.loops.listener import OutboxListener
from serverless.loops.observation import FunctionObservation, observe
from serverless.loops.repeat import run_repeatedly
from serverless.phases import FunctionPhase, FunctionReason
from serverless.queue.errors import QueueError
from serverless.queue.gateway import Queue
from serverless.queue.values import Backlog
from serverless.services.workers import (
    FunctionCounts,
    WorkerStart,
    function_update_status,
    worker_start,
    worker_stop,
)

logger = logging.getLogger(__name__)

BACKSTOP_SECONDS: Final = 2.0
"""Interval in seconds at which functions are reconciled without a notification."""

DEBOUNCE_SECONDS: Final = 0.2
"""Minimum interval in seconds between two reconciliations."""

STANDBY_SECONDS: Final = 0.2
"""Interval in seconds at which a standby activator checks whether it is the leader."""

WAIT_SECONDS: Final = 0.5
"""Maximum time in seconds until a wait notices a stop."""


class Activator:
    """One activator; `run` reconciles every function repeatedly while it is the leader."""

    def __init__(self, queue: Queue, cluster: Cluster, identity: str) -> None:
        """Prepare the activator; `identity` is unique for each start of a process."""
        self._queue = queue
        self._elector = Elector(
            cluster,
            namespace=settings.GPUPLATFORM_SYSTEM_NAMESPACE,
            name=ACTIVATOR_LEASE,
            identity=identity,
        )
        self._peaks = Peaks()
        self._is_queue_unavailable = False
        self._listener = OutboxListener()

    @property
    def is_leader(self) -> bool:
        """Whether this activator is the active one."""
        return self._elector.may_act()

    def run(self, stop: threading.Event) -> None:
        """Run the leader election, and reconcile while leader, until `stop` is set."""
        elector = threading.Thread(target=self._elector.run, args=(stop,), name="elector")
        elector.start()
        try:
            run_repeatedly(lambda: self._step(stop), stop, "activator")
        finally:
            stop.set()
            elector.join()

    def reconcile(self) -> None:
        """Reconcile every function once.

        Raises:
            DatabaseError: If the database is unavailable. The next call continues.
        """
        if gate.is_closed() or not epoch.matches():
            return  # The state of the workers is unknown, so change nothing.
        observation = observe()
        for unit in observation.orphans:
            if unit.tenant is not None and self._elector.may_act():
                logger.warning("the worker '%s' has no function; it is stopped", unit)
                worker_stop(unit.tenant, unit.name)
        for observed in observation.functions:
            if not self._elector.may_act():
                return
            try:
                self._reconcile(observed)
            except PlatformError as error:
                # A failure of one function must not block the others.
                logger.warning("function '%s': %s", observed.function.request_id, error)

    def _step(self, stop: threading.Event) -> None:
        if not self._elector.may_act():
            self._peaks = Peaks()  # The history has a gap while another activator is active.
            stop.wait(STANDBY_SECONDS)
            return
        began = time.monotonic()
        self.reconcile()
        report_activity(Part.ACTIVATOR)
        stop.wait(max(0.0, began + DEBOUNCE_SECONDS - time.monotonic()))
        until = time.monotonic() + BACKSTOP_SECONDS
        while not stop.is_set() and time.monotonic() < until:
            if self._listener.wait(WAIT_SECONDS):
                return

    def _reconcile(self, observed: FunctionObservation) -> None:
        """Start and stop the workers of one function, and record its status."""
        function, view = observed.function, observed.view()
        demand = None if view.is_ending else self._demand(observed, view)
        plan = plan_workers(view, demand, observed.workers, clock.now())
        for name in plan.stop:
            worker_stop(function.tenant, name)
        plan = self._start(observed, view, plan)
        counts = FunctionCounts(
            backlog=None if demand is None else max(demand.waiting, observed.open.total),
            workers=Counter(worker.state for worker in observed.workers),
            is_active=demand is not None and not demand.is_empty,
        )
        function_update_status(function, plan, counts)

    def _start(self, observed: FunctionObservation, view: FunctionView, plan: Plan) -> Plan:
        """Start the planned workers; return the plan with the status after the starts."""
        function = observed.function
        for started in range(plan.start):
            try:
                result = worker_start(function, observed=observed.units + started)
            except QuotaExceeded as error:
                found = without_quota(view, observed.workers, str(error), clock.now())
                return replace(plan, status=found[0], backoff=found[1])
            except (CapacityExceeded, QueueFull, InvalidSpec) as error:
                return self._without_start(observed, view, plan, error)
            if result is WorkerStart.CHANGED:
                return plan
            if result is WorkerStart.WAITING:
                status = without_stock(view, observed.workers, function.spec_name, clock.now())
                plan = replace(plan, status=status)
            logger.info("starting a worker of function '%s'", function.request_id)
        return plan

    @staticmethod
    def _without_start(
        observed: FunctionObservation, view: FunctionView, plan: Plan, error: PlatformError
    ) -> Plan:
        """Return the plan with the status and the backoff after a rejected start."""
        name = observed.function.spec_name
        is_offered = specs_enabled().filter(name=name).exists()
        rejected = without_capacity if is_offered else without_spec
        status, backoff = rejected(view, observed.workers, name, clock.now())
        if is_offered and isinstance(error, CapacityExceeded | InvalidSpec):
            status = Status(FunctionPhase.FAILED, FunctionReason.WORKER_FAILED, str(error))
        return replace(plan, status=status, backoff=backoff)

    def _demand(self, observed: FunctionObservation, view: FunctionView) -> Demand | None:
        """Return the demand of the function, or `None` if the queue is unavailable.

        The queue is not queried for a function that has neither open invocations nor workers.
        """
        function, backlog = observed.function, Backlog()
        if observed.units or observed.open.total:
            try:
                found = self._queue.backlog(function.tenant.name, function.pk)
            except QueueError as error:
                if not self._is_queue_unavailable:
                    logger.warning("the queue is unavailable, no worker is changed: %s", error)
                self._is_queue_unavailable = True
                return None
            self._is_queue_unavailable = False
            if found is None:
                return None
            backlog = found
        demand = Demand(**asdict(backlog), unpublished=observed.open.unpublished)
        needed = workers_needed(view, demand)
        seconds = view.idle_timeout_seconds
        peak = self._peaks.add(function.pk, needed, now=time.monotonic(), seconds=seconds)
        return replace(demand, peak=peak)
