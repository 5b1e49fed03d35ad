"""A GPU unit as its planner reads it, in either role. Pure."""

from dataclasses import dataclass

from gpuplatform.formats.resource import valid_spec
from gpuplatform.kube.kinds import Manifest
from gpuplatform.planning.view import ResourceView
from units.core.sources import SourceReference, source_in
from units.core.spec import GPUUnitSpec, parse_unit_spec
from units.phases import UnitReason, UnitRole, role_of


@dataclass(frozen=True, slots=True)
class UnitView(ResourceView):
    """A GPU unit whose spec is valid."""

    role: UnitRole
    source: SourceReference | None
    """The stock unit that it names as its source."""
    spec: GPUUnitSpec

    @classmethod
    def parse(cls, unit: Manifest, resource: ResourceView | None = None) -> "UnitView":
        """Return the view of a unit; `resource` is its view without the spec, if parsed already.

        Raises:
            InvalidSpec: its spec breaks a rule of one field.
        """
        known = ResourceView.of(unit) if resource is None else resource
        return UnitView(
            **known.columns(),
            role=role_of(known.namespace),
            source=source_in(known.annotations),
            spec=valid_spec(unit, parse_unit_spec),
        )

    @property
    def is_stock(self) -> bool:
        """Whether it is a stock unit."""
        return self.role == UnitRole.STOCK

    @property
    def has_service(self) -> bool:
        """Whether it is to have a Service: an active unit with ports."""
        return not self.is_stock and bool(self.spec.ports)

    @property
    def progress(self) -> UnitReason:
        """The reason while its pod is starting or changing."""
        return UnitReason.STOCK_NOT_READY if self.is_stock else UnitReason.UNIT_PROGRESSING
