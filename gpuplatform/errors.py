"""Every error of the platform: its code, its HTTP status and the next step of the caller.

Raised where detected; translated at two boundaries only: `kube/` turns a reply of the API server
into a `ClusterError`, `api/` turns each of these into an `ErrorReply`. `str(error)` is a sentence
for people: what happened and what to do, safe to show.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Self

from typing_extensions import override


class Retry(StrEnum):
    """When a retry can succeed. Read by the drivers only."""

    NEVER = "never"
    NOW = "now"
    """Immediately, with a new observation: another writer was faster."""
    LATER = "later"
    """With backoff: the cause is outside of the platform and can pass."""


@dataclass(frozen=True, slots=True)
class FieldError:
    """A fault of a request: `field` is a JSON path such as `template.ports[1].name`."""

    field: str
    message: str


class PlatformError(Exception):
    """An error with a stable `code`, an HTTP status and a sentence for people."""

    code: ClassVar[str] = "internal_error"
    http_status: ClassVar[int] = 500
    retry: ClassVar[Retry] = Retry.NEVER
    next_step: ClassVar[str] = "Send the traceID to an operator, who finds the cause in the log."
    """What a caller does about the code, independent of the message."""

    def __init__(
        self,
        message: str,
        *,
        details: Sequence[FieldError] = (),
        retry_after: float | None = None,
        context: Mapping[str, object] | None = None,
    ) -> None:
        """`retry_after` is in seconds; `context` is logged and never shown to a caller."""
        super().__init__(message)
        self.message = message
        self.details = tuple(details)
        self.retry_after = retry_after
        self.context = dict(context or {})

    @classmethod
    def example(cls) -> Self:
        """Return an instance with a typical message, for the documentation and tests."""
        return cls("The platform failed to process the request. The cause is in its log.")


class RequestError(PlatformError):
    """The request is wrong; the caller can correct it."""

    code = "invalid_request"
    http_status = 400
    next_step = "Correct the fields in `details`; the same request is refused again."

    @classmethod
    @override
    def example(cls) -> Self:
        return cls(
            "replicas: Must be 0 or more.",
            details=[FieldError("replicas", "Must be 0 or more.")],
        )


class InvalidSpec(RequestError):
    """A field of the request breaks a rule."""


class NotFound(RequestError):
    """The object does not exist, or belongs to another tenant."""

    code = "not_found"
    http_status = 404
    next_step = "Check name, namespace and token. After a deletion it means that it is complete."

    @classmethod
    @override
    def example(cls) -> Self:
        return cls("The stock pool 'h100' does not exist in the namespace 'default'.")


class MethodNotAllowed(RequestError):
    """The path exists and does not have the method."""

    code = "method_not_allowed"
    http_status = 405
    next_step = "Use a method from the header `Allow`."

    @classmethod
    @override
    def example(cls) -> Self:
        return cls("This path does not have this method. It has: GET, POST.")


class UnsupportedMediaType(RequestError):
    """The body is not declared as uncompressed JSON in UTF-8."""

    code = "unsupported_media_type"
    http_status = 415
    next_step = "Send `Content-Type: application/json`."

    @classmethod
    @override
    def example(cls) -> Self:
        return cls("The body must be JSON. Send 'Content-Type: application/json'.")


class TooLarge(RequestError):
    """The body exceeds the limit."""

    code = "too_large"
    http_status = 413
    next_step = "Send less in one request."

    @classmethod
    @override
    def example(cls) -> Self:
        return cls("The body is larger than 1 MiB. Send less in one request.")


class OperationConflict(RequestError):
    """The operationID belongs to a different request."""

    code = "operation_conflict"
    http_status = 409
    next_step = "Use a new operationID for a new request; repeat a request with the same body."

    @classmethod
    @override
    def example(cls) -> Self:
        return cls("The operationID 'op-1' belongs to a different request. Use a new one.")


class NameConflict(RequestError):
    """The name is in use."""

    code = "name_conflict"
    http_status = 409
    next_step = "Choose another name, or wait until the object with that name is deleted."

    @classmethod
    @override
    def example(cls) -> Self:
        return cls(
            "The name 'h100' is in use in the namespace 'default'. Choose another name.",
            details=[FieldError("name", "Is in use.")],
        )


class PhaseConflict(RequestError):
    """The object's phase does not allow the request."""

    code = "phase_conflict"
    http_status = 409
    next_step = "Wait for the phase that the message names, then retry."

    @classmethod
    @override
    def example(cls) -> Self:
        return cls("The stock pool 'h100' is being deleted. Wait until it is gone.")


class InsufficientCapacity(RequestError):
    """Too little stock is ready."""

    code = "insufficient_capacity"
    http_status = 409
    next_step = "Retry later with the same operationID, or ask an operator to seed stock."

    @classmethod
    @override
    def example(cls) -> Self:
        return cls("No stock of the GPU spec 'h100-1g' is ready. Retry later.")


