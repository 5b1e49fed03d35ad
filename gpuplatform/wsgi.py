"""WSGI entry of the web process (API, Swagger, admin)."""

import os

from django.conf import settings
from django.core.wsgi import get_wsgi_application

from gpuplatform.api.chunked import ChunkedBodies

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gpuplatform.settings")
os.environ.setdefault("GPUPLATFORM_ROLE", "web")

application = ChunkedBodies(get_wsgi_application())

if not settings.GPUPLATFORM_DEV:
    raise SystemExit(
        "The web process has no way yet to tell who is calling, so it starts in development mode"
        " only (GPUPLATFORM_DEV=1, on the loopback address)."
    )
