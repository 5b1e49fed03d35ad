"""Celery tasks of the audit log. Messages may be lost, repeated or concurrent."""

from celery import shared_task

from gpuplatform.audit.services.seals import AuditTask, entries_prune, entries_seal


@shared_task(name=AuditTask.SEAL)
def seal_entries() -> None:
    """Seal the entries of transactions that have ended."""
    entries_seal()


@shared_task(name=AuditTask.PRUNE)
def prune_entries() -> None:
    """Delete entries after their retention."""
    entries_prune()
