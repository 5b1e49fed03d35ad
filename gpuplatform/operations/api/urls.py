"""Addresses of the jobs API."""

from django.urls import path

from gpuplatform.api import converters as _converters  # noqa: F401 - makes them known
from gpuplatform.operations.api.views import Job, JobCancel, JobRetry, Jobs, OwnOperation

urlpatterns = [
    path("operator/jobs", Jobs.as_view(), name="jobs"),
    path("operator/jobs/<operation:operation_id>", Job.as_view(), name="job"),
    path("operator/jobs/<operation:operation_id>/cancel", JobCancel.as_view(), name="job-cancel"),
    path("operator/jobs/<operation:operation_id>/retry", JobRetry.as_view(), name="job-retry"),
    path("operations/<operation:operation_id>", OwnOperation.as_view(), name="operation"),
]
