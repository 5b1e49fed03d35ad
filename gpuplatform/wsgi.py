"""WSGI entry of the web process (API, Swagger, admin)."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gpuplatform.settings")
os.environ.setdefault("GPUPLATFORM_ROLE", "web")

application = get_wsgi_application()
