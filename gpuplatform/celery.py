"""The Celery application, known to every process; workers and beat start from here.

`celery worker` and `celery beat` import this file before `--config FILE` is read, so nothing here
reads a setting. The hooks of their processes are in `gpuplatform.processes`, which the app
`gpuplatform` loads once Django is set up (`apps.py`).
"""

import os

import click
from celery import Celery, signals
from django.conf import settings

from gpuplatform.configfile import OPTION, use_config_file

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gpuplatform.settings")
if not settings.configured:  # Started by Celery, not one of the processes that only send.
    os.environ.setdefault("GPUPLATFORM_ROLE", "worker")

app = Celery("gpuplatform")
app.set_default()  # Also for the threads of web and controller.
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


def _use_config(_context: click.Context, _option: click.Parameter, path: str | None) -> None:
    if path is not None:
        use_config_file(path)


for command in ("worker", "beat"):
    app.user_options[command].add(
        click.Option(
            [OPTION],
            metavar="FILE",
            is_eager=True,  # Other options have defaults that read the settings.
            expose_value=False,
            callback=_use_config,
            help="YAML file with settings; see docs/configuration.md.",
        )
    )


@signals.setup_logging.connect
def keep_logging(**_: object) -> None:
    """Keep the logging of Django's settings: Celery sets up its own unless a receiver exists."""
