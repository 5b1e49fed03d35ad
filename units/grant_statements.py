"""The SQL statements of a grant, which lock and change the operation and the request.

They read only the columns that the grant needs: the matcher executes them for each stock unit.
"""

from typing import Any, Final

from django.db import connection

from gpuplatform.lifecycle.transition import previous_phases
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OPEN_PHASES
from units.models import GpuUnit
from units.phases import REQUEST_TRANSITIONS, RequestPhase

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

_REQUEST: Final = """
UPDATE units_capacityrequest r
SET phase = %(granted)s, granted_at = clock_timestamp(), hold_begun_at = NULL
WHERE r.id = %(number)s AND r.phase = ANY(%(previous)s) AND r.expires_at > clock_timestamp()
RETURNING ARRAY(SELECT s.id FROM units_gpuunit s WHERE s.claimed_by_id = r.operation_id)
"""
"""`clock_timestamp()` is the current time, which is not fixed at the start of the transaction."""


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


def request_granted(number: int) -> list[int] | None:
    """Mark an open request granted (rule `openguard`); return the ids of the earlier claims.

    The operation of the request must be locked. Returns `None` if the request is not open or has
    expired. The clock is read under the locks: an expired request is never granted.
    """
    values: dict[str, Any] = {
        "number": number,
        "granted": RequestPhase.GRANTED.value,
        "previous": sorted(previous_phases(REQUEST_TRANSITIONS, RequestPhase.GRANTED)),
    }
    with connection.cursor() as cursor:
        cursor.execute(_REQUEST, values)
        found = cursor.fetchone()
    return None if found is None else list(found[0])
