"""Base class of the API views. Methods are declared with `Endpoint`."""

import re
from collections.abc import Iterable

from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.views import APIView
from typing_extensions import override

from gpuplatform.api.browsable import FormRenderer
from gpuplatform.api.endpoint import endpoint_of
from gpuplatform.api.parsers import StrictJSONParser
from gpuplatform.api.renderers import EnvelopeRenderer
from gpuplatform.errors import RateLimited, Unauthenticated


class Negotiation(DefaultContentNegotiation):
    """The content negotiation of the API. A wildcard is not the media type of a body."""

    @override
    def select_parser(self, request: Request, parsers: Iterable[BaseParser]) -> BaseParser | None:
        declared = (request.content_type or "").partition(";")[0].strip().lower()
        return next((parser for parser in parsers if parser.media_type == declared), None)


class ApiView(APIView):
    """A view that accepts strict JSON and responds with an envelope, or with HTML to browsers."""

    renderer_classes = (EnvelopeRenderer, FormRenderer)
    parser_classes = (StrictJSONParser,)
    content_negotiation_class = Negotiation

    @override
    def get_view_name(self) -> str:
        """Return the summary of the first declared method, for the title of the HTML page."""
        declared = (endpoint_of(self, method) for method in self.http_method_names)
        summary = next((one.summary for one in declared if one), super().get_view_name())
        return re.split("[,:;]", summary, maxsplit=1)[0]

    @override
    def perform_authentication(self, request: Request) -> None:
        """Authenticate the caller, then check the rate of its requests.

        DRF checks rates after permissions, and would not count the requests that it rejects.
        """
        try:
            super().perform_authentication(request)
        except Unauthenticated:
            request.auth = None
            self._check_rates(request)
            raise
        self._check_rates(request)

    def _check_rates(self, request: Request) -> None:
        try:
            super().check_throttles(request)
        except RateLimited:  # A page with forms is expensive.
            request.accepted_renderer = EnvelopeRenderer()
            request.accepted_media_type = str(EnvelopeRenderer.media_type)
            raise

    @override
    def check_throttles(self, request: Request) -> None:
        """Do nothing: the rates are checked after the authentication."""

    @override
    def perform_content_negotiation(
        self, request: Request, force: bool = False
    ) -> tuple[BaseRenderer, str]:
        """Select a renderer without ever returning 406, so that the caller can read errors."""
        renderer, _ = super().perform_content_negotiation(request, force=True)
        return renderer, str(renderer.media_type)
