"""ETags. An ETag identifies a version of an object's spec; it does not change with the status.

Source: RFC 9110, "HTTP Semantics", sections 8.8.3 (ETag) and 13.1.1 (If-Match).
"""

import re
from typing import Final

from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request

from gpuplatform.api.parameters import response_header
from gpuplatform.errors import FieldError, InvalidSpec

IF_MATCH: Final = "If-Match"

ETAG_HEADER: Final = response_header("ETag", [200])
IF_MATCH_HEADER: Final = OpenApiParameter(
    IF_MATCH,
    {"type": "string", "pattern": r'^(\*|"[!#-~]{1,128}")$'},
    OpenApiParameter.HEADER,
    description="ETag of the object that the caller read. Returns 412 if the object has another"
    " ETag or if an accepted change of the object is in progress.",
)

_STRONG = re.compile(r'"([\x21\x23-\x7e]{1,128})"')


def etag_header(etag: str) -> dict[str, str]:
    """Return the `ETag` header, or an empty dict if the object has no ETag yet."""
    return {"ETag": f'"{etag}"'} if etag else {}


def expected_etag(request: Request) -> str | None:
    """Return the ETag in `If-Match` without its quotes.

    Returns `None` if the header is absent or `*`, which matches any version.

    Raises:
        InvalidSpec: If the header is neither one strong ETag nor `*`.
    """
    header = request.headers.get(IF_MATCH)
    if header is None or header.strip() == "*":
        return None
    match = _STRONG.fullmatch(header.strip())
    if match is None:
        message = "Must be the quoted ETag of a GET response, or *."
        raise InvalidSpec(f"{IF_MATCH}: {message}", details=[FieldError(IF_MATCH, message)])
    return match[1]
