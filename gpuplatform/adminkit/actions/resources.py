"""Base class of the pages of custom resources."""

import shlex
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

from django.http import HttpRequest
from typing_extensions import override

from gpuplatform.adminkit.actions.cluster_section import ClusterSectionAdmin
from gpuplatform.adminkit.actions.mirrors import (
    MirrorAdmin,
    mirror_badge,
    mirror_panel,
    mirror_since,
)
from gpuplatform.adminkit.detail.panels import (
    Comparison,
    Copy,
    Detail,
    Document,
    Fact,
    Related,
    condition_lines,
)
from gpuplatform.adminkit.display.text import as_yaml, visible
from gpuplatform.adminkit.display.timeline import Step, timeline
from gpuplatform.kube.fields import items, number
from gpuplatform.kube.kinds import ResourceKind
from gpuplatform.reconciliation.inspection import Subject
from gpuplatform.reconciliation.mirror import FAILED
from gpuplatform.reconciliation.models import MirrorRow


class ResourceAdmin(ClusterSectionAdmin, MirrorAdmin):
    """A list of custom resources, with a page for each of them."""

    resource_kind: ClassVar[ResourceKind]
    owner_label: ClassVar[str]
    """The label of owned objects whose value is the name of the resource."""

    @abstractmethod
    def deployment_of(self, row: Any) -> str:
        """Return the name of the Deployment and the Service that a resource owns."""

    def has_job(self, _row: Any) -> bool:
        """Return whether a Job with the same name may run the pods of a resource."""
        return False

    @override
    def subject(self, request: HttpRequest, row: Any) -> Subject | None:
        if row.deleted_at or not row.uid:
            return None
        return Subject(
            *(self.resource_kind, row.namespace, row.name, row.uid),
            *(self.owner_label, self.deployment_of(row), self.has_job(row)),
        )

    def resource_detail(
        self,
        row: Any,
        *,
        facts: Iterable[Fact],
        steps: Iterable[Step],
        comparisons: Iterable[Comparison],
        related: Sequence[Related],
    ) -> Detail:
        """Return the content of the page of a custom resource.

        The facts and comparisons that all resources have in common are added to the arguments.
        """
        return Detail(
            title=row.name,
            badge=mirror_badge(row),
            since=mirror_since(row),
            panel=mirror_panel(row, self.reasons, healthy=self.healthy_phases),
            facts=[fact for fact in (*facts, *_facts(row)) if fact.value],
            comparisons=() if row.deleted_at else [*comparisons, *_comparisons(row)],
            comparison_note=_comparison_note(row),
            timeline=timeline(steps),
            copies=list(_copies(row, self.resource_kind)),
            conditions=condition_lines(
                row.conditions, failed=row.phase == FAILED, cause=row.cause
            ),
            has_conditions=True,
            related=related,
            documents=(Document("Spec", visible(as_yaml(row.spec))),),
        )


def _facts(row: Any) -> Sequence[Fact]:
    return (
        Fact("Namespace", row.namespace),
        Fact("UID", row.uid),
        Fact("Tenant", row.tenant.name if row.tenant else ""),
        Fact.time("Requested", row.created_at),
        Fact.time("Last synced", row.last_sync_at),
        Fact.time("Deletion requested", row.deletion_requested_at),
        Fact.time("Deleted", row.deleted_at),
        Fact.time("Next check", row.due_at),
        Fact("Failed attempts", str(row.failures) if row.failures else ""),
    )


def _copies(row: Any, kind: ResourceKind) -> Iterator[Copy]:
    """Yield the name, the operationID and `kubectl` commands for a resource."""
    yield Copy("Name", visible(row.name))
    if row.operation:
        yield Copy("operationID", visible(row.operation.operation_id))
    name, kubectl = kind.kind.lower(), f"kubectl -n {shlex.quote(row.namespace)}"
    yield Copy("Describe", visible(f"{kubectl} describe {name} {shlex.quote(row.name)}"))
    ports = items(row.spec, "template", "ports")
    port = number(ports[0], "port") if ports else 0
    if row.service_name and port:
        service = f"service/{shlex.quote(row.service_name)}"
        yield Copy("Port-forward", visible(f"{kubectl} port-forward {service} {port}:{port}"))


def _comparisons(row: Any) -> Iterator[Comparison]:
    """Yield the comparisons that all resources have in common."""
    yield Comparison("Generation", str(row.generation), str(row.observed_generation))
    has_ports = bool(items(row.spec, "template", "ports"))
    if has_ports or row.service_name:
        actual = visible(row.service_name) or "none"
        is_equal = has_ports == bool(row.service_name)
        desired = actual if is_equal else "yes" if has_ports else "none"
        yield Comparison("Service", desired, actual)


def _comparison_note(row: MirrorRow) -> str:
    if row.deleted_at:
        return "The resource is deleted."
    if not row.uid:
        return "The resource is not in the cluster yet."
    if row.generation != row.observed_generation:
        return "The latest change of the spec is not reconciled yet."
    return ""
