"""Compares the GPUs of nodes with those of their pods, to find units on lost GPUs."""

from django.db import transaction

from gpuplatform.kube.client import Cluster
from gpuplatform.kube.fields import field
from gpuplatform.kube.kinds import NODE, POD
from gpuplatform.planning.ownership import UNIT_LABEL
from units.core.shortage import shortages
from units.mirror import unit_touched
from units.services.maintenance import short_nodes_update


def compare_nodes(cluster: Cluster) -> list[int]:
    """Record the nodes with a shortage; return the ids of units on nodes that changed.

    Their reconcilers report the shortage in the status; nothing is deleted or stopped.

    Raises:
        ClusterError: the cluster could not be read; the recorded shortages stay.
    """
    # The pods are read first, so every node that a pod is on is in the list of nodes.
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
