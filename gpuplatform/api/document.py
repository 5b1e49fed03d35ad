"""Serves the OpenAPI document, which is generated once per process."""

import hashlib
import json
from dataclasses import dataclass
from functools import cache
from threading import Lock
from typing import Final

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils.module_loading import import_string
from django.views.decorators.cache import cache_control
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.gzip import gzip_page
from django.views.decorators.http import etag, require_safe

_LOCK: Final = Lock()
"""Serializes the generation: the lazy imports of drf-spectacular are not thread-safe."""


@dataclass(frozen=True, slots=True)
class Document:
    """The OpenAPI document as JSON, and its ETag."""

    content: bytes
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
    return Document(content, f'"{hashlib.sha256(content).hexdigest()[:32]}"')


@csrf_exempt
@require_safe
@gzip_page
@cache_control(no_cache=True)
@etag(lambda _request: openapi_document().etag)
def serve_document(_request: HttpRequest) -> HttpResponse:
    """Return the response with the document."""
    return HttpResponse(openapi_document().content, content_type="application/json")
