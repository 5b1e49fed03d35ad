"""What every reconciler shares."""

from django.apps import AppConfig


class ReconciliationConfig(AppConfig):
    """Rows under a lease, the state of the cluster's connection, heartbeats of processes."""

    name = "gpuplatform.reconciliation"
    label = "reconciliation"
    verbose_name = "Reconciliation"
