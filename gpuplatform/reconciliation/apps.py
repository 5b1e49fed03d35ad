"""The Django app `reconciliation`."""

from django.apps import AppConfig


class ReconciliationConfig(AppConfig):
    """The app with the state of the cluster and the heartbeats of processes."""

    name = "gpuplatform.reconciliation"
    label = "reconciliation"
    verbose_name = "Reconciliation"
