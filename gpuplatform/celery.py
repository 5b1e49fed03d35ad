"""The Celery application. Every process loads it; `celery worker` and `celery beat` start it.

`celery worker` and `celery beat` import this module before they parse `--config FILE`, so it must
not read settings. The hooks of their processes are in `gpuplatform.processes`, which
`PlatformConfig.ready()` loads.
"""

import os

import click
from celery import Celery, signals
from django.conf import settings

from gpuplatform.configfile import OPTION, use_config_file

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gpuplatform.settings")
if not settings.configured:  # Celery started this process.
    os.environ.setdefault("GPUPLATFORM_ROLE", "worker")

app = Celery("gpuplatform")
app.set_default()  # For all threads of the web process and the controller.
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(
    [
        "gpuplatform.observability",
        "gpuplatform.reconciliation",
        "gpuplatform.audit",
        "gpuplatform.operations",
        "gpuplatform.tenants",
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
            is_eager=True,  # The defaults of other options read the settings.
            expose_value=False,
            callback=_use_config,
            help="YAML file with settings. See docs/configuration.md.",
        )
    )


@signals.setup_logging.connect
def keep_logging(**_: object) -> None:
    """Keep the logging of the Django settings. Without a receiver, Celery replaces it."""
