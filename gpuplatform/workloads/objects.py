"""The Deployment and the Service that a custom resource owns. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gpuplatform.kube.kinds import DEPLOYMENT, GROUP, SERVICE, Manifest, ResourceKind
from gpuplatform.planning.ownership import controller_reference
from gpuplatform.planning.view import ResourceView
from gpuplatform.workloads.pod_settings import PodSettings
from gpuplatform.workloads.pods import PROGRESS_DEADLINE_SECONDS, service_ports
from gpuplatform.workloads.releases import template_annotations
from gpuplatform.workloads.template import Port

POD_ANNOTATIONS_ANNOTATION: Final = f"{GROUP}/pod-annotations"
"""The keys of the pod annotations in the spec. A merge patch removes the keys that the spec no
longer has, and keeps the annotations of other programs."""


@dataclass(frozen=True, slots=True)
class OwnedObjects:
    """The Deployment and the Service of `owner`, which have the same name and labels."""

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
        metadata = {"labels": dict(pod_labels)}
        annotations = template_annotations(spec_hash, settings.hash_in(pod))
        if pod_annotations:
            metadata["annotations"] = dict(pod_annotations)
            annotations[POD_ANNOTATIONS_ANNOTATION] = ",".join(sorted(pod_annotations))
        spec = {
            "replicas": replicas,
            "strategy": {"type": "Recreate"},
            "progressDeadlineSeconds": PROGRESS_DEADLINE_SECONDS,
            "selector": {"matchLabels": dict(self.selector)},
            "template": {"metadata": metadata, "spec": pod},
        }
        manifest = self._manifest(DEPLOYMENT, spec)
        manifest["metadata"]["annotations"] = annotations
        return manifest

    def service(self, ports: Sequence[Port]) -> Manifest:
        """Return the ClusterIP Service with one port for each container port."""
        selector, listed = dict(self.selector), service_ports(ports)
        return self._manifest(
            SERVICE, {"type": "ClusterIP", "selector": selector, "ports": listed}
        )

    def _manifest(self, kind: ResourceKind, spec: Manifest) -> Manifest:
        return {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {
                "name": self.name,
                "namespace": self.owner.namespace,
                "labels": dict(self.labels),
                "ownerReferences": [controller_reference(self.owner)],
            },
            "spec": spec,
        }
