"""Renders the data of a response as `{"data": …}` in JSON."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel
from rest_framework.renderers import JSONRenderer
from rest_framework.utils.encoders import JSONEncoder
from typing_extensions import override

from gpuplatform.api.pagination import MAX_PAGE_BYTES, Page
from gpuplatform.api.schema import Reply


class _Encoder(JSONEncoder):
    @override
    def default(self, obj: Any) -> Any:
        if isinstance(obj, BaseModel):
            without = obj.omitted() if isinstance(obj, Reply) else None
            return obj.model_dump(mode="json", by_alias=True, exclude=without)
        return super().default(obj)


class EnvelopeRenderer(JSONRenderer):
    """The renderer that wraps the data of a view in an envelope, which errors already have."""

    encoder_class = _Encoder

    @override
    def render(
        self,
        data: Any,
        accepted_media_type: str | None = None,
        renderer_context: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return the response body as JSON."""
        response = (renderer_context or {}).get("response")
        if data is not None and not getattr(response, "exception", False):
            data = {"data": data} if not isinstance(data, Page) else _envelope(data)
        return super().render(data, accepted_media_type, renderer_context)


def _envelope(page: Page[Any]) -> dict[str, Any]:
    """Return the envelope of a page, which ends early if its rows are large."""
    size = 0
    for number, row in enumerate(page.rows):
        if isinstance(row, BaseModel):
            size += len(row.__pydantic_serializer__.to_json(row, by_alias=True))
        if size > MAX_PAGE_BYTES:
            page = page.first(max(number, 1))
            break
    return {"data": page.rows, "page": {"next": page.next}}
