"""Every failure the platform can name, and what may be done about it.

Raised where detected; translated at two boundaries only: `kube/` turns what the API server says
into a `ClusterError`, `api/` turns each of these into the JSON envelope. `str(error)` is one
sentence for a person: what happened and what to do, safe to show.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Self

from typing_extensions import override


class Retry(StrEnum):
    """When trying the same thing again can help. Read by the drivers only."""

    NEVER = "never"
    NOW = "now"
    """Observe and plan again: somebody else was faster."""
    LATER = "later"
    """Wait with back-off: the cause lies outside and may pass."""


@dataclass(frozen=True, slots=True)
class FieldError:
    """One fault in a payload: `field` is a JSON path such as `template.ports[1].name`."""

    field: str
    message: str


class PlatformError(Exception):
    """A failure with a stable machine `code`, an HTTP status and a sentence for a person."""

    code: ClassVar[str] = "internal_error"
    http_status: ClassVar[int] = 500
    retry: ClassVar[Retry] = Retry.NEVER
    next_step: ClassVar[str] = "Send the traceID to an operator, who finds the cause in the log."
    """What a caller does about the code, whatever the message says."""

    def __init__(
        self,
        message: str,
        *,
        details: Sequence[FieldError] = (),
        retry_after: float | None = None,
        context: Mapping[str, object] | None = None,
    ) -> None:
        """`retry_after` is seconds; `context` goes into the log, never to a caller."""
        super().__init__(message)
        self.message = message
        self.details = tuple(details)
        self.retry_after = retry_after
        self.context = dict(context or {})

    @classmethod
    def example(cls) -> Self:
        """Return an instance with a typical message, for documentation and the catalogue test."""
        return cls("The platform met a fault of its own. Its operator finds it in the log.")


class RequestError(PlatformError):
    """The caller can fix it."""

    code = "invalid_request"
    http_status = 400
    next_step = "Correct what `details` names, and send it again; unchanged it is refused again."

    @classmethod
    @override
    def example(cls) -> Self:
        return cls(
            "The request body has 1 fault.",
            details=[FieldError("replicas", "Must be 0 or more.")],
        )


class InvalidSpec(RequestError):
    """A field of the payload breaks a rule."""


class NotFound(RequestError):
    """There is no such thing, or it is another tenant's."""

    code = "not_found"
    http_status = 404
    next_step = "Check name, namespace and token; after a deletion it is the answer to wait for."

    @classmethod
    @override
    def example(cls) -> Self:
        return cls("There is no stock pool 'h100' in the namespace 'default'.")


class MethodNotAllowed(RequestError):
    """The path exists, the method does not."""

    code = "method_not_allowed"
    http_status = 405
    next_step = "Use a method that the message names."

    @classmethod
    @override
    def example(cls) -> Self:
        return cls("PUT is not possible here. Possible: GET, POST.")


class UnsupportedMediaType(RequestError):
    """The body is not declared as JSON."""

    code = "unsupported_media_type"
    http_status = 415
    next_step = "Send `Content-Type: application/json`."

    @classmethod
    @override
    def example(cls) -> Self:
        return cls("The body must be JSON: send 'Content-Type: application/json'.")


class TooLarge(RequestError):
    """The body passes the limit."""

    code = "too_large"
    http_status = 413
    next_step = "Send less in one request."

    @classmethod
    @override
    def example(cls) -> Self:
        return cls("The body is larger than 1 MiB. Send less in one request.")


class OperationConflict(RequestError):
    """The operationID was used for another request."""

    code = "operation_conflict"
    http_status = 409
    next_step = "Take a new operationID for a new request; for a replay send the same body."

    @classmethod
    @override
    def example(cls) -> Self:
        return cls(
            "The operationID 'op-1' was used for another request. Use a new one for a new request."
        )


class NameConflict(RequestError):
    """The name is in use."""

    code = "name_conflict"
    http_status = 409
    next_step = "Choose another name, or wait until the object that has it is gone."

    @classmethod
    @override
    def example(cls) -> Self:
        return cls(
            "The name 'h100' is in use in the namespace 'default'. Choose another name.",
            details=[FieldError("name", "Is in use.")],
        )


class PhaseConflict(RequestError):
    """The object's phase does not allow this."""

    code = "phase_conflict"
    http_status = 409
    next_step = "Wait for the phase that the message names, then send it again."

    @classmethod
    @override
    def example(cls) -> Self:
        return cls("The stock pool 'h100' is being deleted. Wait until it is gone.")


