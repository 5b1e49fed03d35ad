"""The settings of the installation that pods depend on. Pure."""

import hashlib
from dataclasses import dataclass

from gpuplatform.kube.kinds import Manifest


@dataclass(frozen=True, slots=True)
class PodSettings:
    """The images and the pull secrets of the pods that the platform starts."""

    reservation_image: str
    """The image of pods whose spec has no image."""
    sidecar_image: str
    """The image of the sidecar of workers, unless the spec names another one."""
    pull_secrets: tuple[str, ...] = ()
    """Names of the Secrets with which nodes pull images, in the namespace of the pod."""

    def pulls(self, others: tuple[str, ...] = ()) -> Manifest:
        """Return the field `imagePullSecrets` of a pod: these Secrets, then `others`.

        The result is empty if there are none, because the API server omits empty lists.
        """
        names = dict.fromkeys((*self.pull_secrets, *others))
        return {"imagePullSecrets": [{"name": name} for name in names]} if names else {}

    def hash_in(self, pod: Manifest) -> str:
        """Return the hash of the settings that the pod spec `pod` contains."""
        ours = {self.reservation_image, self.sidecar_image}
        images = [one["image"] for one in pod["containers"] if one["image"] in ours]
        used = "\n".join([*images, "", *self.pull_secrets])
        return hashlib.sha256(used.encode()).hexdigest()[:16]
