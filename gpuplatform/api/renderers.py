"""What a reply looks like: `{"data": …}`, as JSON or in a page that a person can post from."""

import json
import re
import secrets
from collections.abc import Mapping
from typing import Any, Final

from django import forms
from django.utils.html import format_html
from django.utils.safestring import SafeString
from pydantic import BaseModel
from rest_framework.renderers import BrowsableAPIRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.utils.encoders import JSONEncoder
from rest_framework.views import APIView
from typing_extensions import override

from gpuplatform.api.endpoint import endpoint_of
from gpuplatform.api.pagination import Page

_ADDRESS: Final = re.compile(r'(?<=")((?:https?:/|/api)/[^\s"\\]+)(?=")')


class _Encoder(JSONEncoder):
    @override
    def default(self, obj: Any) -> Any:
        if isinstance(obj, BaseModel):
            return obj.model_dump(mode="json", by_alias=True)
        return super().default(obj)


class EnvelopeRenderer(JSONRenderer):
    """Wraps what a view returns; an error is an envelope already."""

    encoder_class = _Encoder

    @override
    def render(
        self,
        data: Any,
        accepted_media_type: str | None = None,
        renderer_context: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return the reply as JSON."""
        response = (renderer_context or {}).get("response")
        if data is not None and not getattr(response, "exception", False):
            data = _envelope(data)
        return super().render(data, accepted_media_type, renderer_context)


class FormRenderer(BrowsableAPIRenderer):
    """DRF's page for browsers, with the body's example in the raw form."""

    @override
    def get_content(
        self, renderer: Any, data: Any, accepted_media_type: Any, renderer_context: Any
    ) -> SafeString:
        """Return the reply; values that are addresses lead there."""
        text = super().get_content(renderer, data, accepted_media_type, renderer_context)
        return _with_links(str(text))

    @override
    def get_rendered_html_form(
        self, data: Any, view: APIView, method: str, request: Request
    ) -> Any:
        """Offer no form of fields, and no delete button: it could carry no operationID."""
        return method == "OPTIONS" or None

    @override
    def get_raw_data_form(
        self, data: Any, view: APIView, method: str, request: Request
    ) -> forms.Form | None:
        """Return the form whose text is a valid body for `method`."""
        endpoint = endpoint_of(view, method)
        if endpoint is None or endpoint.body is None:
            return None
        media_type = view.parser_classes[0].media_type
        operation_id = f"{endpoint.operation_id_prefix}-{secrets.token_hex(4)}"
        example = endpoint.request_example(operation_id)
        return _raw_form(str(media_type), json.dumps(example, indent=4, ensure_ascii=False))


def _with_links(text: str) -> SafeString:
    """Return JSON as HTML; only a whole value is an address, a host in a sentence is none."""
    link = '<a href="{0}" rel="nofollow noreferrer">{0}</a>'
    parts = _ADDRESS.split(text)
    shown = (format_html(link if place % 2 else "{}", part) for place, part in enumerate(parts))
    return SafeString("".join(shown))


def _envelope(data: Any) -> dict[str, Any]:
    if isinstance(data, Page):
        return {"data": data.rows, "page": {"next": data.next}}
    return {"data": data}


def _raw_form(media_type: str, text: str) -> forms.Form:
    """Return the form that DRF's scripts send as a body; the names of its fields are theirs."""
    form = forms.Form()
    form.fields["_content_type"] = forms.ChoiceField(
        label="Media type",
        choices=[(media_type, media_type)],
        initial=media_type,
        widget=forms.Select(attrs={"data-override": "content-type"}),
    )
    form.fields["_content"] = forms.CharField(
        label="Content",
        widget=forms.Textarea(attrs={"data-override": "content", "rows": 24}),
        initial=text,
        required=False,
    )
    return form
