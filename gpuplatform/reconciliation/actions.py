"""Executes the actions of a plan."""

from gpuplatform.kube.client import Cluster
from gpuplatform.planning.plan import Action, Apply, Create, Delete, Patch


def execute(cluster: Cluster, action: Action) -> None:
    """Execute one action. Every action is idempotent.

    Raises:
        ClusterError: If the cluster rejects the request or does not respond.
    """
    match action:
        case Create(kind, manifest):
            cluster.create(kind, manifest)
        case Apply(kind, manifest, force):
            cluster.apply(kind, manifest, force=force)
        case Patch(kind, namespace, name, patch):
            cluster.merge_patch(kind, name, patch, namespace=namespace)
        case Delete(kind, namespace, name, uid, version):
            cluster.delete(
                kind, name, namespace=namespace, uid=uid, resource_version=version or None
            )
