"""Errors of the API server with the messages of Kubernetes. `ApiError` contains a `Status`."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol


class Kind(Protocol):
    """The names of a served kind that error messages contain."""

    @property
    def group(self) -> str:
        """API group, such as `apps`. The core group is an empty string."""

    @property
    def plural(self) -> str:
        """`deployments`."""

    @property
    def qualified(self) -> str:
        """`deployments.apps`."""


@dataclass(frozen=True, slots=True)
class FieldError:
    """An invalid field, as `field.Error` of apimachinery."""

    reason: str
    field: str
    message: str


class ApiError(Exception):
    """A failed request, with the `Status` object of the response."""

    def __init__(
        self, code: int, reason: str, message: str, details: dict[str, Any] | None = None
    ) -> None:
        """Create an error. `reason` can be empty, as in some errors of Kubernetes."""
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            **({"reason": reason} if reason else {}),
            **({"details": details} if details else {}),
            "code": code,
        }


def go_json(value: object) -> str:
    """Return `value` as JSON in the format of field errors in Go."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def invalid_value(field: str, value: object, detail: str) -> FieldError:
    """Return the error for an invalid value."""
    return FieldError("FieldValueInvalid", field, f"Invalid value: {go_json(value)}: {detail}")


def required(field: str, detail: str = "") -> FieldError:
    """Return the error for a missing required value."""
    return FieldError(
        "FieldValueRequired", field, "Required value" + (f": {detail}" if detail else "")
    )


def duplicate(field: str, value: object) -> FieldError:
    """Return the error for a duplicate value."""
    return FieldError("FieldValueDuplicate", field, f"Duplicate value: {go_json(value)}")


def forbidden_value(field: str, detail: str) -> FieldError:
    """Return the error for a value that is not allowed."""
    return FieldError("FieldValueForbidden", field, f"Forbidden: {detail}")


def unsupported(field: str, value: object, supported: Sequence[object]) -> FieldError:
    """Return the error for a value that is not in an enumeration."""
    names = ", ".join(go_json(v) if isinstance(v, str) else go_json(go_json(v)) for v in supported)
    message = f"Unsupported value: {go_json(value)}: supported values: {names}"
    return FieldError("FieldValueNotSupported", field, message)


def invalid(group: str, kind: str, name: str, field_errors: Sequence[FieldError]) -> ApiError:
    """Return the error 422 with a cause for each field error."""
    texts = list(dict.fromkeys(f"{f.field}: {f.message}" for f in field_errors))
    summary = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    causes = [{"reason": f.reason, "message": f.message, "field": f.field} for f in field_errors]
    details = {"name": name, "group": group, "kind": kind, "causes": causes}
    qualified = f"{kind}.{group}" if group else kind
    message = f'{qualified} "{name}" is invalid: {summary}'
    return ApiError(422, "Invalid", message, {k: v for k, v in details.items() if v})


def _about(resource: Kind, name: str) -> dict[str, Any]:
    details = {"name": name, "group": resource.group, "kind": resource.plural}
    return {k: v for k, v in details.items() if v}


def not_found(resource: Kind, name: str) -> ApiError:
    """Return the error 404 for an object that does not exist."""
    message = f'{resource.qualified} "{name}" not found'
    return ApiError(404, "NotFound", message, _about(resource, name))


def no_such_path() -> ApiError:
    """Return the error 404 for a path that the server does not serve."""
    return ApiError(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(resource: Kind, name: str) -> ApiError:
    """Return the error 409 for a name that is already in use."""
    message = f'{resource.qualified} "{name}" already exists'
    return ApiError(409, "AlreadyExists", message, _about(resource, name))


MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


def conflict(resource: Kind, name: str, why: str = MODIFIED) -> ApiError:
    """Return the error 409 for an update that is based on an outdated version."""
    message = f'Operation cannot be fulfilled on {resource.qualified} "{name}": {why}'
    return ApiError(409, "Conflict", message, _about(resource, name))


def forbidden(resource: Kind, name: str, why: str) -> ApiError:
    """Return the error 403 (forbidden)."""
    message = f'{resource.qualified} "{name}" is forbidden: {why}'
    return ApiError(403, "Forbidden", message, _about(resource, name))


def bad_request(message: str) -> ApiError:
    """Return the error 400 (bad request)."""
    return ApiError(400, "BadRequest", message)


def expired(message: str) -> ApiError:
    """Return the error 410 for a resource version that has been compacted."""
    return ApiError(410, "Expired", message)


def method_not_allowed(message: str) -> ApiError:
    """Return the error 405 (method not allowed)."""
    return ApiError(405, "MethodNotAllowed", message)


def internal_error(error: Exception) -> ApiError:
    """Return the error 500 (internal error) for an exception."""
    details = {"causes": [{"message": str(error)}]}
    return ApiError(500, "InternalError", f"Internal error occurred: {error}", details)


def not_simulated(what: str) -> ApiError:
    """Return the error 501 for a Kubernetes feature that is not simulated."""
    return ApiError(501, "NotImplemented", f"Not simulated: {what}.")
