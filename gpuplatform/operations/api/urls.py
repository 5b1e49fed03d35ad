"""Addresses of the jobs API."""

from django.urls import path

from gpuplatform.operations.api.views import Job, Jobs

urlpatterns = [
    path("operator/jobs", Jobs.as_view(), name="jobs"),
    path("operator/jobs/<str:operation_id>", Job.as_view(), name="job"),
]
