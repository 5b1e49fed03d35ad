"""What the capacity looks like from outside."""

from typing import Self

from pydantic import Field

from gpuplatform.api.schema import Reply
from gpuplatform.samples.capacity import Capacity, ProductCapacity, SpecCapacity


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
    def of(cls, product: ProductCapacity) -> Self:
        """Return the reply for a product."""
        return cls.model_validate(
            {**product.model_dump(), **product.gpus, "product": product.name or None}
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
    def of(cls, spec: SpecCapacity) -> Self:
        """Return the reply for a spec."""
        return cls.model_validate(
            {
                **spec.model_dump(),
                "spec_name": spec.name,
                "product": spec.product or None,
                "enabled": spec.is_enabled,
                "top_up_paused": spec.is_top_up_paused,
                "held_by_pools": spec.pods_of_pools,
                "total": spec.total,
            }
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
        return cls(
            products=None if products is None else [*map(ProductCapacityReply.of, products)],
            specs=[*map(SpecCapacityReply.of, capacity.specs)],
        )
