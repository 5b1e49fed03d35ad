"""Small ways to write one part of an object: a pod's node, a namespace's finalizers."""

from gpuplatform.dev.simulator.apiserver import status as say
from gpuplatform.dev.simulator.apiserver.intake import Target
from gpuplatform.dev.simulator.apiserver.objects import Manifest, clone, now
from gpuplatform.dev.simulator.apiserver.store import Entry
from gpuplatform.dev.simulator.apiserver.writes import Writer, is_finished


def bind(writer: Writer, target: Target, node: str) -> Entry:
    """Put a pod on a node, once.

    Raises:
        ApiError: 404; 409, it is on one or is being deleted; 500, no node is named.
    """
    entry = _need(writer, target)
    pod = clone(entry.object)
    if not node:
        raise say.ApiError(500, "", "target.name: Required value")
    if pod["spec"].get("nodeName") or "deletionTimestamp" in pod["metadata"]:
        why = f'pod {target.name} is already assigned to node "{pod["spec"].get("nodeName", "")}"'
        if "deletionTimestamp" in pod["metadata"]:
            why = f"pod {target.name} is being deleted, cannot be assigned to a host"
        raise say.conflict(target.resource, target.name, why)
    pod["spec"]["nodeName"] = node
    conditions = [c for c in pod["status"].get("conditions", ()) if c["type"] != "PodScheduled"]
    done = {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": now(),
    }
    pod["status"]["conditions"] = [*conditions, done]
    return writer.store.commit(target.key, pod)


def finalize(writer: Writer, target: Target, body: Manifest) -> Entry:
    """Replace the finalizers in the spec of a namespace; the last one gone, it goes.

    Raises:
        ApiError: 404.
    """
    namespace = clone(_need(writer, target).object)
    finalizers = (body.get("spec") or {}).get("finalizers") or []
    namespace["spec"] = {"finalizers": finalizers} if finalizers else {}
    if is_finished(namespace):
        return writer.store.remove(target.key, namespace)
    return writer.store.commit(target.key, namespace)


def _need(writer: Writer, target: Target) -> Entry:
    entry = writer.store.get(target.key)
    if entry is None:
        raise say.not_found(target.resource, target.name)
    return entry
