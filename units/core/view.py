"""The parsed view of a GPU unit that the planner reads, in either role. Pure."""

from dataclasses import dataclass

from gpuplatform.formats.resource import valid_spec
from gpuplatform.kube.kinds import Manifest
from gpuplatform.planning.view import ResourceView
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
        return UnitView(
            **known.columns(),
            role=role_of(known.namespace),
            source=source_in(known.annotations),
            spec=valid_spec(unit, GPUUnitSpec.parse),
        )

    @property
    def is_stock(self) -> bool:
        """Whether the unit is a stock unit."""
        return self.role == UnitRole.STOCK

    @property
    def has_service(self) -> bool:
        """Whether the unit needs a Service, which is the case for an active unit with ports."""
        return not self.is_stock and bool(self.spec.ports)

    @property
    def progress(self) -> UnitReason:
        """The reason of the unit while its pod is starting or changing."""
        return UnitReason.STOCK_NOT_READY if self.is_stock else UnitReason.UNIT_PROGRESSING
