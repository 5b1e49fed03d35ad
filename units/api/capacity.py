"""Replies about capacity."""

from typing import Self

from pydantic import Field

from gpuplatform.api.schema import Reply
from gpuplatform.samples.capacity import Capacity, ProductCapacity, SpecCapacity


class ProductCapacityReply(Reply):
    """The GPUs of one product and what holds them. Counts are GPUs; each is counted once."""

    product: str | None = Field(
        description="Value of the node label `nvidia.com/gpu.product`; null: nodes and specs"
        " without one.",
        examples=["NVIDIA-H100-80GB-HBM3"],
    )
    nodes: int = Field(description="Number of nodes with GPUs of the product.", examples=[3])
    allocatable: int = Field(description="GPUs that the nodes offer.", examples=[24])
    free: int = Field(description="GPUs that no pool and no unit holds.", examples=[20])
    held_by_pools: int = Field(description="GPUs held by pods of stock pools.", examples=[0])
    ready: int = Field(description="GPUs held by ready stock.", examples=[2])
    claimed: int = Field(description="GPUs held by claimed stock.", examples=[0])
    starting: int = Field(description="GPUs requested by stock that is starting.", examples=[1])
    failed: int = Field(description="GPUs requested by stock that has failed.", examples=[0])
    deleting: int = Field(description="GPUs held by stock that is being deleted.", examples=[0])
    active: int = Field(description="GPUs held by units that are not stopped.", examples=[1])

    @classmethod
    def of(cls, product: ProductCapacity) -> Self:
        """Return the reply for a product."""
        return cls.model_validate(
            {**product.model_dump(), **product.gpus, "product": product.name or None}
        )


class SpecCapacityReply(Reply):
    """The units of one GPU spec. `total` is always `seeded` - `consumed` - `deleted`."""

    spec_name: str = Field(description="Name of the GPU spec.", examples=["h100-1g"])
    product: str | None = Field(description="GPU product of the spec; null: any.")
    gpu: int = Field(description="GPUs of a unit.", examples=[1])
    enabled: bool = Field(
        description="Whether stock of the spec is seeded and claimed.", examples=[True]
    )
    warm_target: int = Field(
        description="Number of ready stock units that the platform maintains.", examples=[2]
    )
    top_up_paused: bool = Field(
        description="Whether the platform ignores the warm target for now.", examples=[False]
    )
    free: int | None = Field(
        description="Number of further units that fit the free GPUs of the product; null if it is"
        " unknown or the spec has no GPUs.",
        examples=[20],
    )
    held_by_pools: int = Field(description="Pods of stock pools.", examples=[0])
    ready: int = Field(description="Ready stock units.", examples=[2])
    claimed: int = Field(
        description="Stock units that an open operation has claimed.", examples=[0]
    )
    starting: int = Field(description="Stock units that are starting.", examples=[1])
    failed: int = Field(description="Stock units that have failed.", examples=[0])
    deleting: int = Field(description="Stock units that are being deleted.", examples=[0])
    active: int = Field(description="Active units, including stopped ones.", examples=[1])
    seeded: int = Field(description="Stock units accepted in the last 30 days.", examples=[4])
    consumed: int = Field(description="Seeded stock units that were consumed.", examples=[1])
    deleted: int = Field(
        description="Seeded stock units that were deleted without being consumed.", examples=[0]
    )
    total: int = Field(description="Existing stock units in any state.", examples=[3])

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
        description="Capacity by GPU product; null while the cluster's nodes are unknown."
    )
    specs: list[SpecCapacityReply] = Field(description="Capacity by GPU spec.")

    @classmethod
    def of(cls, capacity: Capacity) -> Self:
        """Return the reply for a capacity."""
        products = capacity.products
        return cls(
            products=None if products is None else [*map(ProductCapacityReply.of, products)],
            specs=[*map(SpecCapacityReply.of, capacity.specs)],
        )
