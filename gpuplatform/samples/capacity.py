"""Capacity as values: built by `units.capacity`, served by the API, and stored for the overview.

A stored document of another release is read as far as both know its fields.
"""

from collections.abc import Mapping, Sequence

from pydantic import BaseModel, ConfigDict


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class SpecCapacity(_Value):
    """The units of one GPU spec. Counts are units, except in `gpus`.

    At every instant `ready + claimed + starting + failed + deleting` is `total`.
    """

    name: str
    product: str = ""
    """GPU product; empty: any."""
    gpu: int = 0
    """GPUs of one unit."""
    is_catalogued: bool = True
    """Whether the catalogue has it; resources that a person creates may name any."""
    misfit: str = ""
    """Why no node can ever hold a unit of it, as a sentence; empty if one can."""
    is_enabled: bool = True
    warm_target: int = 0
    is_top_up_paused: bool = False
    free: int | None = None
    """Number of further units that the free GPUs of its product would hold; None if unknown."""
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
    """GPUs by what holds or wants them, a key for each of `units.capacity.USES`."""
    idle_gpu_seconds_day: int = 0
    """GPU-seconds that its ready stock held within the last day."""

    @property
    def total(self) -> int:
        """Number of stock units, in any state."""
        return self.seeded - self.consumed - self.deleted


class ProductCapacity(_Value):
    """The GPUs of one product, and what holds them."""

    name: str
    """Empty: nodes or specs without a product."""
    nodes: int = 0
    total: int = 0
    """GPUs that the nodes have; some may not be allocatable."""
    allocatable: int = 0
    free: int = 0
    """GPUs that nothing of the platform holds."""
    gpus: Mapping[str, int] = {}


class Capacity(_Value):
    """Capacity by GPU spec and by GPU product, and the number of rows in each phase."""

    specs: Sequence[SpecCapacity] = ()
    products: Sequence[ProductCapacity] | None = None
    """None if the nodes of the cluster are not known."""
    counts: Mapping[str, Mapping[str, int]] = {}
    """Rows by phase, by what they are, such as `stock`; only in a stored document."""
