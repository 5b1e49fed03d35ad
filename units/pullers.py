"""Creates and deletes the pullers, which keep the warm images of GPU specs on nodes."""

import logging
from collections.abc import Mapping, Sequence

from gpuplatform.kube.client import Cluster
from gpuplatform.kube.errors import ClusterConflict, ClusterForbidden, ClusterRejected
from gpuplatform.kube.kinds import POD, Manifest
from gpuplatform.planning.plan import Create
from gpuplatform.reconciliation.actions import execute
from gpuplatform.reconciliation.pod_settings import pod_settings
from units.core.pullers import PULLER_LABEL, images_of, plan_pullers, puller_pod, spec_name_of
from units.phases import STOCK_NAMESPACE
from units.services.nodes import pullers_wanted, warm_images_update

logger = logging.getLogger(__name__)


def keep_warm_images(cluster: Cluster) -> None:
    """Reconcile the pullers with the catalogue, and record the states of the warm images.

    Raises:
        ClusterError: If the cluster cannot be read or does not respond. No puller is deleted
            because of a failed read.
    """
    live = cluster.list(POD, namespace=STOCK_NAMESPACE, label_selector=PULLER_LABEL).items
    settings = pod_settings()
    wanted = [puller_pod(one, settings) for one in pullers_wanted()]
    creates, deletes = plan_pullers(wanted, live)
    created, rejections = _create(cluster, creates)
    for deletion in deletes:
        execute(cluster, deletion)
    by_name = {pod["metadata"]["name"]: pod for pod in (*created, *live)}
    warm_images_update(
        state
        for pod in wanted
        for found in [by_name.get(pod["metadata"]["name"])]
        for state in images_of(
            pod, found or {}, "" if found else rejections.get(spec_name_of(pod), "")
        )
    )


def _create(
    cluster: Cluster, creates: Sequence[Create]
) -> tuple[Sequence[Manifest], Mapping[str, str]]:
    """Create pullers; return the created ones, and the rejections by the name of the GPU spec.

    A policy that rejects a puller rejects the others of its GPU spec, too, because they have the
    same images. The next run tries again. The pullers of other GPU specs are not affected.
    """
    created: list[Manifest] = []
    rejections: dict[str, str] = {}
    for action in creates:
        spec_name = spec_name_of(action.manifest)
        if spec_name in rejections:
            continue
        try:
            created.append(cluster.create(POD, action.manifest))
        except ClusterConflict:
            continue  # A concurrent run created it.
        except (ClusterForbidden, ClusterRejected) as error:
            logger.warning("a puller of the GPU spec '%s' was rejected: %s", spec_name, error)
            rejections[spec_name] = str(error)
    return created, rejections
