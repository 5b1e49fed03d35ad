"""The OpenAPI document as it is served: generated once in a process, kept as bytes.

Source: RFC 9110, "HTTP Semantics", sections 8.4 (Content-Encoding) and 13.1.2 (If-None-Match).
"""

import gzip
import hashlib
import json
from dataclasses import dataclass
from functools import cache
from threading import Lock
from typing import Final

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseNotModified
from django.http.response import HttpResponseBase
from django.utils.cache import patch_vary_headers
from django.utils.module_loading import import_string
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_safe

_LOCK: Final = Lock()
"""drf-spectacular loads its parts lazily, which is not safe for threads."""


@dataclass(frozen=True, slots=True)
class Document:
    """The OpenAPI document as JSON."""

    content: bytes
    compressed: bytes
    etag: str


def openapi_document() -> Document:
    """Return the document; the first call generates it, concurrent ones wait for that."""
    with _LOCK:
        return _generated(settings.ROOT_URLCONF)


@cache
def _generated(_urlconf: str) -> Document:
    # Its module can be imported only when the apps are ready, which gunicorn's settings precede.
    generator = import_string("drf_spectacular.generators.SchemaGenerator")()
    schema = generator.get_schema(request=None, public=True)
    content = json.dumps(schema, separators=(",", ":"), ensure_ascii=False).encode()
    digest = hashlib.sha256(content).hexdigest()
    return Document(content, gzip.compress(content, mtime=0), f'"{digest[:32]}"')


@csrf_exempt
@require_safe
def serve_document(request: HttpRequest) -> HttpResponseBase:
    """Reply with the document, compressed if the client accepts that."""
    document = openapi_document()
    if document.etag in request.headers.get("If-None-Match", ""):
        response: HttpResponse = HttpResponseNotModified()
    elif "gzip" in request.headers.get("Accept-Encoding", ""):
        response = HttpResponse(document.compressed, content_type="application/json")
        response.headers["Content-Encoding"] = "gzip"
    else:
        response = HttpResponse(document.content, content_type="application/json")
    response.headers["ETag"] = document.etag
    response.headers["Cache-Control"] = "no-cache"
    patch_vary_headers(response, ["Accept-Encoding"])
    return response
