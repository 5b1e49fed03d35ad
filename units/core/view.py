"""The parsed view of a GPU unit that the planner reads, in either role. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from gpuplatform.errors import FieldError
from gpuplatform.formats.model import invalid_spec
from gpuplatform.formats.names import DNS_SUBDOMAIN, SUBDOMAIN_MAX
from gpuplatform.formats.resource import valid_spec
from gpuplatform.kube.kinds import Manifest
from gpuplatform.planning.view import ResourceView
from gpuplatform.workloads.template import MUST_RESTART
from units.core.names import AVOIDED_NODE_ANNOTATION, PREFERRED_NODE_ANNOTATION
from units.core.sources import SourceReference, source_in
from units.core.spec import GPUUnitSpec
from units.phases import UnitReason, UnitRole, role_of


@dataclass(frozen=True, slots=True)
class UnitView(ResourceView):
    """A GPU unit whose spec is valid."""

    role: UnitRole
    source: SourceReference | None
    """The stock unit that the unit names as its hand-over source."""
    spec: GPUUnitSpec

    @classmethod
    def parse(cls, unit: Manifest) -> "UnitView":
        """Return the view of a `GPUUnit` resource.

        Raises:
            InvalidSpec: If the spec is invalid.
        """
        known = ResourceView.of(unit)
        view = UnitView(
            **known.columns(),
            role=role_of(known.namespace),
            source=source_in(known.annotations),
            spec=valid_spec(unit, GPUUnitSpec.parse),
        )
        if view.may_end and view.is_stock:
            raise invalid_spec([FieldError("spec.template.restart", MUST_RESTART)])
        return view

    @property
    def is_stock(self) -> bool:
        """Whether the unit is a stock unit."""
        return self.role == UnitRole.STOCK

    @property
    def may_end(self) -> bool:
        """Whether the program of the unit may end, so that the unit has a Job."""
        return self.spec.template is not None and self.spec.template.may_end

    @property
    def avoided_node(self) -> str:
        """The node that the pods must avoid, or an empty string."""
        return avoided_node_in(self.annotations)

    @property
    def preferred_node(self) -> str:
        """The node on which the pod starts without an image pull, or an empty string."""
        return _node_in(self.annotations, PREFERRED_NODE_ANNOTATION)

    @property
    def has_service(self) -> bool:
        """Whether the unit needs a Service: an active unit with ports, or of a group."""
        return not self.is_stock and bool(self.spec.ports or self.spec.group)

    @property
    def progress(self) -> UnitReason:
        """The reason of the unit while its pod is starting or changing."""
        return UnitReason.STOCK_NOT_READY if self.is_stock else UnitReason.UNIT_PROGRESSING


def avoided_node_in(annotations: Mapping[str, object]) -> str:
    """Return the node that annotations name as avoided, or an empty string if none is valid."""
    return _node_in(annotations, AVOIDED_NODE_ANNOTATION)


def _node_in(annotations: Mapping[str, object], key: str) -> str:
    # Any client can write annotations, and the API server rejects an invalid name.
    name = annotations.get(key)
    is_name = isinstance(name, str) and len(name) <= SUBDOMAIN_MAX
    return str(name) if is_name and re.fullmatch(DNS_SUBDOMAIN, str(name)) else ""
