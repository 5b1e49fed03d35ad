"""How the OpenAPI document names the API's tokens; imported once the apps are ready."""

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from typing_extensions import override


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # drf-spectacular's metaclass has no types
    """How the OpenAPI document names it; Swagger's Authorize button asks for the token."""

    target_class = "gpuplatform.tenancy.authentication.TokenAuthentication"
    name = "token"

    @override
    def get_security_definition(self, auto_schema: object) -> dict[str, str]:
        return {
            "type": "http",
            "scheme": "bearer",
            "description": "An API token, made by an operator (`manage.py token_create`).",
        }
