"""Views of the GPU specs that users can request."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

from django.db.models import QuerySet
from pydantic import Field
from rest_framework.request import Request
from rest_framework.response import Response

from gpuplatform.api.endpoint import Endpoint
from gpuplatform.api.pagination import mapped, paginate
from gpuplatform.api.query import PageQuery, Several, Word
from gpuplatform.api.schema import NullIfEmpty, Reply
from gpuplatform.api.views import ApiView
from gpuplatform.errors import NotFound
from gpuplatform.workloads.resources import GPU_RESOURCE
from inventory.models import GpuSpec
from units.selectors import spec_available, specs_available
from units.waiting import waits_of_specs

_TAG = "GPU specs"


class AvailableSpecsQuery(PageQuery):
    """Filters of the list of the GPU specs that users can request."""

    search: str | None = Field(
        default=None,
        max_length=63,
        description="Return only GPU specs whose name contains this text, ignoring case.",
    )
    product: Several[Word] = Field(
        default=(), description="Return only GPU specs that require one of these GPU products."
    )
    ready: Literal["true", "false"] | None = Field(
        default=None,
        description="Return only GPU specs with ready stock (`true`) or without (`false`).",
    )

    def applied_to(self, rows: QuerySet[GpuSpec]) -> QuerySet[GpuSpec]:
        """Return the rows of `specs_available` that match all filters."""
        wanted: dict[str, Any] = {"name__icontains": self.search, "product__in": self.product}
        given = {key: value for key, value in wanted.items() if value}
        if self.ready is not None:
            given |= {"ready__gt": 0} if self.ready == "true" else {"ready": 0}
        return rows.filter(**given)


class AvailableSpecReply(Reply):
    """A GPU spec that units and functions can request."""

    name: str = Field(
        description="Name of the GPU spec: the `specName` of units and functions.",
        examples=["h100-1g"],
    )
    description: str = Field(
        description="Human-readable description of the GPU spec.", examples=["One H100"]
    )
    gpu: int = Field(description="Number of GPUs of one unit.", examples=[1])
    product: Annotated[str | None, NullIfEmpty] = Field(
        description="GPU product of the GPUs; null for any GPU product.",
        examples=["NVIDIA-H100-80GB-HBM3"],
    )
    resource_name: str = Field(
        description="Extended resource that `gpu` counts.", examples=[GPU_RESOURCE]
    )
    cpu: Annotated[str | None, NullIfEmpty] = Field(
        description="CPU of one unit; null if no CPU is requested.", examples=["4"]
    )
    memory: Annotated[str | None, NullIfEmpty] = Field(
        description="Memory of one unit; null if no memory is requested.", examples=["16Gi"]
    )
    ready: int = Field(
        description="Number of ready stock units, which new units can claim now.", examples=[2]
    )
    estimate_seconds: Annotated[list[int], Field(min_length=2, max_length=2)] | None = Field(
        description="Estimated wait for a unit in seconds: the lower and the upper bound; null if"
        " it is unknown.",
        examples=[[0, 0]],
    )

    @classmethod
    def of_all(cls, rows: Sequence[Any]) -> list[Self]:
        """Return the responses for rows of `specs_available`."""
        waits = waits_of_specs({row.name: row.ready for row in rows})
        for row in rows:
            row.estimate_seconds = waits[row.name]
        return [cls.model_validate(row) for row in rows]


class AvailableSpecs(ApiView):
    """The view that lists the GPU specs that users can request."""

    @Endpoint(
        id="listAvailableGpuSpecs",
        summary="List the GPU specs that units and functions can request, newest first",
        tag=_TAG,
        query=AvailableSpecsQuery,
        replies={200: AvailableSpecReply},
    )
    def get(self, request: Request, *, query: AvailableSpecsQuery) -> Response:
        """Return one page of enabled GPU specs."""
        page = paginate(query.applied_to(specs_available()), query)
        return Response(mapped(page, AvailableSpecReply.of_all(page.rows)))


class AvailableSpecDetail(ApiView):
    """The view that returns a GPU spec that users can request."""

    @Endpoint(
        id="getAvailableGpuSpec",
        summary="Read a GPU spec that units and functions can request",
        tag=_TAG,
        replies={200: AvailableSpecReply},
        errors=[NotFound],
    )
    def get(self, request: Request, *, name: str) -> Response:
        """Return an enabled GPU spec."""
        [reply] = AvailableSpecReply.of_all([spec_available(name)])
        return Response(reply)
