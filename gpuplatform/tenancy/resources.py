"""The resources that a tenant can be limited in. Pure."""

from enum import StrEnum
from typing import Final

from gpuplatform.formats import names

HIGHEST_LIMIT: Final = 2**31 - 1
"""Maximum value of a limit."""

MAX_LIMITS: Final = 200
"""Maximum number of limits of a tenant."""


class Resource(StrEnum):
    """The resources whose use is limited. A GPU spec has a further one: see `spec_resource`."""

    GPUS = "gpus"
    UNITS = "units"
    FUNCTIONS = "functions"
    WORKERS = "workers"
    OPEN_INVOCATIONS = "openInvocations"
    OPEN_OPERATIONS = "openOperations"
    TOKENS = "tokens"


_WITHOUT_OBJECTS: Final = ("storages", "storageBytes")
"""Names that are reserved: this release has no storages, so that a limit would have no effect."""

_SPEC_PREFIX: Final = f"{Resource.GPUS}."

LIMIT_NAMES: Final = f"{', '.join(Resource)} and {_SPEC_PREFIX}<name of a GPU spec>"


def spec_resource(spec_name: str) -> str:
    """Return the resource that counts the GPUs of a GPU spec, such as `gpus.h100-1g`."""
    return f"{_SPEC_PREFIX}{spec_name}"


def limit_error(name: str, hard: int) -> str:
    """Return the error of a limit, or an empty string if it is valid."""
    if name in _WITHOUT_OBJECTS:
        return "This release has no storages, so that the limit would have no effect. Remove it."
    if name not in set(Resource) and not _is_of_spec(name):
        return f"Is not a resource. The resources are {LIMIT_NAMES}."
    if not 0 <= hard <= HIGHEST_LIMIT:
        return f"Must be between 0 and {HIGHEST_LIMIT}."
    return ""


def _is_of_spec(name: str) -> bool:
    prefix, spec_name = name[: len(_SPEC_PREFIX)], name[len(_SPEC_PREFIX) :]
    try:
        return prefix == _SPEC_PREFIX and names.spec_name(spec_name) == spec_name
    except ValueError:
        return False
