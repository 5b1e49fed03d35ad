"""The header fields of responses that describe the rates of the caller."""

from typing import Final

RATE_HEADERS_KEY: Final = "gpuplatform.rate_headers"
"""Key in `request.META` of the header fields, which `RequestMiddleware` adds to the response."""
