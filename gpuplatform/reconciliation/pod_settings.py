"""The settings of pods, from the settings of this process."""

from django.conf import settings

from gpuplatform.workloads.pod_settings import PodSettings


def pod_settings() -> PodSettings:
    """Return the images and the pull secrets of the pods that the platform starts."""
    return PodSettings(
        reservation_image=settings.RESERVATION_IMAGE,
        sidecar_image=settings.SIDECAR_IMAGE,
        pull_secrets=settings.PULL_SECRETS,
    )
