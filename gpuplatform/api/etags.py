"""ETags: each names a version of an object's spec; the status changes under the same ETag.

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
    description="The ETag of the object that was read. The request is rejected with 412 if the"
    " object has another one, and while an accepted change of it is in progress.",
)

_STRONG = re.compile(r'"([\x21\x23-\x7e]{1,128})"')


def etag_header(etag: str) -> dict[str, str]:
    """Return the header of a reply; empty for an object that has no ETag yet."""
    return {"ETag": f'"{etag}"'} if etag else {}


def expected_etag(request: Request) -> str | None:
    """Return the ETag of `If-Match` without its quotes; None if any version is accepted.

    Raises:
        InvalidSpec: the header is neither one strong ETag nor `*`.
    """
    header = request.headers.get(IF_MATCH)
    if header is None or header.strip() == "*":
        return None
    match = _STRONG.fullmatch(header.strip())
    if match is None:
        message = "Must be the ETag of a GET, in its quotes, or *."
        raise InvalidSpec(f"{IF_MATCH}: {message}", details=[FieldError(IF_MATCH, message)])
    return match[1]
