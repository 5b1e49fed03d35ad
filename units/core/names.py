"""Names, labels and annotations of GPU units and their objects.

The name of a unit has at most 58 characters, so that each derived name is a DNS label and is never
truncated.
"""

from typing import Final

from gpuplatform.formats.names import OWN_NAME_MAX, generated_name
from gpuplatform.kube.kinds import GROUP
from gpuplatform.planning import ownership

UNIT_UID_LABEL: Final = ownership.UNIT_UID_LABEL

SOURCE_NAME_ANNOTATION: Final = f"{GROUP}/source-stock-name"
SOURCE_NAMESPACE_ANNOTATION: Final = f"{GROUP}/source-stock-namespace"
SOURCE_UID_ANNOTATION: Final = f"{GROUP}/source-stock-uid"
"""Annotations of an active unit that name the stock unit that it consumes."""

AVOIDED_NODE_ANNOTATION: Final = f"{GROUP}/avoided-node"
"""Annotation of an active unit: the node on which an earlier start of it failed."""

PREFERRED_NODE_ANNOTATION: Final = f"{GROUP}/preferred-node"
"""Annotation of an active unit: the node of its stock unit, if the stock unit was claimed because
its node has the image of the unit."""

STOCK_REPLICAS_ANNOTATION: Final = f"{GROUP}/stock-replicas"
STOCK_ORDINAL_ANNOTATION: Final = f"{GROUP}/stock-ordinal"
"""Annotations of a stock unit: the number of units of its seeding, and its ordinal among them."""

GENERATION_ANNOTATION: Final = f"{GROUP}/unit-generation"
"""Annotation of a Deployment or a Job: the generation of the unit for which it was last
written."""

RUN_ANNOTATION: Final = f"{GROUP}/run"
"""Annotation of a Job: the run of the program for which it was last started."""

MAX_ORDINAL_DIGITS: Final = 5

_PREFIX = "unit"
_STOCK_PREFIX = "stock"


def object_name(unit: str) -> str:
    """Return the name of the Deployment, the Job and the Service of a unit."""
    return f"{_PREFIX}-{unit}"


def stock_batch_name(spec_name: str, *, tenant: str, operation_id: str) -> str:
    """Return the name of a seeding, which is the prefix of the names of its stock units."""
    return generated_name(
        _STOCK_PREFIX,
        spec_name,
        tenant=tenant,
        operation_id=operation_id,
        max_length=OWN_NAME_MAX - MAX_ORDINAL_DIGITS - 1,
    )


def stock_name(batch: str, ordinal: int) -> str:
    """Return the name of a stock unit of a seeding; `ordinal` starts at 1."""
    return f"{batch}-{ordinal:03d}"
