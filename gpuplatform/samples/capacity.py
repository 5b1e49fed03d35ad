"""The capacity as it is kept for pages: written by the sampler, read by the overview.

A document of another release reads as far as both know it.
"""

from collections.abc import Mapping, Sequence

from pydantic import BaseModel, ConfigDict


class _Kept(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class SpecSeen(_Kept):
    """How the units of a GPU spec stand. Counts are units, except in `gpus`."""

    name: str
    product: str = ""
    gpu: int = 0
    """GPUs of one unit."""
    is_catalogued: bool = True
    """Whether the catalogue has it; pools may name any."""
    misfit: str = ""
    """Why no node can ever hold a unit of it; empty where one can."""
    is_enabled: bool = True
    warm_target: int = 0
    is_top_up_paused: bool = False
    ready: int = 0
    claimed: int = 0
    starting: int = 0
    failed: int = 0
    deleting: int = 0
    active: int = 0
    pods_of_pools: int = 0
    gpus: Mapping[str, int] = {}
    """GPUs by what holds them."""
    idle_gpu_seconds_hour: int = 0
    idle_gpu_seconds_day: int = 0
    """GPU-seconds that its ready stock held within an hour, and within a day."""


class ProductSeen(_Kept):
    """Who has the GPUs of a product."""

    name: str
    """Empty: nodes or specs that name none."""
    nodes: int = 0
    total: int = 0
    """GPUs that are built in."""
    allocatable: int = 0
    free: int = 0
    gpus: Mapping[str, int] = {}


class CapacitySeen(_Kept):
    """Both views, and how many rows are in each phase."""

    specs: Sequence[SpecSeen] = ()
    products: Sequence[ProductSeen] | None = None
    """None when the cluster did not say which nodes it has."""
    counts: Mapping[str, Mapping[str, int]] = {}
    """Rows by phase, by a name of the rows such as `stock`."""
