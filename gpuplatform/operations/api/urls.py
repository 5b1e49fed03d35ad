"""Addresses of the jobs API."""

from django.urls import path

from gpuplatform.api import converters as _converters  # noqa: F401 - makes them known
from gpuplatform.operations.api.views import Job, Jobs, OwnOperation

urlpatterns = [
    path("operator/jobs", Jobs.as_view(), name="jobs"),
    path("operator/jobs/<operation:operation_id>", Job.as_view(), name="job"),
    path("operations/<operation:operation_id>", OwnOperation.as_view(), name="operation"),
]
