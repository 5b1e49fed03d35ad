"""Celery tasks of tenants. Messages are hints: tasks may be lost, repeated or concurrent."""

from celery import shared_task

from gpuplatform.tenants.names import TenantTask
from gpuplatform.tenants.services.tenants import tenants_prune


@shared_task(name=TenantTask.PRUNE)
def prune_tenants() -> None:
    """Delete the rows of deleted tenants to which no other row refers."""
    tenants_prune()
