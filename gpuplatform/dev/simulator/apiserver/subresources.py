"""The subresources `binding`, `finalize` and `scale`."""

from gpuplatform.dev.simulator.apiserver import errors
from gpuplatform.dev.simulator.apiserver.jsonpath import set_at, value_at
from gpuplatform.dev.simulator.apiserver.objects import Manifest, clone, now
from gpuplatform.dev.simulator.apiserver.patches import merge_patch
from gpuplatform.dev.simulator.apiserver.resources import Resource
from gpuplatform.dev.simulator.apiserver.store import Entry
from gpuplatform.dev.simulator.apiserver.targets import Options, Target
from gpuplatform.dev.simulator.apiserver.writes import Writer, is_finished

_PATHS = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
_COPIED = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def bind(writer: Writer, target: Target, node: str) -> Entry:
    """Bind a pod to a node.

    Raises:
        ApiError: 404 if the pod does not exist; 409 if the pod is bound or is being deleted; 500
        if
            `node` is empty.
    """
    entry = _require(writer, target)
    pod = clone(entry.object)
    if not node:
        raise errors.ApiError(500, "", "target.name: Required value")
    if pod["spec"].get("nodeName") or "deletionTimestamp" in pod["metadata"]:
        why = f'pod {target.name} is already assigned to node "{pod["spec"].get("nodeName", "")}"'
        if "deletionTimestamp" in pod["metadata"]:
            why = f"pod {target.name} is being deleted, cannot be assigned to a host"
        raise errors.conflict(target.resource, target.name, why)
    pod["spec"]["nodeName"] = node
    conditions = [
        c for c in pod["status"].get("conditions", ()) if c.get("type") != "PodScheduled"
    ]
    done = {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": now(),
    }
    pod["status"]["conditions"] = [*conditions, done]
    pod["status"].pop("nominatedNodeName", None)
    return writer.store.commit(target.key, pod)


def finalize(writer: Writer, target: Target, body: Manifest) -> Entry:
    """Replace the finalizers of a namespace, and delete it if it is terminating and has none.

    Raises:
        ApiError: 404 if the namespace does not exist.
    """
    namespace = clone(_require(writer, target).object)
    finalizers = (body.get("spec") or {}).get("finalizers") or []
    namespace["spec"] = {"finalizers": finalizers} if finalizers else {}
    if is_finished(namespace):
        return writer.store.remove(target.key, namespace)
    return writer.store.commit(target.key, namespace)


def scale_of(resource: Resource, entry: Entry) -> Manifest:
    """Return the Scale object of an object.

    Raises:
        ApiError: 500 if a custom resource has no replicas field.
    """
    paths, obj = resource.scale or _PATHS, entry.object
    status: Manifest = {"replicas": value_at(obj, paths["statusReplicasPath"]) or 0}
    if resource.scale is None:
        desired = obj["spec"]["selector"].get("matchLabels", {})
        status["selector"] = ",".join(f"{k}={v}" for k, v in sorted(desired.items()))
    elif selector := value_at(obj, paths.get("labelSelectorPath") or ""):
        status["selector"] = selector
    replicas = value_at(obj, paths["specReplicasPath"])
    if replicas is None:
        field = f'the spec replicas field "{paths["specReplicasPath"]}" does not exist'
        raise errors.internal_error(LookupError(field))
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {k: obj["metadata"][k] for k in _COPIED if k in obj["metadata"]},
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def patch_scale(writer: Writer, target: Target, patch: Manifest, options: Options) -> Entry:
    """Apply a merge patch to the Scale of an object.

    Raises:
        ApiError: If `write_scale` raises it.
    """
    scale = scale_of(target.resource, _require(writer, target))
    return write_scale(writer, target, merge_patch(scale, patch), options)


def write_scale(writer: Writer, target: Target, scale: Manifest, options: Options) -> Entry:
    """Set the replicas of an object to the replicas of `scale`.

    Raises:
        ApiError: 400 if `scale` belongs to another object; 404 if the object does not exist; 409
        if the
            version is outdated; 422 if the number of replicas is invalid.
    """
    resource, entry = target.resource, _require(writer, target)
    metadata, replicas = scale.get("metadata") or {}, (scale.get("spec") or {}).get("replicas", 0)
    if scale.get("kind", "Scale") != "Scale":
        raise errors.bad_request(f"{scale['kind']} cannot be handled as a Scale")
    if metadata.get("name", target.name) != target.name:
        raise errors.bad_request(
            f"the name of the object ({metadata['name']}) does not match the name on the URL"
            f" ({target.name})"
        )
    version = metadata.get("resourceVersion")
    if version and version != entry.object["metadata"]["resourceVersion"]:
        raise errors.conflict(resource, target.name)
    if not isinstance(replicas, int) or isinstance(replicas, bool):
        raise errors.bad_request("spec.replicas of a Scale must be an integer")
    if replicas < 0 and not resource.is_custom:
        field_error = errors.invalid_value(
            "spec.replicas", replicas, "must be greater than or equal to 0"
        )
        raise errors.invalid("autoscaling", "Scale", target.name, [field_error])
    obj = clone(entry.object)
    set_at(obj, (resource.scale or _PATHS)["specReplicasPath"], replicas)
    return writer.update(target, obj, options)


def _require(writer: Writer, target: Target) -> Entry:
    entry = writer.store.get(target.key)
    if entry is None:
        raise errors.not_found(target.resource, target.name)
    return entry
