"""The activator: starts workers for what waits, and stops those that nothing needs.

One is active at a time, by a Lease; two would do no harm, since a start fails when the workers are
not those that it was decided for. It writes rows only: its workers are GPU units, made by the
units' own service. Started by `manage.py run_activator`.
"""

import logging
import threading
import time
from collections import Counter
from dataclasses import replace
from typing import Final

from django.conf import settings
from django.db import connection
from psycopg import Connection

from gpuplatform import clock
from gpuplatform.errors import InsufficientCapacity, InvalidSpec, PlatformError
from gpuplatform.kube.client import Cluster
from gpuplatform.kube.elector import Elector
from gpuplatform.kube.kinds import ACTIVATOR_LEASE
from gpuplatform.reconciliation import epoch, gate
from gpuplatform.reconciliation.heartbeats import Part, report_activity
from serverless.core.peaks import Peaks
from serverless.core.scaling import (
    Demand,
    FunctionView,
    Plan,
    Standing,
    plan_workers,
    without_capacity,
    workers_needed,
)
from serverless.loops import keep_doing
from serverless.phases import FunctionPhase, FunctionReason
from serverless.queue.errors import QueueError
from serverless.queue.gateway import Backlog, Queue
from serverless.services import (
    OUTBOX_CHANNEL,
    Observed,
    function_observed,
    worker_start,
    worker_stop,
)
from serverless.sight import Seen, look_at_all

logger = logging.getLogger(__name__)

BACKSTOP_SECONDS: Final = 2.0
"""So often everything is looked at without news."""

SHORTEST_SECONDS: Final = 0.2
"""Between two looks, however much news there is."""

STANDBY_SECONDS: Final = 0.2
SLICE_SECONDS: Final = 0.5
"""What a stop waits for at most."""


class Activator:
    """One activator: `run` looks at every function again and again while it has the lease."""

    def __init__(self, queue: Queue, cluster: Cluster, identity: str) -> None:
        """Nothing is done before `run`."""
        self._queue = queue
        self._elector = Elector(
            cluster,
            namespace=settings.GPUPLATFORM_SYSTEM_NAMESPACE,
            name=ACTIVATOR_LEASE,
            identity=identity,
        )
        self._peaks = Peaks()
        self._is_queue_away = False
        self._listening: Connection | None = None

    @property
    def is_leader(self) -> bool:
        """Whether this one acts."""
        return self._elector.may_act()

    def run(self, stop: threading.Event) -> None:
        """Stand by, lead, stand by again, until `stop` is set; a fault of ours gets out."""
        elector = threading.Thread(target=self._elector.run, args=(stop,), name="elector")
        elector.start()
        try:
            keep_doing(lambda: self._step(stop), stop, "activator")
        finally:
            stop.set()
            elector.join()

    def _step(self, stop: threading.Event) -> None:
        if not self._elector.may_act():
            self._peaks = Peaks()  # What another one sees meanwhile is not known here.
            stop.wait(STANDBY_SECONDS)
            return
        began = time.monotonic()
        self.look()
        report_activity(Part.ACTIVATOR)
        stop.wait(max(0.0, began + SHORTEST_SECONDS - time.monotonic()))
        self._wait_for_news(stop)

    def look(self) -> None:
        """Look at every function once, and do what is to be done.

        Raises:
            DatabaseError: the database is away; the next look does the rest.
        """
        if gate.is_closed() or not epoch.matches():
            return  # What runs stays: nobody knows how it is doing.
        sight = look_at_all()
        for unit in sight.orphans:
            if unit.tenant is not None and self._elector.may_act():
                logger.warning("the worker '%s' is of no function; it is stopped", unit)
                worker_stop(unit.tenant, unit.name)
        for seen in sight.functions:
            if not self._elector.may_act():
                return
            try:
                self._attend(seen)
            except PlatformError as error:
                # It does not keep the other functions from theirs.
                logger.warning("function '%s': %s", seen.function.request_id, error)

    def _attend(self, seen: Seen) -> None:
        """Start and stop the workers of one function, and record how it is doing."""
        function, view = seen.function, seen.view()
        demand = None if view.is_ending else self._demand(seen, view)
        plan = plan_workers(view, demand, seen.workers, clock.now())
        for name in plan.stop:
            worker_stop(function.tenant, name)
        plan = self._start(seen, view, plan)
        observed = Observed(
            backlog=None if demand is None else max(demand.waiting, seen.open.total),
            workers=Counter(one.state for one in seen.workers),
            is_active=demand is not None and not demand.is_none,
        )
        function_observed(function, plan, observed)

    def _start(self, seen: Seen, view: FunctionView, plan: Plan) -> Plan:
        """Start what the plan says; return the plan with what there is to say afterwards."""
        for number in range(plan.start):
            try:
                if not worker_start(seen.function, seen=seen.units + number):
                    return plan
            except (InsufficientCapacity, InvalidSpec) as error:
                standing, backoff = without_capacity(
                    view, seen.workers, seen.function.spec_name, clock.now()
                )
                if isinstance(error, InvalidSpec):
                    reason = FunctionReason.WORKER_FAILED
                    standing = Standing(FunctionPhase.FAILED, reason, str(error))
                return replace(plan, standing=standing, backoff=backoff)
            logger.info("a worker of the function '%s' is started", seen.function.request_id)
        return plan

    def _demand(self, seen: Seen, view: FunctionView) -> Demand | None:
        """Return what the function has to do; None while the queue does not say.

        Of a function that sleeps nothing is asked: it has neither open rows nor workers.
        """
        backlog: Backlog | None = None
        if seen.units or seen.open.total:
            backlog = self._backlog(seen)
            if backlog is None:
                return None
        demand = Demand(
            pending=backlog.pending if backlog else 0,
            in_work=backlog.in_work if backlog else 0,
            exhausted=backlog.exhausted if backlog else 0,
            unpublished=seen.open.unpublished,
        )
        needed = workers_needed(view, demand)
        seconds = view.idle_timeout_seconds
        peak = self._peaks.add(seen.function.pk, needed, now=time.monotonic(), seconds=seconds)
        return replace(demand, peak=peak)

    def _backlog(self, seen: Seen) -> Backlog | None:
        try:
            found = self._queue.backlog(seen.function.tenant.name, seen.function.pk)
        except QueueError as error:
            if not self._is_queue_away:
                logger.warning("the queue does not answer, workers are left alone: %s", error)
            self._is_queue_away = True
            return None
        self._is_queue_away = False
        return found

    def _wait_for_news(self, stop: threading.Event) -> None:
        """Wait until an invocation is accepted, or for the time of the backstop."""
        connection.ensure_connection()
        raw: Connection = connection.connection
        if raw is not self._listening:
            raw.execute(f"LISTEN {OUTBOX_CHANNEL}")
            self._listening = raw
            return  # Something may have come before.
        until = time.monotonic() + BACKSTOP_SECONDS
        while not stop.is_set() and time.monotonic() < until:
            if list(raw.notifies(timeout=SLICE_SECONDS, stop_after=1)):
                return
