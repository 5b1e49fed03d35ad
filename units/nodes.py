"""Finds nodes with a GPU shortage by comparing the GPUs of nodes with the GPUs of their pods."""

from django.db import transaction

from gpuplatform.kube.client import Cluster
from gpuplatform.kube.fields import field
from gpuplatform.kube.kinds import NODE, POD
from gpuplatform.planning.ownership import UNIT_LABEL
from units.core.shortage import shortages
from units.mirror import unit_touched
from units.services.maintenance import short_nodes_update


def compare_nodes(cluster: Cluster) -> list[int]:
    """Record the nodes with a GPU shortage.

    Returns the ids of the units on nodes whose shortage changed. Their reconcilers report the
    shortage in the status; no unit is deleted or stopped.

    Raises:
        ClusterError: If the cluster cannot be read; the recorded shortages are then unchanged.
    """
    # The pods are read before the nodes, so that the list of nodes contains the node of each pod.
    pods = cluster.list(POD).items
    nodes = cluster.list(NODE).items
    due: list[int] = []
    with transaction.atomic():
        changed = short_nodes_update(shortages(pods, nodes))
        for pod in pods if changed else ():
            name = field(pod, "metadata", "labels", UNIT_LABEL)
            if name and field(pod, "spec", "nodeName") in changed:
                due += unit_touched(pod["metadata"]["namespace"], str(name))
    return due
