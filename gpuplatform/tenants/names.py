"""The names of operations and tasks on tenants, and the reasons for which the operations wait."""

from enum import StrEnum
from typing import Final

from gpuplatform.lifecycle.explanations import ExplainedReason, Explanation, explanations

TENANT_KIND: Final = "Tenant"
"""Object kind of tenants in operations. It is not a Kubernetes kind."""


class TenantOperation(StrEnum):
    """The kinds of operation on tenants."""

    CREATE = "tenant.create"
    UPDATE = "tenant.update"
    SUSPEND = "tenant.suspend"
    RESUME = "tenant.resume"
    DELETE = "tenant.delete"


class TenantTask(StrEnum):
    """Names of the Celery tasks of this app."""

    PRUNE = "tenants.prune_tenants"


class TenantWait(ExplainedReason):
    """Reasons for which operations on tenants wait, in addition to the general reasons."""

    NAMESPACE_TERMINATING = (
        "NamespaceTerminating",
        Explanation(
            "The cluster is deleting the namespace of the tenant with all objects in it.",
            "Wait. If the deletion takes too long, find the object with a finalizer:"
            " `kubectl get namespace NAME -o yaml` names it in the conditions.",
        ),
    )


TENANT_WAITS = explanations(TenantWait)
"""The explanation and the next step of each reason."""
