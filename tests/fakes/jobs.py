"""The Job controller and the kubelet of the in-memory cluster."""

from typing import TYPE_CHECKING, Final

from gpuplatform.kube.fields import condition
from gpuplatform.kube.kinds import JOB, POD, Manifest
from gpuplatform.workloads.pods import CONTAINER_NAME

if TYPE_CHECKING:
    from tests.fakes.cluster import FakeCluster

FINISHED_AT: Final = "2026-01-31T13:00:00Z"


def settle_job(cluster: "FakeCluster", job: Manifest, pod_status: Manifest | None) -> None:
    """Let the pod of a Job run or have `pod_status`; delete the pods of a suspended Job."""
    if condition(job, "Complete") or condition(job, "Failed"):
        return
    metadata, spec = job["metadata"], job["spec"]
    is_suspended = bool(spec.get("suspend"))
    present = cluster.owned(POD, metadata["uid"])
    if is_suspended:
        for _, namespace, name in present:
            cluster.remove(POD, name, namespace=namespace)
    elif not present:
        ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        _put_pod(cluster, job, pod_status or ready)
    status = {
        "active": int(not is_suspended),
        "ready": int(not is_suspended and not pod_status),
        "conditions": [{"type": "Suspended", "status": str(is_suspended)}],
    }
    if job.get("status") != status:
        cluster.put(JOB, {**job, "status": status})


def end_program(cluster: "FakeCluster", job: Manifest, code: int, log: str = "") -> None:
    """End the program of a running Job with an exit code, as the kubelet and the controller do."""
    terminated = {
        "exitCode": code,
        "reason": "Error" if code else "Completed",
        "finishedAt": FINISHED_AT,
        "message": log,
    }
    phase = "Failed" if code else "Succeeded"
    states = [{"name": CONTAINER_NAME, "state": {"terminated": terminated}}]
    _put_pod(cluster, job, {"phase": phase, "containerStatuses": states})
    ends = [{"type": "Failed" if code else "Complete", "status": "True"}]
    cluster.put(JOB, {**job, "status": {"conditions": ends}})


def _put_pod(cluster: "FakeCluster", job: Manifest, status: Manifest) -> None:
    metadata = job["metadata"]
    cluster.put(
        POD,
        {
            "metadata": {
                "name": f"{metadata['name']}-{metadata['uid'][:5]}",
                "namespace": metadata["namespace"],
                "labels": job["spec"]["template"]["metadata"]["labels"],
                "ownerReferences": [{"uid": metadata["uid"], "controller": True}],
            },
            "spec": {},
            "status": status,
        },
    )
