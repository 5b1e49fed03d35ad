"""HTML pages of the API for browsers: the JSON response, links, and a form for each method."""

import json
import re
import secrets
from dataclasses import dataclass
from typing import Any, Final

from django import forms
from django.utils.html import format_html
from django.utils.safestring import SafeString
from rest_framework.exceptions import APIException
from rest_framework.renderers import BrowsableAPIRenderer
from rest_framework.request import Request, override_method
from rest_framework.views import APIView
from typing_extensions import override

from gpuplatform.api.endpoint import Endpoint, endpoint_of
from gpuplatform.api.links import links_of
from gpuplatform.errors import PlatformError

_ADDRESS: Final = re.compile(r'(?<=")((?:https?:/|/api)/[^\s"\\]+)(?=")')


@dataclass(frozen=True, slots=True)
class QueryField:
    """A query parameter as an input of the DELETE form."""

    name: str
    value: str
    description: str
    is_required: bool


class FormRenderer(BrowsableAPIRenderer):
    """The renderer of HTML pages, based on the `Endpoint` declarations of a view."""

    @override
    def get_context(
        self, data: Any, accepted_media_type: Any, renderer_context: Any
    ) -> dict[str, Any]:
        """Return the template context with the links and the fields of the DELETE form."""
        context = super().get_context(data, accepted_media_type, renderer_context)
        request, view = renderer_context["request"], renderer_context["view"]
        is_error = renderer_context["response"].exception
        return {
            **context,
            "links": () if is_error else links_of(request, data),
            "delete_fields": self._delete_fields(view, request),
        }

    @override
    def get_content(
        self, renderer: Any, data: Any, accepted_media_type: Any, renderer_context: Any
    ) -> SafeString:
        """Return the response as HTML in which each URL is a link."""
        text = super().get_content(renderer, data, accepted_media_type, renderer_context)
        return _with_links(str(text))

    @override
    def get_rendered_html_form(
        self, data: Any, view: APIView, method: str, request: Request
    ) -> Any:
        """Return true for OPTIONS, to show its button, and no form with an input per field."""
        return method == "OPTIONS" or None

    @override
    def get_raw_data_form(
        self, data: Any, view: APIView, method: str, request: Request
    ) -> forms.Form | None:
        """Return the form that contains a valid request body for `method`."""
        endpoint = endpoint_of(view, method)
        if endpoint is None or endpoint.body is None or not _is_allowed(view, method, request):
            return None
        media_type = view.parser_classes[0].media_type
        example = endpoint.request_example(_new_operation_id(endpoint))
        return _raw_form(str(media_type), json.dumps(example, indent=4, ensure_ascii=False))

    def _delete_fields(self, view: APIView, request: Request) -> list[QueryField]:
        endpoint = endpoint_of(view, "DELETE")
        if endpoint is None or not _is_allowed(view, "DELETE", request):
            return []
        schema = endpoint.query.model_json_schema(by_alias=True)
        required = schema.get("required", ())
        return [
            QueryField(
                name=name,
                value=_new_operation_id(endpoint)
                if name == "operationID"
                else request.query_params.get(name, ""),
                description=declared.get("description", ""),
                is_required=name in required,
            )
            for name, declared in schema["properties"].items()
        ]


def _new_operation_id(endpoint: Endpoint) -> str:
    return f"{endpoint.operation_id_prefix}-{secrets.token_hex(4)}"


def _is_allowed(view: APIView, method: str, request: Request) -> bool:
    with override_method(view, request, method) as overridden:
        try:
            view.check_permissions(overridden)
        except (APIException, PlatformError):
            return False
    return True


def _with_links(text: str) -> SafeString:
    """Return JSON as HTML with links. URLs inside a longer text are not links."""
    link = '<a href="{0}" rel="nofollow noreferrer">{0}</a>'
    parts = _ADDRESS.split(text)
    html = (format_html(link if index % 2 else "{}", part) for index, part in enumerate(parts))
    return SafeString("".join(html))


def _raw_form(media_type: str, text: str) -> forms.Form:
    """Return the form of a request body. `adminkit/browse.js` uses its field names."""
    form = forms.Form()
    form.fields["_content_type"] = forms.ChoiceField(
        label="Media type",
        choices=[(media_type, media_type)],
        initial=media_type,
        widget=forms.Select(attrs={"data-override": "content-type"}),
    )
    form.fields["_content"] = forms.CharField(
        label="Body",
        widget=forms.Textarea(attrs={"data-override": "content", "rows": 24}),
        initial=text,
        required=False,
    )
    return form
