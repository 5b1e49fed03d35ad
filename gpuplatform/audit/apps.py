"""The Django app of the audit log."""

from django.apps import AppConfig
from typing_extensions import override


class AuditConfig(AppConfig):
    """Configuration of the app `audit`."""

    name = "gpuplatform.audit"
    label = "audit"
    verbose_name = "Audit"

    @override
    def ready(self) -> None:
        """Record the logins and the forms of the admin."""
        from gpuplatform.adminkit.lists.journal import register_observer
        from gpuplatform.audit.services.admin_entries import AdminAudit

        register_observer(AdminAudit())
