"""Renders the data of a response as `{"data": …}` in JSON."""

import json
from collections.abc import Mapping
from typing import Any

from rest_framework.renderers import JSONRenderer
from rest_framework.utils.encoders import JSONEncoder
from typing_extensions import override

from gpuplatform.api.pagination import MAX_PAGE_BYTES, Page
from gpuplatform.api.schema import PartialReply, Reply


class _Encoder(JSONEncoder):
    @override
    def default(self, obj: Any) -> Any:
        if isinstance(obj, Reply):
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
        context = renderer_context or {}
        if isinstance(data, Page):
            content = _page(data)
            if not self.get_indent(accepted_media_type or "", context):
                return content
            data = json.loads(content)
        elif data is not None and not getattr(context.get("response"), "exception", False):
            data = {"data": data}
        return super().render(data, accepted_media_type, renderer_context)


def _page(page: Page[Any]) -> bytes:
    """Return the envelope of a page in JSON. The page ends early if its rows are large."""
    rows: list[bytes] = []
    size = 0
    for number, reply in enumerate(page.rows):
        row = _json(reply)
        size += len(row)
        if size > MAX_PAGE_BYTES and number:
            page = page.first(number)
            break
        rows.append(row)
    info = json.dumps({"next": page.next}, separators=(",", ":")).encode()
    return b'{"data":[' + b",".join(rows) + b'],"page":' + info + b"}"


def _json(reply: Reply | PartialReply) -> bytes:
    """Return a row in JSON, which pydantic serializes faster than the encoder of the renderer.

    Like the renderer of REST framework, this escapes the characters that end lines in JavaScript.
    """
    if isinstance(reply, PartialReply):
        model, omitted = reply.reply, set(reply.omitted)
    else:
        model, omitted = reply, set[str]()
    content = model.__pydantic_serializer__.to_json(model, by_alias=True, exclude=omitted)
    return content.replace("\u2028".encode(), b"\\u2028").replace("\u2029".encode(), b"\\u2029")
