"""The Deployment or the Job, and the Service, that a custom resource owns. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gpuplatform.kube.kinds import DEPLOYMENT, GROUP, JOB, SERVICE, Manifest, ResourceKind
from gpuplatform.planning.ownership import controller_reference
from gpuplatform.planning.view import ResourceView
from gpuplatform.workloads.pod_settings import PodSettings
from gpuplatform.workloads.pods import PROGRESS_DEADLINE_SECONDS, service_ports
from gpuplatform.workloads.releases import template_annotations
from gpuplatform.workloads.template import Port

POD_ANNOTATIONS_ANNOTATION: Final = f"{GROUP}/pod-annotations"
"""The keys of the pod annotations in the spec. A merge patch removes the keys that the spec no
longer has, and keeps the annotations of other programs."""

MAX_RESTARTS: Final = 6
"""Number of restarts after which a program with `restart: onFailure` has failed."""

_RETRIES: Final[Mapping[str, Manifest]] = {
    "OnFailure": {"backoffLimit": MAX_RESTARTS},
    # A pod that the cluster evicts does not count as a failure of the program, and is replaced.
    "Never": {
        "backoffLimit": 0,
        "podFailurePolicy": {
            "rules": [
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
            ]
        },
    },
}
"""The fields of a Job that decide about retries, by the restart policy of its pod."""


@dataclass(frozen=True, slots=True)
class OwnedObjects:
    """The objects that `owner` owns, which have the same name and labels."""

    owner: ResourceView
    name: str
    labels: Mapping[str, str]
    selector: Mapping[str, str]
    """The label that selects the pods."""

    def deployment(
        self,
        pod: Manifest,
        *,
        pod_labels: Mapping[str, str],
        pod_annotations: Mapping[str, str],
        replicas: int,
        spec_hash: str,
        settings: PodSettings,
    ) -> Manifest:
        """Return the Deployment of pods with the spec `pod`.

        The strategy is `Recreate`, because a rolling update would need additional GPUs.
        """
        template, annotations = _template(pod, pod_labels, pod_annotations, spec_hash, settings)
        spec = {
            "replicas": replicas,
            "strategy": {"type": "Recreate"},
            "progressDeadlineSeconds": PROGRESS_DEADLINE_SECONDS,
            "selector": {"matchLabels": dict(self.selector)},
            "template": template,
        }
        return self._manifest(DEPLOYMENT, spec, annotations)

    def job(
        self,
        pod: Manifest,
        *,
        pod_labels: Mapping[str, str],
        pod_annotations: Mapping[str, str],
        is_suspended: bool,
        spec_hash: str,
        settings: PodSettings,
    ) -> Manifest:
        """Return the Job of one pod with the spec `pod`, which is never replaced while it runs.

        The Job has no time limit after which it is deleted, because a finished Job is the record
        of a program that has ended.
        """
        template, annotations = _template(pod, pod_labels, pod_annotations, spec_hash, settings)
        spec = {
            "suspend": is_suspended,
            "parallelism": 1,
            "completions": 1,
            "podReplacementPolicy": "Failed",
            **_RETRIES[pod["restartPolicy"]],
            "template": template,
        }
        return self._manifest(JOB, spec, annotations)

    def service(self, ports: Sequence[Port], *, is_headless: bool = False) -> Manifest:
        """Return the ClusterIP Service with one port for each container port.

        The name of a headless Service resolves to the pod itself, even before the pod is ready.
        """
        spec: Manifest = {"type": "ClusterIP", "selector": dict(self.selector)}
        if ports or not is_headless:
            spec["ports"] = service_ports(ports)
        if is_headless:
            spec |= {"clusterIP": "None", "publishNotReadyAddresses": True}
        return self._manifest(SERVICE, spec)

    def _manifest(
        self, kind: ResourceKind, spec: Manifest, annotations: Mapping[str, str] | None = None
    ) -> Manifest:
        metadata = {
            "name": self.name,
            "namespace": self.owner.namespace,
            "labels": dict(self.labels),
            "ownerReferences": [controller_reference(self.owner)],
        }
        return {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": metadata | ({"annotations": dict(annotations)} if annotations else {}),
            "spec": spec,
        }


def _template(
    pod: Manifest,
    labels: Mapping[str, str],
    pod_annotations: Mapping[str, str],
    spec_hash: str,
    settings: PodSettings,
) -> tuple[Manifest, dict[str, str]]:
    """Return the pod template, and the annotations of its owner that describe its version."""
    metadata = {"labels": dict(labels)}
    annotations = template_annotations(spec_hash, settings.hash_in(pod))
    if pod_annotations:
        metadata["annotations"] = dict(pod_annotations)
        annotations[POD_ANNOTATIONS_ANNOTATION] = ",".join(sorted(pod_annotations))
    return {"metadata": metadata, "spec": pod}, annotations
