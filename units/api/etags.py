"""ETags of GPU units: `"<uid>-<generation>"`, which changes with what is wanted, not with status.

Source: RFC 9110, "HTTP Semantics", sections 8.8.3 (ETag) and 13.1.1 (If-Match).
"""

import re

from gpuplatform.errors import FieldError, InvalidSpec
from units.models import GpuUnit
from units.services.units import etag_of

IF_MATCH = "If-Match"

_STRONG = re.compile(r'"([\x21\x23-\x7e]{1,128})"')


def etag_header(unit: GpuUnit) -> dict[str, str]:
    """Return the header; none until the unit's resource is made."""
    return {"ETag": f'"{etag_of(unit.uid, unit.generation)}"'} if unit.uid else {}


def wanted_etag(header: str | None) -> str | None:
    """Return the one ETag that a change is for, without its quotes; None when any will do.

    Raises:
        InvalidSpec: it is not one strong ETag, and not `*`.
    """
    if header is None or header.strip() == "*":
        return None
    match = _STRONG.fullmatch(header.strip())
    if match is None:
        message = "Give the one ETag that a GET of the unit answered with, in its quotes."
        raise InvalidSpec(f"{IF_MATCH}: {message}", details=[FieldError(IF_MATCH, message)])
    return match[1]
