"""WSGI application of the web process (API, Swagger UI, admin)."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gpuplatform.settings")
os.environ.setdefault("GPUPLATFORM_ROLE", "web")

from django.core.wsgi import get_wsgi_application

application = get_wsgi_application()
