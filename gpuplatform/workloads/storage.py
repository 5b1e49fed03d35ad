"""The temporary storage of a container: shared memory, scratch space and their limits. Pure."""

import re
from collections.abc import Iterator
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field

from gpuplatform.formats import quantity
from gpuplatform.formats.model import SpecModel
from gpuplatform.formats.quantity import Quantity
from gpuplatform.formats.text import quoted
from gpuplatform.formats.validations import cel, validated
from gpuplatform.kube.kinds import Manifest

SHM_PATH: Final = "/dev/shm"  # noqa: S108 - the path in the container
DEFAULT_SCRATCH_PATH: Final = "/scratch"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"

_GIB: Final = 2**30
_STORAGE_BYTES: Final = 100 * _GIB
_STORAGE_BYTES_PER_GPU: Final = 200 * _GIB
"""Space for the weights of a model that fills the memory of the GPU."""

_PATH: Final = r"(/[A-Za-z0-9._-]+)+"
_PATH_MAX: Final = 255
_PATHS_OF_THE_SYSTEM: Final = ("/dev", "/proc", "/sys", "/run/serverless")
_SHM_VOLUME: Final = "shm"
_SCRATCH_VOLUME: Final = "scratch"


def _storage_size(size: str) -> str:
    return quantity.memory(size)


def _mount_path(path: str) -> str:
    if len(path) > _PATH_MAX or not re.fullmatch(_PATH, path) or {".", ".."} & {*path.split("/")}:
        msg = (
            f"{quoted(path)} is not a path. Use '/' and names of letters, digits, '.', '_' and"
            f" '-', with at most {_PATH_MAX} characters."
        )
        raise ValueError(msg)
    if any(path == one or path.startswith(f"{one}/") for one in _PATHS_OF_THE_SYSTEM):
        msg = f"{quoted(path)} is a path of the system or of the platform. Use another path."
        raise ValueError(msg)
    return path


StorageSize = Annotated[
    str,
    AfterValidator(_storage_size),
    Field(
        json_schema_extra=validated(
            cel(
                "isQuantity(self) && quantity(self).compareTo(quantity('1Mi')) >= 0",
                "Must be a Kubernetes quantity of at least 1Mi.",
            )
        )
        | {"maxLength": quantity.MAX_LENGTH},
    ),
]


class Scratch(SpecModel):
    """An empty directory of the pod, which is deleted with the pod."""

    size: StorageSize = Field(
        description="Maximum size of the directory, as a Kubernetes quantity. A pod that exceeds"
        " it is evicted.",
        examples=["100Gi"],
    )
    mount_path: Annotated[str, AfterValidator(_mount_path)] = Field(
        default=DEFAULT_SCRATCH_PATH,
        alias="mountPath",
        json_schema_extra={"pattern": f"^{_PATH}$", "maxLength": _PATH_MAX},
        description="Absolute path of the directory in the container. It must not be in /dev,"
        " /proc, /sys or /run/serverless.",
        examples=[DEFAULT_SCRATCH_PATH],
    )


def half_of(memory: str | None) -> str | None:
    """Return half of an amount of memory in whole bytes, or `None` for no limit."""
    if memory is None:
        return None
    return canonical_bytes(int(Quantity.parse(memory)) // 2)


def canonical_bytes(number: int) -> str:
    """Return a number of bytes as a quantity in canonical form."""
    return quantity.canonical(str(number))


def storage_limit(wanted: str | None, scratch: Scratch | None, gpus: int) -> str:
    """Return the maximum size of all files of the pod on the disk of its node."""
    if wanted is not None:
        return wanted
    scratch_bytes = int(Quantity.parse(scratch.size)) if scratch else 0
    return canonical_bytes(_STORAGE_BYTES + _STORAGE_BYTES_PER_GPU * gpus + scratch_bytes)


def volumes(shm_size: str | None, scratch: Scratch | None) -> Iterator[tuple[Manifest, Manifest]]:
    """Yield the volumes of the pod, each with its mount in the container.

    Without a size, the kubelet limits the shared memory to the memory of the pod or the node.
    """
    limit: dict[str, Any] = {"sizeLimit": shm_size} if shm_size else {}
    yield _volume(_SHM_VOLUME, SHM_PATH, {"medium": "Memory", **limit})
    if scratch:
        yield _volume(_SCRATCH_VOLUME, scratch.mount_path, {"sizeLimit": scratch.size})


def _volume(name: str, path: str, directory: Manifest) -> tuple[Manifest, Manifest]:
    return {"name": name, "emptyDir": directory}, {"name": name, "mountPath": path}
