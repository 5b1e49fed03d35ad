"""URLs of functions and invocations."""

from django.urls import path, register_converter
from django.urls.converters import StringConverter

from gpuplatform.api import converters as _converters  # noqa: F401 - registers them
from serverless.api.views import (
    FunctionDetail,
    Functions,
    FunctionWebhookSecret,
    InvocationCancel,
    InvocationDetail,
    InvocationReplay,
    InvocationResult,
    Invocations,
)
from serverless.core.spec import REQUEST_ID


class RequestIDConverter(StringConverter):
    """Converter for the name of a function: `<request:name>`."""

    regex = REQUEST_ID


register_converter(RequestIDConverter, "request")

_ONE = "serverless/invocations/<operation:invocation_id>"

urlpatterns = [
    path("serverless/functions", Functions.as_view(), name="functions"),
    path("serverless/functions/<request:request_id>", FunctionDetail.as_view(), name="function"),
    path(
        "serverless/functions/<request:request_id>/webhook-secret",
        FunctionWebhookSecret.as_view(),
        name="function-webhook-secret",
    ),
    path("serverless/invocations", Invocations.as_view(), name="invocations"),
    path(_ONE, InvocationDetail.as_view(), name="invocation"),
    path(f"{_ONE}/cancel", InvocationCancel.as_view(), name="invocation-cancel"),
    path(f"{_ONE}/replay", InvocationReplay.as_view(), name="invocation-replay"),
    path(f"{_ONE}/result", InvocationResult.as_view(), name="invocation-result"),
]
