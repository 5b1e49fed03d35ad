"""OpenAPI security scheme of API tokens. Must be imported after the apps are ready."""

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from typing_extensions import override


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # drf-spectacular's metaclass has no types
    """The security scheme `token`, which the Authorize button of Swagger UI uses."""

    target_class = "gpuplatform.tenancy.authentication.TokenAuthentication"
    name = "token"

    @override
    def get_security_definition(self, auto_schema: object) -> dict[str, str]:
        return {
            "type": "http",
            "scheme": "bearer",
            "description": "API token that an operator creates (`manage.py token_create`).",
        }
