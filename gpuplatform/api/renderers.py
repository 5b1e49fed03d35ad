"""Renders the data of a response as `{"data": …}` in JSON."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel
from rest_framework.renderers import JSONRenderer
from rest_framework.utils.encoders import JSONEncoder
from typing_extensions import override

from gpuplatform.api.pagination import Page


class _Encoder(JSONEncoder):
    @override
    def default(self, obj: Any) -> Any:
        if isinstance(obj, BaseModel):
            return obj.model_dump(mode="json", by_alias=True)
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
            data = _envelope(data)
        return super().render(data, accepted_media_type, renderer_context)


def _envelope(data: Any) -> dict[str, Any]:
    if isinstance(data, Page):
        return {"data": data.rows, "page": {"next": data.next}}
    return {"data": data}
