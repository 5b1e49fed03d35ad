"""The images that the platform starts. Pure.

This is the only module that names images. A setting can replace each of them, so that a site can
pull them from its own registry. `gpuplatform.settings.environment` declares the settings that
processes read, and `compose.yaml` reads the others from `.env`. A contract test compares `deploy/`
and `compose.yaml` with this table.
"""

from dataclasses import dataclass
from typing import Final

from gpuplatform import __version__

PLATFORM_IMAGE: Final = f"gpu-platform:v{__version__}"
"""The image of the release. Its registry depends on the installation."""

ECHO_IMAGE: Final = f"gpu-platform-echo:v{__version__}"
"""The example function of the release. Only requests of users start it."""

RESERVATION_IMAGE: Final = (
    "busybox:1.36@sha256:73aaf090f3d85aa34ee199857f03fa3a95c8ede2ffd4cc2cdb5b94e566b11662"
)

SIDECAR_COMMAND: Final = ("python", "-m", "serverless.sidecar")
"""The command of the sidecar, which the images `platform` and `sidecar` of the release contain."""


@dataclass(frozen=True, slots=True)
class ImageSetting:
    """An image that the platform starts, and the setting that replaces it."""

    setting: str
    default: str
    used_by: str
    """The containers that run the image, as a phrase for the documentation."""


IMAGES: Final = (
    ImageSetting(
        "GPUPLATFORM_SIDECAR_IMAGE",
        PLATFORM_IMAGE,
        "the sidecar of each worker of a function",
    ),
    ImageSetting(
        "GPUPLATFORM_RESERVATION_IMAGE",
        RESERVATION_IMAGE,
        "stock units, and stock pools and GPU units without an image",
    ),
    ImageSetting(
        "GPUPLATFORM_IMAGE",
        PLATFORM_IMAGE,
        "the processes in `compose.yaml`; in a cluster, an overlay sets their image",
    ),
    ImageSetting("POSTGRES_IMAGE", "postgres:18-alpine", "the database in `compose.yaml`"),
    ImageSetting("VALKEY_IMAGE", "valkey/valkey:9-alpine", "the broker in `compose.yaml`"),
    ImageSetting("NATS_IMAGE", "nats:2-alpine", "the queue in `compose.yaml`"),
)
