"""Signed links to results, which can be used without a token for ten minutes.

The signature is an HMAC-SHA256.

Source: RFC 2104, "HMAC: Keyed-Hashing for Message Authentication".
"""

import re
from typing import Final

from django.utils.crypto import constant_time_compare, salted_hmac

from gpuplatform import clock
from gpuplatform.api.opaque import opaque, opened
from serverless.models import Invocation

LINK_SECONDS: Final = 600

_PURPOSE: Final = "result"
_SIGNATURE: Final = re.compile(r"([-_0-9A-Za-z]{16,80})\.([0-9a-f]{64})")


def result_link(row: Invocation) -> str:
    """Return a link to the result of an invocation that is valid for `LINK_SECONDS`."""
    expires = int(clock.now().timestamp()) + LINK_SECONDS
    digest = _digest(row.pk, row.invocation_id, expires)
    address = f"/api/v1/serverless/invocations/{row.invocation_id}/result"
    return f"{address}?expires={expires}&sig={opaque(row.pk, _PURPOSE)}.{digest}"


def signed_row(invocation_id: str, expires: int, signature: str) -> int | None:
    """Return the row id in a link, or `None` if the link is not valid or has expired.

    The link contains the encrypted row id, because an invocationID is unique only within a tenant.
    """
    found = _SIGNATURE.fullmatch(signature)
    if found is None:
        return None
    try:
        key = opened(found[1], _PURPOSE)
    except ValueError:
        return None
    is_valid = constant_time_compare(found[2], _digest(key, invocation_id, expires))
    return key if is_valid and clock.now().timestamp() < expires else None


def _digest(key: int, invocation_id: str, expires: int) -> str:
    value = f"{key}/{expires}/{invocation_id}"
    return salted_hmac("serverless.result", value, algorithm="sha256").hexdigest()
