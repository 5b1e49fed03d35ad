"""The bodies of changes of tenants. Pure."""

from pydantic import Field

from gpuplatform.formats.priority import MAX_PRIORITY
from gpuplatform.formats.request import OperationBody


class PriorityLimit(OperationBody):
    """The change of the priority limit of a tenant."""

    max_priority: int = Field(
        alias="maxPriority",
        ge=0,
        le=MAX_PRIORITY,
        description="Largest priority that requests of the tenant may have in the capacity queue.",
        examples=[0],
    )
