"""The ReplicaSet controller: maintains the desired number of pods."""

from typing import Any

from typing_extensions import override

from gpuplatform import clock
from gpuplatform.dev.simulator.apiserver.controllers.events import record_event
from gpuplatform.dev.simulator.apiserver.controllers.loop import (
    MANAGER,
    Controller,
)
from gpuplatform.dev.simulator.apiserver.controllers.replicas import (
    PODS,
    REPLICA_SETS,
    add_owners,
    adopt,
    available_at,
    children,
    is_active,
    is_ready,
    is_terminating,
    may_be_adopted,
    reference_to,
)
from gpuplatform.dev.simulator.apiserver.deletes import DeleteOptions, delete
from gpuplatform.dev.simulator.apiserver.errors import ApiError
from gpuplatform.dev.simulator.apiserver.objects import (
    Manifest,
    clone,
    condition,
    now,
    random_suffix,
)
from gpuplatform.dev.simulator.apiserver.store import Change, Entry, Key
from gpuplatform.dev.simulator.apiserver.targets import Options, Target

_SOURCE = "replicaset-controller"


class ReplicaSets(Controller):
    """The controller that creates and deletes pods, and reports the replica counts."""

    @override
    def observe(self, change: Change) -> None:
        entry = change.entry
        if entry.key[:2] == REPLICA_SETS:
            self.add(entry.key, adopts=change.before is None)
        elif entry.key[:2] == PODS:
            is_adoptable = may_be_adopted(change)
            add_owners(self, entry.object, REPLICA_SETS, "ReplicaSet", is_adoptable=is_adoptable)

    @override
    def sync(self, key: Key) -> None:
        entry = self.store.get(key)
        if entry is None:
            return
        if self.pop_adoption(key):
            adopt(self.writer, entry, PODS)
        pods = children(self.store, entry, PODS)
        active = [p for p in pods if is_active(p.object)]
        error = None
        if "deletionTimestamp" not in entry.object["metadata"]:
            error = self._scale(entry, active)
            pods = children(self.store, entry, PODS)
        self._count(entry, pods, error)
        if error:
            raise error

    def _scale(self, entry: Entry, active: list[Entry]) -> ApiError | None:
        """Create or delete pods, and return the error if a creation failed."""
        missing = entry.object["spec"]["replicas"] - len(active)
        try:
            for _ in range(missing):
                self._create(entry)
        except ApiError as error:
            record_event(
                self.writer,
                entry,
                "Warning",
                ("FailedCreate", f"Error creating: {error}"),
                _SOURCE,
            )
            return error
        for pod in sorted(active, key=_rank)[: max(-missing, 0)]:
            resource = self.writer.registry.require("pods")
            delete(self.store, Target(resource, *pod.key[2:]), DeleteOptions())
            explanation = ("SuccessfulDelete", f"Deleted pod: {pod.key[3]}")
            record_event(self.writer, entry, "Normal", explanation, _SOURCE)
        return None

    def _create(self, entry: Entry) -> None:
        template = clone(entry.object["spec"]["template"])
        prefix = f"{entry.key[3]}-"
        name = prefix + random_suffix()
        template["metadata"] |= {
            "name": name,
            "generateName": prefix,
            "ownerReferences": [reference_to(entry)],
        }
        body = {"apiVersion": "v1", "kind": "Pod", **template}
        target = Target(self.writer.registry.require("pods"), entry.key[2], name)
        self.writer.create(target, body, Options(manager=MANAGER))
        explanation = ("SuccessfulCreate", f"Created pod: {name}")
        record_event(self.writer, entry, "Normal", explanation, _SOURCE)

    def _count(self, entry: Entry, pods: list[Entry], error: ApiError | None) -> None:
        active = [p for p in pods if is_active(p.object)]
        spec = entry.object["spec"]
        labels = spec["template"]["metadata"].get("labels", {})
        ready = [p for p in active if is_ready(p.object)]
        moments = [available_at(p.object, spec.get("minReadySeconds", 0)) for p in ready]
        waiting = [m for m in moments if m and m > clock.now()]
        labelled = [
            p for p in active if labels.items() <= p.object["metadata"].get("labels", {}).items()
        ]
        status: dict[str, Any] = {
            "replicas": len(active),
            "fullyLabeledReplicas": len(labelled),
            "readyReplicas": len(ready),
            "availableReplicas": len(ready) - len(waiting),
            "observedGeneration": entry.object["metadata"]["generation"],
        }
        status = {k: v for k, v in status.items() if v or k == "replicas"}
        status["terminatingReplicas"] = sum(is_terminating(p.object) for p in pods)
        if error:
            status["conditions"] = [_failure(entry.object, error)]
        self.set_status(entry, status)
        if waiting:
            self.add_at(entry.key, min(waiting))


def _failure(replica_set: Manifest, error: ApiError) -> Manifest:
    old = condition(replica_set, "ReplicaFailure")
    return {
        "type": "ReplicaFailure",
        "status": "True",
        "reason": "FailedCreate",
        "message": str(error),
        "lastTransitionTime": old.get("lastTransitionTime", now()),
    }


def _rank(entry: Entry) -> tuple[object, ...]:
    """Return the sort key for deletion: unassigned, not running, not ready, and young first."""
    pod = entry.object
    phases = {"Pending": 0, "Unknown": 1, "Running": 2}
    phase = phases.get(pod.get("status", {}).get("phase", ""), 1)
    return bool(pod["spec"].get("nodeName")), phase, is_ready(pod), -entry.version
