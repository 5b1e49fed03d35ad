"""Errors of the Kubernetes API server, by what the caller must do about them."""

from collections.abc import Mapping

from gpuplatform.errors import PlatformError, Retry


class ClusterError(PlatformError):
    """An error of the Kubernetes API server.

    It is never sent over HTTP: it becomes the error of an operation or a reason in a status.
    """

    code = "cluster_error"
    is_sent = False

    def __init__(
        self,
        message: str,
        *,
        reason: str = "",
        status: int = 0,
        detail: str = "",
        retry_after: float | None = None,
        context: Mapping[str, object] | None = None,
    ) -> None:
        """Store `reason`, `status` and `detail`: the reason, code and message of the Status.

        The reason and the detail are empty if the API server sent no Status.
        """
        super().__init__(message, retry_after=retry_after, context=context)
        self.reason = reason
        self.status = status
        self.detail = detail


class ClusterUnavailable(ClusterError):
    """A request without a usable response: a network error, a timeout, 5xx or 429.

    The request may have been executed. `status` is 0 if there was no response.
    """

    code = "cluster_unavailable"
    http_status = 503
    retry = Retry.LATER
    example_message = (
        "The cluster does not respond: connection refused. The platform retries automatically."
    )


class ClusterConflict(ClusterError):
    """A 409 response: the object changed after it was read, or it already exists."""

    code = "cluster_conflict"
    http_status = 409
    retry = Retry.NOW
    example_message = "Another client changed the object at the same time."


class ClusterGone(ClusterError):
    """A 410 response: the requested resource version has expired; a new list is required."""

    code = "cluster_gone"
    retry = Retry.NOW
    example_message = "The cluster no longer has this resource version."


class ClusterForbidden(ClusterError):
    """A 401 or 403 response: a permission of the platform is missing, or a quota is exceeded."""

    code = "cluster_forbidden"
    http_status = 503
    retry = Retry.LATER
    example_message = (
        "The cluster forbids the request: exceeded quota. Ask an operator of the cluster."
    )


class ClusterRejected(ClusterError):
    """A permanent rejection: 400, 413, 422, or 404 for a namespace or a kind."""

    code = "cluster_rejected"
    http_status = 400
    example_message = "The cluster rejects the object: spec.replicas must be 0 or more."