class StaleEtag(RequestError):
    """The object changed after the caller read it, or a change is in progress."""

    code = "stale_etag"
    http_status = 412
    next_step = "Read the object again and retry with its new `ETag`."

    @classmethod
    @override
    def example(cls) -> Self:
        return cls("The GPU unit 'trainer' was changed after it was read. Read it again.")


class Unauthenticated(RequestError):
    """The request has no valid token."""

    code = "unauthenticated"
    http_status = 401
    next_step = "Send a valid token as `Authorization: Bearer <token>`."

    @classmethod
    @override
    def example(cls) -> Self:
        return cls("Send an API token.")


class NotAllowed(RequestError):
    """The caller is not allowed to send the request."""

    code = "forbidden"
    http_status = 403
    next_step = "Ask an operator for a token with the required scope."

    @classmethod
    @override
    def example(cls) -> Self:
        return cls("This request is not allowed. Ask an operator of the platform.")


class Throttled(RequestError):
    """The caller has too many requests or open invocations."""

    code = "throttled"
    http_status = 429
    next_step = "Retry after the seconds in `Retry-After`."

    @classmethod
    @override
    def example(cls) -> Self:
        return cls("Too many requests. Retry in 5 seconds.", retry_after=5)


class OperatorUnavailable(PlatformError):
    """The platform has no cluster, or the cluster does not answer."""

    code = "operator_unavailable"
    http_status = 503
    next_step = "Retry after the seconds in `Retry-After`; an operator checks the cluster."

    @classmethod
    @override
    def example(cls) -> Self:
        return cls(
            "This platform runs without a cluster (KUBE_MODE=off), so it accepts no changes.",
            retry_after=60,
        )


class RecoveryNeeded(PlatformError):
    """Cluster and database do not belong together; an operator must run `recover` first."""

    code = "recovery_needed"
    http_status = 503
    next_step = "Ask an operator to stop every process and run `manage.py recover`."

    @classmethod
    @override
    def example(cls) -> Self:
        return cls(
            "The cluster and the database do not belong together. Stop every process of the"
            " platform and run 'manage.py recover'.",
            retry_after=60,
        )


class DatabaseUnavailable(PlatformError):
    """PostgreSQL does not answer."""

    code = "database_unavailable"
    http_status = 503
    next_step = "Retry after the seconds in `Retry-After`, with the same operationID."
    retry = Retry.LATER

    @classmethod
    @override
    def example(cls) -> Self:
        return cls("The database does not answer. Retry in 5 seconds.", retry_after=5)


class InvariantBroken(PlatformError):
    """The platform itself is faulty: the message is generic, the cause is in the log."""


class ClusterError(PlatformError):
    """An error of the Kubernetes API server; `reason` is that of its Status, if it sent one.

    HTTP never shows it: it becomes the error of an operation or a reason in a status.
    """

    code = "cluster_error"

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
        """`reason`, `status` and `detail` (the message) are those of the API server."""
        super().__init__(message, retry_after=retry_after, context=context)
        self.reason = reason
        self.status = status
        self.detail = detail


class ClusterUnavailable(ClusterError):
    """No usable answer: network, deadline, 5xx, 429. The request may have been executed.

    `status` 0 means that there was no answer.
    """

    code = "cluster_unavailable"
    http_status = 503
    retry = Retry.LATER

    @classmethod
    @override
    def example(cls) -> Self:
        return cls(
            "The cluster does not answer: connection refused. The platform retries automatically."
        )


class ClusterConflict(ClusterError):
    """409: the object has changed since it was read (`Conflict`) or exists (`AlreadyExists`)."""

    code = "cluster_conflict"
    http_status = 409
    retry = Retry.NOW

    @classmethod
    @override
    def example(cls) -> Self:
        return cls("The object was changed at the same time.", reason="Conflict")


class ClusterGone(ClusterError):
    """410: the requested version is compacted; a new list is needed."""

    code = "cluster_gone"
    retry = Retry.NOW

    @classmethod
    @override
    def example(cls) -> Self:
        return cls("The cluster no longer has this resource version: too old.", reason="Expired")


class ClusterForbidden(ClusterError):
    """401, 403: missing rights of the platform, or a quota; for an operator of the cluster."""

    code = "cluster_forbidden"
    http_status = 503
    retry = Retry.LATER

    @classmethod
    @override
    def example(cls) -> Self:
        return cls(
            "The cluster forbids the request: exceeded quota. Ask an operator of the cluster."
        )


class ClusterRejected(ClusterError):
    """A permanent refusal: 400, 404 of a namespace or kind, 413, 422."""

    code = "cluster_rejected"
    http_status = 400

    @classmethod
    @override
    def example(cls) -> Self:
        return cls(
            "The cluster rejects the object: spec.replicas must be 0 or more.", reason="Invalid"
        )
