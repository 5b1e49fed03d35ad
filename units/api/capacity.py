"""What the capacity looks like from outside."""

from collections.abc import Mapping
from typing import Self

from pydantic import Field

from gpuplatform.api.schema import Reply
from units.capacity import Capacity, ProductStanding, SpecStanding


class ProductCapacityReply(Reply):
    """The GPUs of one product, and who has them. Counts are GPUs; each is counted once."""

    product: str | None = Field(
        description="The node label nvidia.com/gpu.product; null: nodes and specs without one.",
        examples=["NVIDIA-H100-80GB-HBM3"],
    )
    nodes: int = Field(description="Nodes that have some.", examples=[3])
    allocatable: int = Field(description="GPUs that the nodes offer.", examples=[24])
    free: int = Field(description="GPUs that nothing of the platform holds.", examples=[20])
    held_by_pools: int = Field(description="Held by pods of stock pools.", examples=[0])
    ready: int = Field(description="Held by stock that can be handed over.", examples=[2])
    claimed: int = Field(description="Held by stock that is set aside.", examples=[0])
    starting: int = Field(description="Wanted by stock that is being made.", examples=[1])
    failed: int = Field(description="Wanted by stock that could not be made.", examples=[0])
    deleting: int = Field(description="Held by stock that is being removed.", examples=[0])
    active: int = Field(description="Held by units that are not stopped.", examples=[1])

    @classmethod
    def of(cls, product: ProductStanding) -> Self:
        """Return the reply for a product."""
        return cls(
            product=product.name or None,
            nodes=product.nodes,
            allocatable=product.allocatable,
            free=product.free,
            **product.gpus,
        )


class SpecCapacityReply(Reply):
    """The units of one GPU spec. `total` is `seeded` less `consumed` less `deleted`, always."""

    spec_name: str = Field(description="The GPU spec.", examples=["g1.1"])
    product: str | None = Field(description="Its GPU product; null: any.")
    gpu: int = Field(description="GPUs of one unit.", examples=[1])
    enabled: bool = Field(description="Whether anything is claimed or seeded of it.")
    warm_target: int = Field(description="How many ready stock units are kept.", examples=[2])
    top_up_paused: bool = Field(description="Whether the warm target is left alone for now.")
    free: int | None = Field(
        description="How many more units the free GPUs of its product would take; null when that"
        " is not known or does not depend on GPUs.",
        examples=[20],
    )
    held_by_pools: int = Field(description="Pods of stock pools; never units.", examples=[0])
    ready: int = Field(description="Stock that can be handed over.", examples=[2])
    claimed: int = Field(description="Stock set aside for an open operation.", examples=[0])
    starting: int = Field(description="Stock that is being made.", examples=[1])
    failed: int = Field(description="Stock that could not be made.", examples=[0])
    deleting: int = Field(description="Stock that is being removed.", examples=[0])
    active: int = Field(description="Units in use or stopped.", examples=[1])
    seeded: int = Field(description="Stock ever accepted; 30 days are remembered.", examples=[4])
    consumed: int = Field(description="Of it: taken by units.", examples=[1])
    deleted: int = Field(description="Of it: removed unused.", examples=[0])
    total: int = Field(description="Stock that there is, in any state.", examples=[3])

    @classmethod
    def of(cls, spec: SpecStanding, free_gpus: Mapping[str, int]) -> Self:
        """Return the reply for a spec, of whose product so many GPUs are free."""
        counts, entry = spec.counts, spec.entry
        gpu = entry.gpu if entry else 0
        free = free_gpus.get(spec.product)
        return cls(
            spec_name=spec.name,
            product=spec.product or None,
            gpu=gpu,
            enabled=entry is None or entry.is_enabled,
            warm_target=entry.warm_target if entry else 0,
            top_up_paused=entry is not None and entry.is_top_up_paused,
            free=free // gpu if gpu and free is not None else None,
            held_by_pools=spec.pods_of_pools,
            ready=counts.ready,
            claimed=counts.claimed,
            starting=counts.starting,
            failed=counts.failed,
            deleting=counts.deleting,
            active=counts.active,
            seeded=counts.seeded,
            consumed=counts.consumed,
            deleted=counts.deleted,
            total=counts.total,
        )


class CapacityReply(Reply):
    """The capacity at one moment."""

    products: list[ProductCapacityReply] | None = Field(
        description="By GPU product; null when the cluster does not say which nodes it has."
    )
    specs: list[SpecCapacityReply] = Field(description="By GPU spec.")

    @classmethod
    def of(cls, capacity: Capacity) -> Self:
        """Return the reply for a capacity."""
        products = capacity.products
        free = {product.name: product.free for product in products or ()}
        return cls(
            products=None
            if products is None
            else [ProductCapacityReply.of(product) for product in products],
            specs=[SpecCapacityReply.of(spec, free) for spec in capacity.specs],
        )
