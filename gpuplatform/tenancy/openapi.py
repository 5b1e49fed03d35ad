"""Tokens and permissions in the OpenAPI document. Must be imported after the apps are ready."""

from typing import Any

from django.urls import URLPattern, URLResolver, get_resolver
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema
from typing_extensions import override

from gpuplatform.api.openapi import PERMISSION_KEY
from gpuplatform.tenancy.permissions import Permission, permissions_needed


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # drf-spectacular's metaclass has no types
    """The security scheme `token`, which the Authorize button of Swagger UI uses."""

    target_class = "gpuplatform.tenancy.authentication.TokenAuthentication"
    name = "token"

    @override
    def get_security_definition(self, auto_schema: object) -> dict[str, str]:
        return {
            "type": "http",
            "scheme": "bearer",
            "description": f"API token. `{PERMISSION_KEY}` is the permission that it needs.",
        }


class PermissionSchema(AutoSchema):
    """The description of an operation, with the permission that it requires."""

    @override
    def get_operation(self, *args: Any, **kwargs: Any) -> dict[str, Any] | None:
        operation: dict[str, Any] | None = super().get_operation(*args, **kwargs)
        return operation and {**operation, PERMISSION_KEY: self._permission}

    @override
    def get_auth(self) -> list[dict[str, Any]]:
        return [] if self._permission == Permission.PUBLIC else super().get_auth()

    @property
    def _permission(self) -> str:
        (permission,) = permissions_needed(_route_of(type(self.view)), self.method)
        return permission.value


def _route_of(view: type) -> str:
    """Return the name of the route of a view class."""
    found = (one.name for one in _patterns(get_resolver()) if _class_of(one) is view)
    return str(next(found, ""))


def _patterns(resolver: URLResolver) -> list[URLPattern]:
    found: list[URLPattern] = []
    for one in resolver.url_patterns:
        found += _patterns(one) if isinstance(one, URLResolver) else [one]
    return found


def _class_of(pattern: URLPattern) -> type | None:
    return getattr(pattern.callback, "cls", None)
