"""The base of every API view. Methods are declared with `Endpoint`."""

import re

from rest_framework.views import APIView
from typing_extensions import override

from gpuplatform.api.browsable import FormRenderer
from gpuplatform.api.endpoint import endpoint_of
from gpuplatform.api.negotiation import Negotiation
from gpuplatform.api.parsers import StrictJSONParser
from gpuplatform.api.renderers import EnvelopeRenderer


class ApiView(APIView):
    """Base class: strict JSON in, an envelope out; the settings decide who may call."""

    renderer_classes = (EnvelopeRenderer, FormRenderer)
    parser_classes = (StrictJSONParser,)
    content_negotiation_class = Negotiation

    @override
    def get_view_name(self) -> str:
        """Return the summary of its first method."""
        declared = (endpoint_of(self, method) for method in self.http_method_names)
        summary = next((one.summary for one in declared if one), super().get_view_name())
        return re.split("[,:;]", summary, maxsplit=1)[0]
