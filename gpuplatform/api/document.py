"""Serves the OpenAPI document, which is generated once per process."""

import gzip
import hashlib
import json
import re
from dataclasses import dataclass
from functools import cache
from threading import Lock
from typing import Final

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils.module_loading import import_string
from django.views.decorators.cache import cache_control
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import etag, require_safe
from django.views.decorators.vary import vary_on_headers

_GZIP: Final = re.compile(r"\bgzip\b(?!\s*;\s*q=0(\.0*)?\s*(,|$))")
_LOCK: Final = Lock()
"""Serializes the generation: the lazy imports of drf-spectacular are not thread-safe."""


@dataclass(frozen=True, slots=True)
class Document:
    """The OpenAPI document as JSON, and its ETag."""

    content: bytes
    compressed: bytes
    """The content in the encoding `gzip`."""
    etag: str


def openapi_document() -> Document:
    """Return the document. The first call generates it; concurrent calls wait for the result."""
    with _LOCK:
        return _generated(settings.ROOT_URLCONF)


@cache
def _generated(_urlconf: str) -> Document:
    # This module is imported before the apps are ready, when the generator cannot be imported yet.
    generator = import_string("drf_spectacular.generators.SchemaGenerator")()
    schema = generator.get_schema(request=None, public=True)
    content = json.dumps(schema, separators=(",", ":"), ensure_ascii=False).encode()
    # The ETag is weak, because both encodings have it.
    return Document(
        content, gzip.compress(content, mtime=0), f'W/"{hashlib.sha256(content).hexdigest()[:32]}"'
    )


@csrf_exempt
@require_safe
@vary_on_headers("Accept-Encoding")
@cache_control(no_cache=True)
@etag(lambda _request: openapi_document().etag)
def serve_document(request: HttpRequest) -> HttpResponse:
    """Return the response with the document, compressed if the client accepts it."""
    document = openapi_document()
    if not _GZIP.search(request.headers.get("Accept-Encoding", "")):
        return HttpResponse(document.content, content_type="application/json")
    return HttpResponse(
        document.compressed,
        content_type="application/json",
        headers={"Content-Encoding": "gzip"},
    )
