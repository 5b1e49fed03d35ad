"""The security scheme of API tokens in the OpenAPI document; imported when the apps are ready."""

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from typing_extensions import override


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # drf-spectacular's metaclass has no types
    """The scheme `token`, for which Swagger's Authorize button asks."""

    target_class = "gpuplatform.tenancy.authentication.TokenAuthentication"
    name = "token"

    @override
    def get_security_definition(self, auto_schema: object) -> dict[str, str]:
        return {
            "type": "http",
            "scheme": "bearer",
            "description": "An API token, created by an operator (`manage.py token_create`).",
        }
