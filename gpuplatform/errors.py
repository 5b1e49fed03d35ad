"""Every error of the platform: its code, its HTTP status and the next step of the caller.

Errors are raised where they are detected and converted at two boundaries only: `kube/` converts
responses of the API server to the errors in `kube/errors.py`, and `api/` converts errors to
`ErrorReply`. `str(error)` is a human-readable sentence that names the problem and the next step.
It contains nothing confidential.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Self


class Retry(StrEnum):
    """The condition under which a retry can succeed. Only the drivers read it."""

    NEVER = "never"
    NOW = "now"
    """Immediately, after a new observation: another writer changed the object."""
    LATER = "later"
    """With backoff: the cause is outside of the platform and can be temporary."""


@dataclass(frozen=True, slots=True)
class FieldError:
    """An invalid field of a request.

    `field` is a JSON path such as `template.ports[1].name`. It is empty for the whole request.
    """

    field: str
    message: str


@dataclass(frozen=True, slots=True)
class QuotaShortage:
    """A limit of a tenant that does not allow a request. All values count the resource."""

    resource: str
    used: int
    releasing: int
    """The part of `used` that is being released."""
    allowed: int
    requested: int


class PlatformError(Exception):
    """Base class of the errors of the platform."""

    code: ClassVar[str] = "internal_error"
    """The stable code that callers compare."""
    http_status: ClassVar[int] = 500
    is_sent: ClassVar[bool] = True
    """Whether API responses can contain the error."""
    retry: ClassVar[Retry] = Retry.NEVER
    next_step: ClassVar[str] = "Send the traceID to an operator, who finds the cause in the log."
    """The next step of a caller, independent of the message."""
    example_message: ClassVar[str] = (
        "The platform failed to process the request. The cause is in its log."
    )
    example_details: ClassVar[tuple[FieldError, ...]] = ()
    example_retry_after: ClassVar[float | None] = None

    def __init__(
        self,
        message: str,
        *,
        details: Sequence[FieldError] = (),
        retry_after: float | None = None,
        waiting: int | None = None,
        context: Mapping[str, object] | None = None,
    ) -> None:
        """Create the error.

        Args:
            message: Human-readable description, which is sent to the caller.
            details: The invalid fields.
            retry_after: Time in seconds after which the caller can retry.
            waiting: Number of requests that wait for the same stock.
            context: Values for the log, which are never sent.
        """
        super().__init__(message)
        self.message = message
        self.details = tuple(details)
        self.retry_after = retry_after
        self.waiting = waiting
        self.quota: tuple[QuotaShortage, ...] = ()
        self.context = dict(context or {})

    @classmethod
    def example(cls) -> Self:
        """Return an instance with a typical message, for responses, documentation and tests."""
        error = cls(cls.example_message)
        error.details, error.retry_after = cls.example_details, cls.example_retry_after
        return error


class RequestError(PlatformError):
    """The request is invalid. The caller can correct it."""

    code = "invalid_request"
    http_status = 400
    next_step = (
        "Correct the fields in `details`. If the request is repeated unchanged, it fails again."
    )
    example_message = "The body is empty. Send a JSON object."


class InvalidSpec(RequestError):
    """The request or one of its fields is invalid."""

    example_message = "replicas: Must be 0 or more."
    example_details = (FieldError("replicas", "Must be 0 or more."),)


class NotFound(RequestError):
    """The object does not exist or belongs to another tenant."""

    code = "not_found"
    http_status = 404
    next_step = (
        "Check the name, the namespace and the token. After a deletion, the code confirms that the"
        " object is deleted."
    )
    example_message = "The stock pool 'h100' does not exist in the namespace 'default'."


class MethodNotAllowed(RequestError):
    """The path exists but does not support the method."""

    code = "method_not_allowed"
    http_status = 405
    next_step = "Use a method from the header `Allow`."
    example_message = "This path does not support the method. Supported methods: GET, POST."


class UnsupportedMediaType(RequestError):
    """The body is not declared as uncompressed JSON in UTF-8."""

    code = "unsupported_media_type"
    http_status = 415
    next_step = "Send `Content-Type: application/json`."
    example_message = "The body must be JSON. Send 'Content-Type: application/json'."


class TooLarge(RequestError):
    """The body exceeds the maximum size."""

    code = "too_large"
    http_status = 413
    next_step = "Send a smaller body."
    example_message = "The body is larger than 1 MiB. Send a smaller body."


class OperationConflict(RequestError):
    """The operationID belongs to a different request."""

    code = "operation_conflict"
    http_status = 409
    next_step = "Use a new operationID for a new request. Repeat a request with the same body."
    example_message = "The operationID 'op-1' belongs to a different request. Use a new one."


class NameConflict(RequestError):
    """The name is already in use."""

    code = "name_conflict"
    http_status = 409
    next_step = "Choose another name, or wait until the object with that name is deleted."
    example_message = (
        "The name 'h100' is already in use in the namespace 'default'. Choose another name."
    )
    example_details = (FieldError("name", "Is already in use."),)


class PhaseConflict(RequestError):
    """The phase of the object does not allow the request."""

    code = "phase_conflict"
    http_status = 409
    next_step = "Wait for the phase that the message names, then retry."
    example_message = "The stock pool 'h100' is being deleted. Wait until it is deleted."


class InsufficientCapacity(RequestError):
    """Not enough stock is ready."""

    code = "insufficient_capacity"
    http_status = 409
    next_step = (
        "Retry later with the same operationID, or wait in the queue with `wait`. An operator can"
        " seed stock."
    )
    example_message = "No stock of the GPU spec 'h100-1g' is ready. Retry later."


class QueueFull(RequestError):
    """Too many requests wait for stock of the GPU spec, of all tenants or of one."""

    code = "queue_full"
    http_status = 409
    next_step = "Retry later with the same operationID, or choose another GPU spec."
    example_message = (
        "The maximum of 500 requests of tenant 'default' waits for stock of the GPU spec"
        " 'h100-1g'. Try again later."
    )


class CapacityExceeded(RequestError):
    """The request needs more than the nodes of the GPU spec could provide if they were empty."""

    code = "capacity_exceeded"
    http_status = 409
    next_step = "Reduce the request, or ask an operator to add nodes. Waiting does not help."
    example_message = (
        "The request needs 64 units of the GPU spec 'h100-1g', and its nodes can have at most 16."
    )
    example_details = (FieldError("size", "64 needed, at most 16 possible."),)


class QuotaExceeded(RequestError):
    """A limit of the tenant does not allow the request."""

    code = "quota_exceeded"
    http_status = 409
    next_step = (
        "Retry with the same operationID when the tenant uses fewer resources, or ask an operator"
        " for a higher limit."
    )
    example_message = (
        "The tenant 'default' has reached its limit of gpus: 6 used, 2 being released, 6 allowed,"
        " 1 requested. Release resources, or ask an operator for a higher limit."
    )
    example_details = (FieldError("gpus", "6 used, 2 being released, 6 allowed, 1 requested"),)


class StaleEtag(RequestError):
    """The object changed after the caller read it, or a change is in progress."""

    code = "stale_etag"
    http_status = 412
    next_step = "Read the object again and retry with its new `ETag`."
    example_message = "The GPU unit 'trainer' was changed after it was read. Read it again."


class Unauthenticated(RequestError):
    """The request has no valid token."""

    code = "unauthenticated"
    http_status = 401
    next_step = "Send a valid token as `Authorization: Bearer <token>`."
    example_message = "The request has no API token. Send 'Authorization: Bearer <token>'."


class NotAllowed(RequestError):
    """The token does not have the permission that the request requires."""

    code = "forbidden"
    http_status = 403
    next_step = (
        "Ask an admin of the tenant or an operator for a token with the required permission."
    )
    example_message = "This request is not allowed. Ask an operator of the platform."


class InUse(RequestError):
    """Objects exist that prevent the deletion."""

    code = "in_use"
    http_status = 409
    next_step = "Delete the objects in `details`, and wait until they are deleted. Then retry."
    example_message = "The tenant 'acme' has 2 GPU units. Delete them first."
    example_details = (FieldError("units", "2"),)


class TenantSuspended(RequestError):
    """The tenant is suspended, or is being created or deleted, so that it can only read."""

    code = "tenant_suspended"
    http_status = 403
    next_step = "Ask an operator to resume the tenant. Nothing of the tenant was changed."
    example_message = "The tenant 'acme' is not active, so that it can only read. Ask an operator."


class Throttled(RequestError):
    """The function has too many open invocations, or too many requests of the tenant read logs."""

    code = "throttled"
    http_status = 429
    next_step = "Retry after the number of seconds in `Retry-After`."
    example_message = (
        "The function 'echo' has the maximum of 10000 open invocations. Try again in 5 seconds."
    )
    example_retry_after = 5


class RateLimited(RequestError):
    """The caller sends requests at a higher rate than its token, tenant or address may."""

    code = "rate_limited"
    http_status = 429
    next_step = (
        "Retry after the number of seconds in `Retry-After`, with the same operationID. The fields"
        " `RateLimit` and `RateLimit-Policy` of each response describe the rates."
    )
    example_message = "Too many requests. Retry in 2 seconds."
    example_retry_after = 2


class OperatorUnavailable(PlatformError):
    """The platform has no cluster, or the cluster does not respond."""

    code = "operator_unavailable"
    http_status = 503
    next_step = (
        "Retry after the number of seconds in `Retry-After`. If the error persists, ask an"
        " operator to check the cluster."
    )
    example_message = (
        "This platform runs without a cluster (KUBE_MODE=off), so it accepts no changes."
    )
    example_retry_after = 60


class RecoveryNeeded(PlatformError):
    """The cluster and the database do not match. An operator must run `recover` first."""

    code = "recovery_needed"
    http_status = 503
    next_step = (
        "Ask an operator to stop every process and run `manage.py recover` (in development, `make"
        " recover`)."
    )
    example_message = (
        "The cluster and the database do not match. Stop every process of the platform and run"
        " 'manage.py recover'."
    )
    example_retry_after = 60


class DatabaseUnavailable(PlatformError):
    """PostgreSQL does not respond or does not accept writes."""

    code = "database_unavailable"
    http_status = 503
    next_step = "Retry after the number of seconds in `Retry-After`, with the same operationID."
    retry = Retry.LATER
    example_message = "The database does not respond. Retry in 5 seconds."
    example_retry_after = 5


class InvariantBroken(PlatformError):
    """An internal error of the platform. The cause is in its log."""


def error_classes(kind: type[PlatformError] = PlatformError) -> Iterator[type[PlatformError]]:
    """Yield `kind` and its subclasses, each after its base class."""
    yield kind
    for child in kind.__subclasses__():
        yield from error_classes(child)


def http_errors() -> dict[str, type[PlatformError]]:
    """Return the error classes of API responses by code, sorted by code.

    If several classes have the same code, the most derived one is returned.
    """
    kinds = (kind for kind in error_classes() if kind.is_sent)
    return dict(sorted({kind.code: kind for kind in kinds}.items()))
