"""Execution of a plan's actions."""

from gpuplatform.kube.client import Cluster
from gpuplatform.planning.plan import Action, Apply, Create, Delete, Patch


def carry_out(cluster: Cluster, action: Action) -> None:
    """Execute one action; it is idempotent.

    Raises:
        ClusterError: the cluster rejected it or did not answer.
    """
    match action:
        case Create(kind, manifest):
            cluster.create(kind, manifest)
        case Apply(kind, manifest, force):
            cluster.apply(kind, manifest, force=force)
        case Patch(kind, namespace, name, patch):
            cluster.merge_patch(kind, name, patch, namespace=namespace)
        case Delete(kind, namespace, name, uid):
            cluster.delete(kind, name, namespace=namespace, uid=uid)