class InsufficientCapacity(RequestError):
    """No ready stock is left to hand over."""

    code = "insufficient_capacity"
    http_status = 409
    next_step = "Send it again later, with the same operationID; operators seed stock."

    @classmethod
    @override
    def example(cls) -> Self:
        return cls("No ready stock of the GPU spec 'g1.1' is left. Try again later.")


class StaleEtag(RequestError):
    """The object changed after the caller read it."""

    code = "stale_etag"
    http_status = 412
    next_step = "Read the object again, and send the change with its new `ETag`."

    @classmethod
    @override
    def example(cls) -> Self:
        return cls("The GPU unit 'trainer' was changed meanwhile. Read it again, then change it.")


class Unauthenticated(RequestError):
    """Nobody is known to be calling."""

    code = "unauthenticated"
    http_status = 401
    next_step = "Send `Authorization: Bearer` with a token that is valid."

    @classmethod
    @override
    def example(cls) -> Self:
        return cls("Log in, or send an API token.")


class NotAllowed(RequestError):
    """The caller is known and may not."""

    code = "forbidden"
    http_status = 403
    next_step = "Ask an operator for a token with the scope that the address takes."

    @classmethod
    @override
    def example(cls) -> Self:
        return cls("You may not do this. Ask an operator of the platform.")


class Throttled(RequestError):
    """Too many requests."""

    code = "throttled"
    http_status = 429
    next_step = "Send it again after the seconds in `Retry-After`."

    @classmethod
    @override
    def example(cls) -> Self:
        return cls("Too many requests. Try again in 5 seconds.", retry_after=5)


class OperatorUnavailable(PlatformError):
    """The platform runs without a cluster by choice (`KUBE_MODE=off`)."""

    code = "operator_unavailable"
    http_status = 503
    next_step = "Start the platform with a cluster; nothing can be changed without one."

    @classmethod
    @override
    def example(cls) -> Self:
        return cls(
            "This platform runs without a cluster (KUBE_MODE=off), so nothing can be changed.",
            retry_after=60,
        )


class RecoveryNeeded(PlatformError):
    """Cluster and database do not belong together; nothing is written until `recover` ran."""

    code = "recovery_needed"
    http_status = 503
    next_step = "The operator stops every process and runs `manage.py recover`."

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
    next_step = "Send it again after the seconds in `Retry-After`, with the same operationID."
    retry = Retry.LATER

    @classmethod
    @override
    def example(cls) -> Self:
        return cls("The database does not answer. Try again in a few seconds.", retry_after=5)


class InvariantBroken(PlatformError):
    """A fault of ours: generic words go out, everything goes into the log."""


class ClusterError(PlatformError):
    """Kubernetes said no, or said nothing. `reason` is that of its Status object, if it sent one.

    Never shown by HTTP: it ends as the failure of an operation or as a reason in status.
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
    """No answer: network, deadline, 5xx, 429. It may have been done all the same.

    `status` 0 means that nothing answered at all.
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
    """409: the object is not the one that was read (`Conflict`) or exists (`AlreadyExists`)."""

    code = "cluster_conflict"
    http_status = 409
    retry = Retry.NOW

    @classmethod
    @override
    def example(cls) -> Self:
        return cls("The object was changed by somebody else at the same time.", reason="Conflict")


class ClusterGone(ClusterError):
    """410: the version asked for is compacted away; list again."""

    code = "cluster_gone"
    retry = Retry.NOW

    @classmethod
    @override
    def example(cls) -> Self:
        return cls("The cluster no longer has this resource version: too old.", reason="Expired")


class ClusterForbidden(ClusterError):
    """401, 403: our rights or a quota. An operator of the cluster has to look."""

    code = "cluster_forbidden"
    http_status = 503
    retry = Retry.LATER

    @classmethod
    @override
    def example(cls) -> Self:
        return cls(
            "The cluster forbids the request: exceeded quota. Ask the operator of the cluster."
        )


class ClusterRejected(ClusterError):
    """A deterministic refusal (400, 404 of a namespace or kind, 413, 422): the same tomorrow."""

    code = "cluster_rejected"
    http_status = 400

    @classmethod
    @override
    def example(cls) -> Self:
        return cls(
            "The cluster rejects the object: spec.replicas must be 0 or more.", reason="Invalid"
        )
