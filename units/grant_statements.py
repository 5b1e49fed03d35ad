"""The first SQL statements of a grant, which lock the operation and the unit of a request.

They read only the columns that the grant needs: the matcher executes them for each stock unit.
"""

from typing import Final

from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OPEN_PHASES
from units.models import GpuUnit

_OPERATION: Final = """
UPDATE operations_operation o SET due_at = statement_timestamp()
FROM units_capacityrequest r
WHERE r.id = %(number)s AND o.id = r.operation_id
  AND o.phase = ANY(%(phases)s) AND o.cancelled_by_id IS NULL
RETURNING o.id, o.kind, o.payload, o.operation_id, o.object_name, o.tenant_id
"""

_UNIT: Final = """
SELECT u.id, u.uid, u.image, u.spec_name
FROM units_gpuunit u JOIN units_capacityrequest r ON r.unit_id = u.id
WHERE r.id = %(number)s
FOR NO KEY UPDATE OF u
"""


def operation_granted(number: int) -> Operation | None:
    """Lock the operation of a request, mark it due, and return it with the columns of its body.

    Returns `None` if it has ended or is cancelled. The mark is part of the transaction of the
    grant.
    """
    values = {"number": number, "phases": sorted(OPEN_PHASES)}
    return next(iter(Operation.objects.raw(_OPERATION, values)), None)


def unit_locked(number: int) -> GpuUnit | None:
    """Lock the unit of a request, and return it with its UID, image and GPU spec."""
    return next(iter(GpuUnit.objects.raw(_UNIT, {"number": number})), None)
