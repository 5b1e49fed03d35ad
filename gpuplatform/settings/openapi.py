"""How the OpenAPI document is made. Settings import it, so it imports no app."""

from typing import Any

from gpuplatform import __version__

SPECTACULAR_SETTINGS: dict[str, Any] = {
    "TITLE": "GPU platform API",
    "VERSION": __version__,
    "DESCRIPTION": (
        "Stock, GPU units and their operations. Every write carries an `operationID` and can be"
        " sent"
        " again safely: the answer is a 202 with the operation, whose phase says whether the"
        " request"
        " is persisted in the cluster. Whether a thing is *ready* is its own status."
    ),
    "OAS_VERSION": "3.1.0",
    "SCHEMA_PATH_PREFIX": r"/api/v1",
    "SERVE_INCLUDE_SCHEMA": False,
    "COMPONENT_SPLIT_PATCH": False,
    "PATH_CONVERTER_OVERRIDES": {
        "name": {"type": "string", "maxLength": 63, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"},
        "spec": {"type": "string", "maxLength": 63},
        "operation": {"type": "string", "pattern": "^[A-Za-z0-9._:-]{1,128}$"},
        "request": {"type": "string", "pattern": "^[a-z0-9_-]{1,48}$"},
    },
    # A document without secrets, and a browser that opens Swagger cannot send a token yet.
    "SERVE_AUTHENTICATION": [],
    "SERVE_PERMISSIONS": [],
    # The pydantic models say their enums themselves.
    "POSTPROCESSING_HOOKS": [],
    # Everything comes from this host, also on a machine without the Internet.
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "SWAGGER_UI_SETTINGS": {
        "deepLinking": True,
        "displayOperationId": True,
        "persistAuthorization": True,
        "validatorUrl": None,
    },
}
