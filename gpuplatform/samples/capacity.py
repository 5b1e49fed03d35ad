"""Values of the capacity. `units.capacity` computes them; the API and the overview show them.

Unknown fields in a stored document of another release are ignored.
"""

from collections.abc import Mapping, Sequence

from pydantic import BaseModel, ConfigDict

from gpuplatform.workloads.resources import GPU_RESOURCE


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class SpecCapacity(_Value):
    """The capacity of one GPU spec, in numbers of units except in `gpus`.

    `ready + withheld + claimed + starting + failed + deleting` always equals `total`.
    """

    name: str
    product: str = ""
    """The GPU product, or an empty string for any product."""
    gpu: int = 0
    """Number of GPUs of one unit."""
    resource_name: str = GPU_RESOURCE
    """The extended resource that `gpu` counts."""
    is_catalogued: bool = True
    """Whether the catalogue contains the spec. Resources created with kubectl can name any."""
    misfit: str = ""
    """Sentence that explains why no node can run a unit, or an empty string if a node can."""
    is_enabled: bool = True
    warm_target: int = 0
    is_top_up_paused: bool = False
    free: int | None = None
    """Number of further units that the nodes would accept now, `None` if unknown."""
    ready: int = 0
    withheld: int = 0
    claimed: int = 0
    starting: int = 0
    failed: int = 0
    deleting: int = 0
    active: int = 0
    seeded: int = 0
    consumed: int = 0
    deleted: int = 0
    pods_of_pools: int = 0
    gpus_by_resource: Mapping[str, Mapping[str, int]] = {}
    """Number of GPUs that pods hold on nodes, by use, by resource. The uses are
    `units.capacity.SPEC_USES`. Units keep their resource when the catalogue changes, so that a
    spec can have several."""
    wanted_by_resource: Mapping[str, int] = {}
    """Number of GPUs that are requested and that no node holds, by resource."""
    idle_gpu_seconds_day: int = 0
    """GPU-seconds for which ready stock was idle within the last day."""

    @property
    def gpus(self) -> Mapping[str, int]:
        """Number of GPUs of the resource of the spec, by use."""
        return self.gpus_by_resource.get(self.resource_name, {})

    @property
    def wanted(self) -> int:
        """Number of requested GPUs of the resource of the spec that no node holds."""
        return self.wanted_by_resource.get(self.resource_name, 0)

    @property
    def total(self) -> int:
        """Number of stock units in any state."""
        return self.seeded - self.consumed - self.deleted


class ProductCapacity(_Value):
    """The capacity of one resource of one GPU product, in numbers of GPUs except in `nodes`.

    `free` and the sum of `gpus` always equal `allocatable`.
    """

    name: str
    """The product, which is a label of the nodes; an empty string for nodes without the label."""
    resource_name: str = GPU_RESOURCE
    """The extended resource whose units are counted."""
    nodes: int = 0
    total: int = 0
    """Number of GPUs of the nodes, including GPUs that are not allocatable."""
    allocatable: int = 0
    free: int = 0
    """Number of allocatable GPUs that no pod holds."""
    free_unschedulable: int = 0
    """The part of `free` on nodes that accept no pods, for example cordoned ones."""
    largest_free: int = 0
    """Largest number of free GPUs of one node that accepts pods."""
    gpus: Mapping[str, int] = {}
    """Number of GPUs that pods hold, by use. The uses are `units.capacity.USES`."""
    excess: int = 0
    """Number of GPUs that pods hold beyond what their nodes offer."""


class Capacity(_Value):
    """Capacity by GPU spec and by GPU product, and the number of rows by phase."""

    specs: Sequence[SpecCapacity] = ()
    products: Sequence[ProductCapacity] | None = None
    """The products, or `None` if the nodes of the cluster are unknown."""
    counts: Mapping[str, Mapping[str, int]] = {}
    """Number of rows by phase, by kind of row such as `stock`. Only in stored documents."""
