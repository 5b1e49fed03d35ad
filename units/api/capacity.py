"""Response models of the inventory route."""

from typing import Annotated, Self

from pydantic import Field

from gpuplatform.api.schema import NullIfEmpty, Reply
from gpuplatform.samples.capacity import Capacity, ProductCapacity
from gpuplatform.workloads.resources import GPU_RESOURCE


class ProductCapacityReply(Reply):
    """The number of GPUs of a GPU product and a resource, by use.

    `free` + `ready` + `withheld` + `claimed` + `starting` + `failed` + `deleting` + `heldByPools`
    + `active` + `others` always equals `allocatable`.
    """

    product: str | None = Field(
        description="Value of the node label `nvidia.com/gpu.product`; null for nodes without it.",
        examples=["NVIDIA-H100-80GB-HBM3"],
    )
    resource_name: str = Field(
        description="Extended resource whose units are counted.", examples=[GPU_RESOURCE]
    )
    nodes: int = Field(description="Number of nodes with GPUs of this product.", examples=[3])
    allocatable: int = Field(description="Number of allocatable GPUs.", examples=[24])
    free: int = Field(description="Number of allocatable GPUs that no pod holds.", examples=[20])
    free_unschedulable: int = Field(
        description="Part of `free` on nodes that accept no pods.",
        examples=[0],
    )
    largest_free: int = Field(description="Largest number of free GPUs of one node.", examples=[8])
    held_by_pools: int = Field(description="Number of GPUs held by stock pools.", examples=[0])
    ready: int = Field(description="Number of GPUs held by ready stock units.", examples=[2])
    withheld: int = Field(description="Number of GPUs held by withheld stock units.", examples=[0])
    claimed: int = Field(description="Number of GPUs held by claimed stock units.", examples=[0])
    starting: int = Field(description="Number of GPUs held by starting stock units.", examples=[1])
    failed: int = Field(description="Number of GPUs held by failed stock units.", examples=[0])
    deleting: int = Field(
        description="Number of GPUs held by stock units that are being deleted.", examples=[0]
    )
    active: int = Field(
        description="Number of GPUs held by active units, and by the stock that they consumed.",
        examples=[1],
    )
    others: int = Field(description="Number of GPUs held by other programs.", examples=[0])
    excess: int = Field(
        description="Number of GPUs that pods hold beyond what their nodes offer.",
        examples=[0],
    )

    @classmethod
    def of(cls, product: ProductCapacity) -> Self:
        """Return the response for a GPU product."""
        return cls.model_validate(
            {**product.model_dump(), **product.gpus, "product": product.name or None}
        )


class SpecCapacityReply(Reply):
    """The number of units of a GPU spec, by state.

    `total` always equals `seeded` - `consumed` - `deleted`.
    """

    spec_name: str = Field(
        validation_alias="name", description="Name of the GPU spec.", examples=["h100-1g"]
    )
    product: Annotated[str | None, NullIfEmpty] = Field(
        description="GPU product of the GPU spec; null for any GPU product."
    )
    gpu: int = Field(description="Number of GPUs of one unit.", examples=[1])
    resource_name: str = Field(
        description="Extended resource that `gpu` counts.", examples=[GPU_RESOURCE]
    )
    is_catalogued: bool = Field(
        alias="catalogued",
        description="Whether the catalogue has the GPU spec. False if it was deleted, or if"
        " another client of the cluster named it.",
        examples=[True],
    )
    is_enabled: bool = Field(
        alias="enabled",
        description="Whether stock of the GPU spec can be seeded and claimed.",
        examples=[True],
    )
    warm_target: int = Field(
        description="Number of ready stock units that the platform maintains.", examples=[2]
    )
    is_top_up_paused: bool = Field(
        alias="topUpPaused",
        description="Whether the automatic top-up to the warm target is paused.",
        examples=[False],
    )
    free: int | None = Field(
        description="Number of additional units that the nodes would accept now; null if the"
        " number is unknown or a unit has no GPUs.",
        examples=[20],
    )
    held_by_pools: int = Field(
        validation_alias="pods_of_pools",
        description="Number of pods of stock pools with this GPU spec.",
        examples=[0],
    )
    ready: int = Field(description="Number of ready stock units.", examples=[2])
    withheld: int = Field(description="Number of withheld stock units.", examples=[0])
    claimed: int = Field(description="Number of claimed stock units.", examples=[0])
    starting: int = Field(description="Number of starting stock units.", examples=[1])
    failed: int = Field(description="Number of failed stock units.", examples=[0])
    deleting: int = Field(
        description="Number of stock units that are being deleted.", examples=[0]
    )
    active: int = Field(
        description="Number of active units, including stopped units.", examples=[1]
    )
    wanted: int = Field(
        description="Number of requested GPUs that no node holds.",
        examples=[0],
    )
    seeded: int = Field(
        description="Number of requested stock units. Deleted units are counted for 30 days.",
        examples=[4],
    )
    consumed: int = Field(description="Number of seeded units that were consumed.", examples=[1])
    deleted: int = Field(
        description="Number of seeded units that were deleted without being consumed.",
        examples=[0],
    )
    total: int = Field(description="Number of existing stock units in any state.", examples=[3])


class CapacityReply(Reply):
    """The capacity at the time of the request."""

    products: list[ProductCapacityReply] | None = Field(
        description="Capacity by GPU product; null if no node has been observed yet."
    )
    specs: list[SpecCapacityReply] = Field(description="Capacity by GPU spec.")

    @classmethod
    def of(cls, capacity: Capacity) -> Self:
        """Return the response for a capacity."""
        products = capacity.products
        return cls(
            products=None if products is None else [*map(ProductCapacityReply.of, products)],
            specs=[*map(SpecCapacityReply.model_validate, capacity.specs)],
        )
