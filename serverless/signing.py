"""Links to results that work without a token, for a while: signed with HMAC-SHA256.

Source: RFC 2104, "HMAC: Keyed-Hashing for Message Authentication".
"""

import re
from typing import Final

from django.utils.crypto import constant_time_compare, salted_hmac

from gpuplatform import clock
from serverless.models import Invocation

LINK_SECONDS: Final = 600

_SIGNATURE: Final = re.compile(r"([1-9][0-9]{0,17})-([0-9a-f]{64})")


def result_link(row: Invocation) -> str:
    """Return the address of the invocation's result, signed, for the next ten minutes."""
    expires = int(clock.now().timestamp()) + LINK_SECONDS
    digest = _digest(row.pk, row.invocation_id, expires)
    address = f"/api/v1/serverless/invocations/{row.invocation_id}/result"
    return f"{address}?expires={expires}&sig={row.pk}-{digest}"


def signed_row(invocation_id: str, expires: int, signature: str) -> int | None:
    """Return the number of the row that a link is for; None when it is no link of ours, or old.

    The number is part of the link: ids of invocations are unique for a tenant only.
    """
    found = _SIGNATURE.fullmatch(signature)
    if found is None:
        return None
    key = int(found[1])
    is_ours = constant_time_compare(found[2], _digest(key, invocation_id, expires))
    return key if is_ours and clock.now().timestamp() < expires else None


def _digest(key: int, invocation_id: str, expires: int) -> str:
    value = f"{key}/{expires}/{invocation_id}"
    return salted_hmac("serverless.result", value, algorithm="sha256").hexdigest()
