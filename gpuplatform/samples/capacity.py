"""Values of the capacity. `units.capacity` computes them; the API and the overview show them.

Unknown fields in a stored document of another release are ignored.
"""

from collections.abc import Mapping, Sequence

from pydantic import BaseModel, ConfigDict


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class SpecCapacity(_Value):
    """The capacity of one GPU spec, in numbers of units except in `gpus`.

    `ready + claimed + starting + failed + deleting` always equals `total`.
    """

    name: str
    product: str = ""
    """The GPU product, or an empty string for any product."""
    gpu: int = 0
    """Number of GPUs of one unit."""
    is_catalogued: bool = True
    """Whether the catalogue contains the spec. Resources created with kubectl can name any."""
    misfit: str = ""
    """Sentence that explains why no node can run a unit, or an empty string if a node can."""
    is_enabled: bool = True
    warm_target: int = 0
    is_top_up_paused: bool = False
    free: int | None = None
    """Number of further units that fit the free GPUs of the product, `None` if unknown."""
    ready: int = 0
    claimed: int = 0
    starting: int = 0
    failed: int = 0
    deleting: int = 0
    active: int = 0
    seeded: int = 0
    consumed: int = 0
    deleted: int = 0
    pods_of_pools: int = 0
    gpus: Mapping[str, int] = {}
    """Number of GPUs by use. The keys are `units.capacity.USES`."""
    idle_gpu_seconds_day: int = 0
    """GPU-seconds for which ready stock was idle within the last day."""

    @property
    def total(self) -> int:
        """Number of stock units in any state."""
        return self.seeded - self.consumed - self.deleted


class ProductCapacity(_Value):
    """The capacity of one GPU product, in numbers of GPUs except in `nodes`."""

    name: str
    """The product, or an empty string for nodes and specs without a product."""
    nodes: int = 0
    total: int = 0
    """Number of GPUs of the nodes, including GPUs that are not allocatable."""
    allocatable: int = 0
    free: int = 0
    """Number of GPUs that no pod of the platform holds."""
    gpus: Mapping[str, int] = {}


class Capacity(_Value):
    """Capacity by GPU spec and by GPU product, and the number of rows by phase."""

    specs: Sequence[SpecCapacity] = ()
    products: Sequence[ProductCapacity] | None = None
    """The products, or `None` if the nodes of the cluster are unknown."""
    counts: Mapping[str, Mapping[str, int]] = {}
    """Number of rows by phase, by kind of row such as `stock`. Only in stored documents."""
