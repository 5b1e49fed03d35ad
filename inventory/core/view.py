"""A stock pool as its planner reads it. Pure."""

from dataclasses import dataclass

from gpuplatform.formats.resource import valid_spec
from gpuplatform.kube.kinds import Manifest
from gpuplatform.planning.view import ResourceView
from gpuplatform.workloads.template import PodTemplate
from inventory.core.spec import StockPoolSpec, parse_spec


@dataclass(frozen=True, slots=True)
class PoolView(ResourceView):
    """A stock pool whose spec is valid."""

    spec: StockPoolSpec

    @classmethod
    def parse(cls, pool: Manifest, resource: ResourceView | None = None) -> "PoolView":
        """Return the view of a pool; `resource` is its view without the spec, if parsed already.

        Raises:
            InvalidSpec: its spec breaks a rule.
        """
        known = ResourceView.of(pool) if resource is None else resource
        return PoolView(**known.columns(), spec=valid_spec(pool, parse_spec))

    @property
    def template(self) -> PodTemplate:
        """The template of the spec; an empty one where it has none."""
        return self.spec.template or PodTemplate()
