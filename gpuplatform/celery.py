"""The Celery application, known to every process; workers and beat start from here."""

import os

from celery import Celery
from django.conf import settings

from gpuplatform.processes.celery_signals import add_config_option
from gpuplatform.processes.pulse import PulseStep

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gpuplatform.settings")
if not settings.configured:  # Started by Celery, not one of the processes that only send.
    os.environ.setdefault("GPUPLATFORM_ROLE", "worker")

app = Celery("gpuplatform")
app.set_default()  # also for the threads of web and controller
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(
    [
        "gpuplatform.observability",
        "gpuplatform.reconciliation",
        "gpuplatform.operations",
        "inventory",
        "units",
        "serverless",
    ]
)
add_config_option(app)
app.steps["worker"].add(PulseStep)
