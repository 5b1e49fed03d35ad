"""The Deployment and the Service that a custom resource owns. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpuplatform.kube.kinds import DEPLOYMENT, SERVICE, Manifest, ResourceKind
from gpuplatform.planning.ownership import controller_reference
from gpuplatform.planning.view import ResourceView
from gpuplatform.workloads.pod_settings import PodSettings
from gpuplatform.workloads.pods import PROGRESS_DEADLINE_SECONDS, service_ports
from gpuplatform.workloads.releases import template_annotations
from gpuplatform.workloads.template import Port


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
        replicas: int,
        spec_hash: str,
        settings: PodSettings,
    ) -> Manifest:
        """Return the Deployment of pods with the spec `pod`.

        The strategy is `Recreate`, because a rolling update would need additional GPUs.
        """
        spec = {
            "replicas": replicas,
            "strategy": {"type": "Recreate"},
            "progressDeadlineSeconds": PROGRESS_DEADLINE_SECONDS,
            "selector": {"matchLabels": dict(self.selector)},
            "template": {"metadata": {"labels": dict(pod_labels)}, "spec": pod},
        }
        manifest = self._manifest(DEPLOYMENT, spec)
        manifest["metadata"]["annotations"] = template_annotations(
            spec_hash, settings.hash_in(pod)
        )
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
