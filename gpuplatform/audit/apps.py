"""The Django app of the audit log."""

from django.apps import AppConfig


class AuditConfig(AppConfig):
    """Configuration of the app `audit`."""

    name = "gpuplatform.audit"
    label = "audit"
    verbose_name = "Audit"
