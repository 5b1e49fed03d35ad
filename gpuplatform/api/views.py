"""The base of every API view. Methods are declared with `Endpoint`."""

from rest_framework.views import APIView

from gpuplatform.api.negotiation import Negotiation
from gpuplatform.api.parsers import StrictJSONParser
from gpuplatform.api.permissions import DevelopmentModeOnly
from gpuplatform.api.renderers import EnvelopeRenderer, FormRenderer


class ApiView(APIView):
    """Strict JSON in, the envelope out.

    There is no authentication by session: a browser that is logged in to the admin must not be
    able to be made to call the API, and without sessions there is no CSRF to guard against.
    """

    renderer_classes = (EnvelopeRenderer, FormRenderer)
    parser_classes = (StrictJSONParser,)
    authentication_classes = ()
    permission_classes = (DevelopmentModeOnly,)
    content_negotiation_class = Negotiation
