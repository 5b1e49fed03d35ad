"""URLs of the API of operations."""

from django.urls import path

from gpuplatform.api import converters as _converters  # noqa: F401 - registers them
from gpuplatform.operations.api.views import (
    Job,
    JobCancel,
    JobRetry,
    Jobs,
    OwnOperation,
    OwnOperations,
)

urlpatterns = [
    path("operator/jobs", Jobs.as_view(), name="jobs"),
    path("operator/jobs/<operation:operation_id>", Job.as_view(), name="job"),
    path("operator/jobs/<operation:operation_id>/cancel", JobCancel.as_view(), name="job-cancel"),
    path("operator/jobs/<operation:operation_id>/retry", JobRetry.as_view(), name="job-retry"),
    path("operations", OwnOperations.as_view(), name="operations"),
    path("operations/<operation:operation_id>", OwnOperation.as_view(), name="operation"),
]
