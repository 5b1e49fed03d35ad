"""Comparing what nodes offer with what their pods hold: which units are on lost GPUs?"""

from django.db import transaction

from gpuplatform.kube.client import Cluster
from gpuplatform.kube.fields import field
from gpuplatform.kube.kinds import NODE, POD
from gpuplatform.planning.ownership import UNIT_LABEL
from units.core.shortage import shortages
from units.mirror import unit_touched
from units.services.maintenance import short_nodes_update


def compare_nodes(cluster: Cluster) -> list[int]:
    """Keep which nodes are short of GPUs; return the numbers of units for which that changed.

    Their reconcilers say so in the status; nothing is deleted, and what is in use runs on.

    Raises:
        ClusterError: the cluster could not be read; what is known stays.
    """
    # The pods first: a node that joins meanwhile is known before anything runs on it.
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
