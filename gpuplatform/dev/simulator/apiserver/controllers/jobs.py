"""The Job controller: runs the pods of Jobs, counts how they end, and ends the Jobs."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from typing_extensions import override

from gpuplatform import clock
from gpuplatform.dev.simulator.apiserver.builtins.jobs import JOB_TRACKING
from gpuplatform.dev.simulator.apiserver.controllers.events import record_event
from gpuplatform.dev.simulator.apiserver.controllers.job_back_off import Failures
from gpuplatform.dev.simulator.apiserver.controllers.loop import MANAGER, Controller
from gpuplatform.dev.simulator.apiserver.controllers.replicas import (
    PODS,
    children,
    is_active,
    is_ready,
    is_terminating,
    reference_to,
)
from gpuplatform.dev.simulator.apiserver.deletes import DeleteOptions, delete
from gpuplatform.dev.simulator.apiserver.errors import ApiError
from gpuplatform.dev.simulator.apiserver.objects import (
    Manifest,
    clone,
    condition,
    controller_of,
    now,
    random_suffix,
)
from gpuplatform.dev.simulator.apiserver.resources import GroupPlural
from gpuplatform.dev.simulator.apiserver.store import Change, Entry, Key
from gpuplatform.dev.simulator.apiserver.targets import Options, Target
from gpuplatform.dev.simulator.apiserver.writes import Writer

JOBS: Final[GroupPlural] = ("batch", "jobs")
_SOURCE = "job-controller"
_ENDED = {"Succeeded", "Failed"}
_REACHED = ("CompletionsReached", "Reached expected number of succeeded pods")
_EXCEEDED = ("BackoffLimitExceeded", "Job has reached the specified backoff limit")


class Jobs(Controller):
    """The controller of Jobs that are not indexed."""

    def __init__(self, writer: Writer) -> None:
        super().__init__(writer)
        self._failed: dict[str, Failures] = {}
        """Recent failures by the UID of the Job. A restarted controller has none."""

    @override
    def observe(self, change: Change) -> None:
        entry = change.entry
        if entry.key[:2] == JOBS:
            self.add(entry.key)
            if change.type == "DELETED":
                self._failed.pop(entry.object["metadata"]["uid"], None)
        elif entry.key[:2] == PODS:
            owner = controller_of(entry.object)
            if owner is not None and owner["kind"] == "Job":
                self.add((*JOBS, entry.key[2], owner["name"]))

    @override
    def sync(self, key: Key) -> None:
        entry = self.store.get(key)
        self._release_orphans(key, entry)
        if entry is None or "deletionTimestamp" in entry.object["metadata"]:
            return
        if _is_finished(entry.object):
            self._expire(entry)
            return
        status: Manifest = {"uncountedTerminatedPods": {}, **clone(entry.object["status"])}
        self._count(entry, status)
        if not _is_ending(status):
            self._set_conditions(entry, status)
        error = self._manage(entry, status)
        pods = [pod.object for pod in children(self.store, entry, PODS)]
        self._finish(entry, status, pods)
        self.set_status(entry, _with_counts(status, pods))
        if error:
            raise error

    def _release_orphans(self, key: Key, job: Entry | None) -> None:
        """Remove the finalizer of the pods of a deleted Job with the name."""
        uid = None if job is None else job.object["metadata"]["uid"]
        for pod in list(self.store.find(PODS, key[2])):
            owner = controller_of(pod.object) or {}
            is_of_job = (owner.get("kind"), owner.get("name")) == ("Job", key[3])
            if is_of_job and owner["uid"] != uid:
                self._untrack(pod)

    def _count(self, entry: Entry, status: Manifest) -> None:
        """Count the pods that have ended since the last sync."""
        ended: list[Manifest] = []
        for pod in children(self.store, entry, PODS):
            if JOB_TRACKING not in pod.object["metadata"].get("finalizers", ()):
                continue
            action = _end_of(pod.object, entry.object["spec"])
            if not action:
                continue
            if action == "FailJob":
                reason = ("PodFailurePolicy", "a pod matched a rule with action FailJob")
                _set(status, "FailureTarget", "True", reason)
            if action != "Ignore":
                field = "succeeded" if action == "Succeeded" else "failed"
                status[field] = status.get(field, 0) + 1
            ended.append(pod.object)
            self._untrack(pod)
        if ended:
            uid = entry.object["metadata"]["uid"]
            self._failed[uid] = self._failed.get(uid, Failures()).after(ended)

    def _untrack(self, pod: Entry) -> None:
        def untrack(obj: Manifest) -> None:
            kept = [one for one in obj["metadata"].get("finalizers", ()) if one != JOB_TRACKING]
            obj["metadata"]["finalizers"] = kept
            if not kept:
                del obj["metadata"]["finalizers"]

        if JOB_TRACKING in pod.object["metadata"].get("finalizers", ()):
            self.writer.change(pod, untrack, Options(manager=MANAGER))

    def _set_conditions(self, entry: Entry, status: Manifest) -> None:
        """Set the condition `Suspended`, the start time, and the condition that ends the Job."""
        spec, known = entry.object["spec"], condition({"status": status}, "Suspended")
        if spec["suspend"]:
            if known.get("status") != "True":
                _set(status, "Suspended", "True", ("JobSuspended", "Job suspended"))
                self._record(entry, "Normal", ("Suspended", "Job suspended"))
        elif known.get("status") == "True":
            _set(status, "Suspended", "False", ("JobResumed", "Job resumed"))
            status["startTime"] = now()
            self._record(entry, "Normal", ("Resumed", "Job resumed"))
        else:
            status.setdefault("startTime", now())
        pods = [pod.object for pod in children(self.store, entry, PODS)]
        if _is_beyond_limit(spec, status, pods):
            _set(status, "FailureTarget", "True", _EXCEEDED)
        elif "completions" in spec and status.get("succeeded", 0) >= spec["completions"]:
            _set(status, "SuccessCriteriaMet", "True", _REACHED)

    def _manage(self, entry: Entry, status: Manifest) -> ApiError | None:
        """Create or delete pods. Return the error of a creation."""
        spec, pods = entry.object["spec"], children(self.store, entry, PODS)
        active = [pod for pod in pods if is_active(pod.object)]
        if spec["suspend"] or _is_ending(status):
            for pod in active:
                # The pods of a Job that ends count as failed when they have terminated.
                self._delete(entry, pod, is_counted=not spec["suspend"])
            return None
        wanted = spec["parallelism"]
        if "completions" in spec:
            wanted = min(wanted, spec["completions"] - status.get("succeeded", 0))
        for pod in active[wanted:]:
            self._delete(entry, pod)
        held = len(active)
        if spec["podReplacementPolicy"] == "Failed":
            held += sum(is_terminating(pod.object) for pod in pods)
        return self._create_pods(entry, wanted - held)

    def _create_pods(self, entry: Entry, number: int) -> ApiError | None:
        """Create pods, unless the back-off after a failure has not ended."""
        moment = self._failed.get(entry.object["metadata"]["uid"], Failures()).replaced_at()
        if number > 0 and moment and moment > clock.now():
            self.add_at(entry.key, moment)
            return None
        try:
            for _ in range(number):
                self._create(entry)
        except ApiError as error:
            self._record(entry, "Warning", ("FailedCreate", f"Error creating: {error}"))
            return error
        return None

    def _delete(self, entry: Entry, pod: Entry, *, is_counted: bool = False) -> None:
        """Delete an active pod, which by default counts neither as succeeded nor as failed."""
        if not is_counted:
            self._untrack(pod)
        target = Target(self.writer.registry.require("pods"), *pod.key[2:])
        delete(self.store, target, DeleteOptions())
        self._record(entry, "Normal", ("SuccessfulDelete", f"Deleted pod: {pod.key[3]}"))

    def _create(self, entry: Entry) -> None:
        template = clone(entry.object["spec"]["template"])
        prefix = f"{entry.key[3]}-"
        name = prefix + random_suffix()
        template["metadata"] |= {
            "name": name,
            "generateName": prefix,
            "ownerReferences": [reference_to(entry)],
            "finalizers": [JOB_TRACKING],
        }
        body = {"apiVersion": "v1", "kind": "Pod", **template}
        target = Target(self.writer.registry.require("pods"), entry.key[2], name)
        self.writer.create(target, body, Options(manager=MANAGER))
        self._record(entry, "Normal", ("SuccessfulCreate", f"Created pod: {name}"))

    def _finish(self, entry: Entry, status: Manifest, pods: Sequence[Manifest]) -> None:
        """Set the terminal condition after all pods have ended."""
        if any(is_active(pod) or is_terminating(pod) for pod in pods):
            return
        for begun, ended in (("SuccessCriteriaMet", "Complete"), ("FailureTarget", "Failed")):
            found = condition({"status": status}, begun)
            if found.get("status") != "True":
                continue
            _set(status, ended, "True", (found["reason"], found["message"]))
            if ended == "Complete":
                status["completionTime"] = now()
                self._record(entry, "Normal", ("Completed", "Job completed"))
            else:
                self._record(entry, "Warning", (found["reason"], found["message"]))

    def _expire(self, entry: Entry) -> None:
        """Delete a finished Job after its time to live."""
        seconds = entry.object["spec"].get("ttlSecondsAfterFinished")
        if seconds is None:
            return
        ended = condition(entry.object, "Complete") or condition(entry.object, "Failed")
        moment = clock.parse_rfc3339(ended["lastTransitionTime"]) + timedelta(seconds=seconds)
        if moment > clock.now():
            self.add_at(entry.key, moment)
            return
        target = Target(self.writer.registry.require("jobs", "batch"), *entry.key[2:])
        delete(self.store, target, DeleteOptions(policy="Background"))

    def _record(self, entry: Entry, type_: str, explanation: tuple[str, str]) -> None:
        record_event(self.writer, entry, type_, explanation, _SOURCE)


def _end_of(pod: Manifest, spec: Manifest) -> str:
    """Return the outcome that the Job counts for a pod, or an empty string if it has not ended.

    That is `Succeeded`, `Failed`, or the action of a rule of `podFailurePolicy`. A pod without a
    remaining grace period has terminated, even if its status does not report it.
    """
    phase = pod.get("status", {}).get("phase")
    if phase == "Succeeded":
        return "Succeeded"
    is_deleted = "deletionTimestamp" in pod["metadata"]
    is_over = phase == "Failed" or pod["metadata"].get("deletionGracePeriodSeconds") == 0
    if not is_over and not (is_deleted and spec["podReplacementPolicy"] != "Failed"):
        return ""
    for rule in spec.get("podFailurePolicy", {}).get("rules", ()):
        for pattern in rule.get("onPodConditions", ()):
            if condition(pod, pattern["type"]).get("status") == pattern["status"]:
                return str(rule["action"])
    return "Failed"


def _is_beyond_limit(spec: Manifest, status: Manifest, pods: Sequence[Manifest]) -> bool:
    limit = int(spec["backoffLimit"])
    if status.get("failed", 0) > limit:
        return True
    if spec["template"]["spec"]["restartPolicy"] != "OnFailure":
        return False
    restarts = sum(
        int(one.get("restartCount", 0))
        for pod in pods
        if pod.get("status", {}).get("phase") in {"Running", "Pending"}
        for one in pod["status"].get("containerStatuses", ())
    )
    return restarts >= max(limit, 1)


def _is_finished(job: Manifest) -> bool:
    return any(condition(job, kind).get("status") == "True" for kind in ("Complete", "Failed"))


def _is_ending(status: Manifest) -> bool:
    kinds = ("SuccessCriteriaMet", "FailureTarget")
    return any(condition({"status": status}, kind).get("status") == "True" for kind in kinds)


def _with_counts(status: Manifest, pods: Sequence[Manifest]) -> Manifest:
    counts: dict[str, Any] = {
        "active": sum(is_active(pod) for pod in pods),
        "ready": sum(is_active(pod) and is_ready(pod) for pod in pods),
        "terminating": sum(is_terminating(pod) for pod in pods),
    }
    if not counts["active"]:
        del counts["active"]
    kept = {key: value for key, value in status.items() if key != "active"}
    return {**kept, **counts}


def _set(status: Manifest, kind: str, value: str, explanation: tuple[str, str]) -> None:
    """Set a condition; its times change only if its status changes."""
    conditions = status.setdefault("conditions", [])
    old = next((one for one in conditions if one["type"] == kind), None)
    if old is not None and old["status"] == value:
        return
    reason, message = explanation
    new = {"type": kind, "status": value, "reason": reason, "message": message}
    new |= {"lastProbeTime": now(), "lastTransitionTime": now()}
    if old is None:
        conditions.append(new)
    else:
        old.update(new)
