"""The Celery application, known to every process; workers and beat start from here."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gpuplatform.settings")
os.environ.setdefault("GPUPLATFORM_ROLE", "worker")

app = Celery("gpuplatform")
app.set_default()  # also for the threads of web and controller
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["gpuplatform.reconciliation", "gpuplatform.operations", "inventory"])
