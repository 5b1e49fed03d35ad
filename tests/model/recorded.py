"""Maps the real services, drivers and planners on an in-memory cluster to steps of the model.

A call is reported when it is sent, an outcome when it is written. `Recorded` compares the code
with the model: a step that is not enabled, or a different picture afterwards, is a failure.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

import pytest

from gpuplatform.errors import PlatformError
from gpuplatform.kube.errors import ClusterConflict, ClusterRejected
from gpuplatform.kube.kinds import DEPLOYMENT, GPU_UNIT, JOB, Manifest, ResourceKind
from gpuplatform.operations import driver
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OPEN_PHASES, OperationPhase
from gpuplatform.operations.provenance import OPERATION_ID_ANNOTATION
from gpuplatform.operations.registry import Failed, Waiting
from gpuplatform.planning.view import ResourceView
from tests.fakes.cluster import Killed
from tests.fakes.unit_world import NAMESPACE, UnitWorld, stock_rows
from tests.model.following import Follower, Picture
from tests.model.state import Request
from units.comparison import delete_leftovers
from units.core.child import outcome, wants_pod
from units.core.jobs import is_of_run
from units.core.names import GENERATION_ANNOTATION
from units.core.sources import source_of
from units.models import CapacityRequest, GpuUnit
from units.phases import STOCK_NAMESPACE, RequestPhase, UnitPhase, UnitWait
from units.services.claims import reassign
from units.void_starts import is_start_void

_STEPS = {
    ("get", NAMESPACE): "get",
    ("get", STOCK_NAMESPACE): "read",
    ("create", NAMESPACE): "post",
    ("create", STOCK_NAMESPACE): "seed",
    ("merge_patch", NAMESPACE): "patch",
    ("delete", NAMESPACE): "delete",
}
"""The steps of the model for calls of a worker about units."""


@dataclass(frozen=True)
class Call:
    """A call to the cluster, and its result."""

    verb: str
    name: str
    namespace: str
    error: BaseException | None
    is_done: bool


@dataclass
class Run:
    """A worker's run of an operation, with the reported progress."""

    number: int
    kind: str
    is_claimed: bool = False
    is_over: bool = False
    has_succeeded: bool = False


