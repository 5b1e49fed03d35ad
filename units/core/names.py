"""The names, labels and annotations of a GPU unit and its objects, for all components.

A unit's name has at most 58 characters, so that each derived name is a DNS label without a cut.
"""

from typing import Final

from gpuplatform.formats.names import OWN_NAME_MAX, generated_name
from gpuplatform.kube.kinds import GROUP

UNIT_UID_LABEL: Final = f"{GROUP}/unit-uid"
"""On pods: distinguishes the pods of a deleted unit from those of a later unit of its name."""

SOURCE_NAME_ANNOTATION: Final = f"{GROUP}/source-stock-name"
SOURCE_NAMESPACE_ANNOTATION: Final = f"{GROUP}/source-stock-namespace"
SOURCE_UID_ANNOTATION: Final = f"{GROUP}/source-stock-uid"
"""On an active unit: the stock unit that it consumes."""

STOCK_REPLICAS_ANNOTATION: Final = f"{GROUP}/stock-replicas"
STOCK_ORDINAL_ANNOTATION: Final = f"{GROUP}/stock-ordinal"
"""On a stock unit: its ordinal in its seeding, and the number of units of the seeding."""

GENERATION_ANNOTATION: Final = f"{GROUP}/unit-generation"
"""On the Deployment: the generation of the unit that it was last written for."""

MAX_ORDINAL_DIGITS: Final = 5

_PREFIX = "unit"
_STOCK_PREFIX = "stock"


def deployment_name(unit: str) -> str:
    """Return the name of the unit's Deployment."""
    return f"{_PREFIX}-{unit}"


def service_name(unit: str) -> str:
    """Return the name of the unit's Service."""
    return f"{_PREFIX}-{unit}"


def stock_batch_name(spec_name: str, *, tenant: str, operation_id: str) -> str:
    """Return the name of a seeding: the prefix of the names of its stock units."""
    return generated_name(
        _STOCK_PREFIX,
        spec_name,
        tenant=tenant,
        operation_id=operation_id,
        max_length=OWN_NAME_MAX - MAX_ORDINAL_DIGITS - 1,
    )


def stock_name(batch: str, ordinal: int) -> str:
    """Return the name of one stock unit of a seeding; ordinals count from 1."""
    return f"{batch}-{ordinal:03d}"
