"""URLs of the API of the audit log."""

from django.urls import path

from gpuplatform.audit.api.views import AuditEntries, AuditLog

urlpatterns = [
    path("operator/audit", AuditLog.as_view(), name="operator-audit"),
    path("operator/audit/entries", AuditEntries.as_view(), name="operator-audit-entries"),
]