class Recorded:
    """A platform whose steps the model follows; its units are `u0`, `u1`, and so on."""

    def __init__(
        self,
        world: UnitWorld,
        patch: pytest.MonkeyPatch,
        words: str,
        stock: int,
        *,
        restart: str = "",
    ) -> None:
        self._fields = {"template": {"restart": restart}} if restart else {}
        self._child = JOB if restart else DEPLOYMENT
        self.has_jobs = bool(restart)
        self.requests = tuple(
            Request(kind, int(name)) for kind, name in (word.split() for word in words.split(", "))
        )
        self.world, self.cluster = world, world.cluster
        if stock:
            world.seed(stock)
        self.model = Follower(self.requests, stock, has_jobs=self.has_jobs)
        self.operations: list[Operation] = []
        self._runs: list[Run] = []
        for name in ("get", "create", "merge_patch", "delete"):
            patch.setattr(self.cluster, name, self._told(name, getattr(self.cluster, name)))
        patch.setattr(driver, "_record", self._recorded(driver._record))
        patch.setattr(driver, "_follow_up", self._followed(driver._follow_up))
        patch.setattr("units.operations.handover.reassign", self._assigned(reassign))

    def ask(self) -> bool:
        """Send the next request; return `False` if there is none or the API rejects it."""
        if len(self.operations) == len(self.requests):
            return False
        kind, name = self.requests[len(self.operations)]
        try:
            if kind == "seed":
                operation = self.world.ask_seed(1).operation
            elif kind == "create":
                operation = self.world.create(f"u{name}", **self._fields)
            else:
                operation = getattr(self.world, kind)(f"u{name}")
        except PlatformError:
            return False
        self.operations.append(operation)
        self.model.tell("accept", len(self.operations), kind, name)
        self.agree()
        return True

    def run(self, number: int) -> None:
        """Run an operation; within another run, the lease of that run has expired."""
        outer = self._runs[-1] if self._runs else None
        if outer is not None and not outer.is_over:  # After its end it only runs follow-ups.
            self._tell(outer, "late")
        run = Run(number, self.requests[number - 1].kind)
        self._runs.append(run)
        try:
            self.world.run(self.operations[number - 1])
        except Killed:
            if not run.is_over:  # A kill after its end is not a step.
                self._tell(run, "crash")
            run.is_over = True
        finally:
            self._runs.pop()
        if run.is_claimed and not run.is_over:  # A checkpoint detected the lost lease.
            self._tell(run, "refused")
        if outer is None:
            self.agree()

    def run_with(self, fault: BaseException, number: int, verb: str, *, acts_first: bool) -> None:
        """Run an operation; the next call with this verb fails."""
        self.cluster.fail(verb, GPU_UNIT, fault, acts_first=acts_first)
        self.run(number)
        self.cluster.heal()

    def overtake(self, number: int, verb: str) -> None:
        """Stall before the next call with this verb, while another worker completes the run."""

        def other(called: str, kind: ResourceKind | None) -> None:
            if (called, kind) == (verb, GPU_UNIT):
                self.cluster.on_call = None
                self.run(number)

        self.cluster.on_call = other
        self.run(number)
        self.cluster.on_call = None

    def look(self) -> None:
        """Run planners, pods, mirror and sweep once."""
        for step in (
            self._match,
            self.world.reconcile,
            self.cluster.settle,
            self.world.copy,
            self._sweep,
        ):
            step()
            self.agree()

    def person_deletes(self, number: int) -> None:
        """Delete a stock unit as with kubectl, if it exists."""
        if number >= len(stock_rows()):
            return
        row = stock_rows()[number]
        if self.world.resource(row.name, STOCK_NAMESPACE) is not None:
            self.world.drop_stock(row)
            self.model.tell("a person deletes stock", number)
            self.agree()

    def program_ends(self, name: int, code: int) -> None:
        """End the program of a unit with an exit code, if the unit has a Job that runs."""
        job = self.world.job(f"u{name}")
        if job is not None and wants_pod(JOB, job):
            self.world.end(f"u{name}", code)
            self.model.tell("end", name)
            self.agree()

    def open_numbers(self) -> list[int]:
        """Return the ordinal numbers of the operations that have not ended."""
        return [number for number, phase in enumerate(self._phases(), 1) if phase == "P"]

    def agree(self) -> None:
        """Compare the state with the model."""
        self.model.agree(self._picture())

    def _match(self) -> None:
        """Run the matcher, and report its grants."""
        opened = CapacityRequest.objects.filter(phase=RequestPhase.OPEN)
        waiting = list(opened.order_by("id").values_list("operation_id", flat=True))
        self.world.match()
        holders = [row.claimed_by_id for row in stock_rows()]
        numbers = {operation.pk: number for number, operation in enumerate(self.operations, 1)}
        for operation in waiting:
            if not opened.filter(operation=operation).exists():
                self.model.tell("grant", numbers[operation], holders.index(operation))

    def _sweep(self) -> None:
        delete_leftovers(self.cluster)

    def _claim(self, run: Run) -> None:
        if not run.is_claimed:
            run.is_claimed = True
            self.model.tell("take", run.number)

    def _tell(self, run: Run, step: str, *further: object) -> None:
        self._claim(run)
        self.model.tell(step, run.number, *further)

    def _told(self, verb: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """Report a call to the cluster with its result."""

        @wraps(call)
        def called(kind: ResourceKind, *args: Any, **further: Any) -> Any:
            if kind not in {GPU_UNIT, self._child} or further.get("subresource"):
                return call(kind, *args, **further)
            manifest = args[0] if verb == "create" else None
            name = manifest["metadata"]["name"] if manifest else args[0]
            place = manifest["metadata"]["namespace"] if manifest else further["namespace"]
            before = self.cluster.version_number, self._deployed(name)
            error: BaseException | None = None
            try:
                return call(kind, *args, **further)
            except BaseException as raised:  # The death of a worker raises one, and propagates.
                error = raised
                raise
            finally:
                is_refused = isinstance(error, ClusterConflict | ClusterRejected)
                is_done = not is_refused and self.cluster.version_number != before[0]
                made = Call(verb, name, place, error, is_done)
                is_told = kind == GPU_UNIT and is_done and self._tell_deleted(made)
                if self._runs and kind == GPU_UNIT and not is_told and not self._runs[-1].is_over:
                    self._tell_worker(self._runs[-1], made)
                elif error is None and place == NAMESPACE and self._deployed(name) != before[1]:
                    self._tell_deployed(name)

        return called

    def _tell_worker(self, run: Run, call: Call) -> None:
        step = _STEPS.get((call.verb, call.namespace))
        if step is None or (step == "read" and run.kind == "seed"):
            return
        step = run.kind if step == "patch" else step
        if call.is_done and call.error is not None and not isinstance(call.error, Killed):
            self._claim(run)
            self.model.tell("answer lost", step, run.number)
        elif call.error is None or (isinstance(call.error, Killed) and call.is_done):
            self._tell(run, step)
        elif not isinstance(call.error, Killed):
            for refused in _refusal(call, step):
                self._tell(run, refused)

    def _tell_deleted(self, call: Call) -> bool:
        """Report a deletion outside of operations: of consumed stock or of a leftover.

        The worker that recorded the consumption deletes the stock as its planner does.
        """
        if call.verb != "delete":
            return False
        if call.namespace == STOCK_NAMESPACE:
            number = [row.name for row in stock_rows()].index(call.name)
            self.model.tell("planner", "del", number)
        elif not self._runs:
            self.model.tell("sweep", "dropunit", int(call.name[1:]))
        return call.namespace == STOCK_NAMESPACE or not self._runs

    def _tell_deployed(self, child: str) -> None:
        """Report a write to a Deployment or a Job.

        A Job that is created suspended, or replaced, before its start is no step of the model.
        """
        (replicas, _), name = self._deployed(child), int(child[len("unit-u") :])
        if replicas or self._child == DEPLOYMENT or self._is_stopped(f"u{name}"):
            self.model.tell("planner", "dep" if replicas else "undep", name)

    def _is_stopped(self, name: str) -> bool:
        unit = self.world.resource(name)
        is_off = unit is not None and unit["spec"].get("suspend", False)
        return is_off or (unit is not None and is_start_void(unit))

    def _deployed(self, name: str) -> tuple[int | None, object]:
        """Return the number of replicas of the unit's object, and its generation mark."""
        unit = name.removeprefix("unit-")
        is_job = self._child == JOB
        found = self._job(unit) if is_job else self.world.deployment(unit)
        if found is None:
            return (0 if is_job else None), None
        replicas = int(wants_pod(JOB, found)) if is_job else found["spec"]["replicas"]
        return replicas, found["metadata"]["annotations"][GENERATION_ANNOTATION]

    def _job(self, unit: str) -> Manifest | None:
        """Return the Job of a unit, unless the Job has finished in an earlier run."""
        found, owner = self.world.job(unit), self.world.resource(unit)
        if found is None or owner is None or outcome(found) is None:
            return found
        return found if is_of_run(found, ResourceView.of(owner)) else None

    def _recorded(self, record: Callable[..., Any]) -> Callable[..., Any]:
        """Report the outcome of a run when it is written."""

        @wraps(record)
        def recorded(lease: Any, outcome: Any, *rest: Any) -> Any:
            run, number = self._runs[-1], self._runs[-1].number
            run.is_over = True
            was_open = self._phases()[number - 1] == "P"
            if isinstance(outcome, Failed) and outcome.code == "phase_conflict":
                self._tell(run, "superseded")
            answer = record(lease, outcome, *rest)
            phase = self._phases()[number - 1]
            if isinstance(outcome, Waiting):
                if outcome.reason in {UnitWait.WAITING_FOR_CAPACITY, UnitWait.STOPPING}:
                    self._tell(run, "wait")
            elif was_open and phase == "F":
                self._tell(run, "fail")
            elif not run.has_succeeded:
                self._tell(run, "refused")
            return answer

        return recorded

    def _followed(self, follow: Callable[..., None]) -> Callable[..., None]:
        """Report a success after its write, before the follow-ups."""

        @wraps(follow)
        def followed(*args: Any) -> None:
            self._runs[-1].has_succeeded = True
            self._tell(self._runs[-1], "succeed")
            follow(*args)

        return followed

    def _assigned(self, reassign: Callable[..., bool]) -> Callable[..., bool]:
        @wraps(reassign)
        def assigned(operation: Operation, *args: Any) -> bool:
            has_stock = reassign(operation, *args)
            if has_stock:
                claims = [row.claimed_by_id == operation.pk for row in stock_rows()]
                self._tell(self._runs[-1], "assign", claims.index(True))
            return has_stock

        return assigned

    def _phases(self) -> list[str]:
        found = Operation.objects.in_bulk([operation.pk for operation in self.operations])
        phases = [found[operation.pk].phase for operation in self.operations]
        ends = [_ended(phase) for phase in phases]
        return ends + ["-"] * (len(self.requests) - len(ends))

    def _picture(self) -> Picture:
        names = range(1 + max(name for kind, name in self.requests if kind != "seed"))
        stock = stock_rows()
        rows = [self._row(row) for row in stock]
        units = tuple(self._unit(f"u{name}", [row.uid for row in stock]) for name in names)
        missing = ["-"] * (self.model.stock - len(rows))
        return tuple(self._phases()), (*rows, *missing), units, tuple(map(_unit_row, names))

    def _row(self, row: GpuUnit) -> object:
        if row.consumed_by:
            name = GpuUnit.objects.values_list("name", flat=True).get(uid=row.consumed_by)
            return "consumed", int(name[1:])
        if row.claimed_by_id:
            return "claimed", [one.pk for one in self.operations].index(row.claimed_by_id) + 1
        if row.deleted_at or row.phase == UnitPhase.TERMINATING:
            return "gone"
        return "free" if row.phase == UnitPhase.READY else "made"

    def _unit(self, name: str, stock: list[str]) -> object:
        unit = self.world.resource(name)
        if unit is None:
            return ()
        made_by = unit["metadata"]["annotations"][OPERATION_ID_ANNOTATION]
        maker = [operation.operation_id for operation in self.operations].index(made_by) + 1
        source = source_of(unit)
        number = stock.index(source.uid) if source else -1
        is_off = unit["spec"].get("suspend", False)
        return maker, is_off, number, self._deployed(f"unit-{name}")[0]


def _refusal(call: Call, step: str) -> tuple[str, ...]:
    """Return the steps of the model for a call that failed without an effect."""
    match call.error:
        case ClusterConflict() if step == "seed":
            return ("seed",)  # It already exists.
        case ClusterConflict():
            return ("exists",) if call.verb == "create" else ("conflict",)
        case ClusterRejected(reason="NotFound"):
            return "conflict", "take"  # The model reads it again; here the response suffices.
        case ClusterRejected() if step != "stop":
            return ("deny",)
        case _:
            return ("crash",)


def _ended(phase: str) -> str:
    if phase in OPEN_PHASES:
        return "P"
    return "S" if phase == OperationPhase.SUCCEEDED else "F"


def _unit_row(name: int) -> str:
    row = GpuUnit.objects.filter(role="active", name=f"u{name}").order_by("-id").first()
    if row is None:
        return "-"
    if row.deleted_at:
        return "gone"
    return "made" if row.uid else "asked"
