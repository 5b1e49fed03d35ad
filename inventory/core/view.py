"""The parsed view of a stock pool that the planner reads. Pure."""

from dataclasses import dataclass

from gpuplatform.formats.resource import valid_spec
from gpuplatform.kube.kinds import Manifest
from gpuplatform.planning.view import ResourceView
from gpuplatform.workloads.template import PodTemplate
from inventory.core.spec import StockPoolSpec


@dataclass(frozen=True, slots=True)
class PoolView(ResourceView):
    """A stock pool whose spec is valid."""

    spec: StockPoolSpec

    @classmethod
    def parse(cls, pool: Manifest) -> "PoolView":
        """Return the view of a `StockPool` resource.

        Raises:
            InvalidSpec: If the spec is invalid.
        """
        known = ResourceView.of(pool)
        return PoolView(**known.columns(), spec=valid_spec(pool, StockPoolSpec.parse))

    @property
    def template(self) -> PodTemplate:
        """The template of the spec, or an empty template if the spec has none."""
        return self.spec.template or PodTemplate()
