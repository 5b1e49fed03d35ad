"""The base of every API view. Methods are declared with `Endpoint`."""

from rest_framework.views import APIView

from gpuplatform.api.negotiation import Negotiation
from gpuplatform.api.parsers import StrictJSONParser
from gpuplatform.api.renderers import EnvelopeRenderer, FormRenderer


class ApiView(APIView):
    """Strict JSON in, the envelope out. Who may call is decided by the settings for all alike."""

    renderer_classes = (EnvelopeRenderer, FormRenderer)
    parser_classes = (StrictJSONParser,)
    content_negotiation_class = Negotiation
