"""Settings of drf-spectacular. The Django settings import this module, so it imports no apps."""

from typing import Any

from gpuplatform import __version__

_DESCRIPTION = """\
The API manages GPU units, functions, stock, and the operations on them.

Every write request has an `operationID` that the caller chooses, and can be repeated safely. The
response to a new request is 202 with its operation. The response to a repeated request is 200 with
the same operation. The phase `Succeeded` of an operation means that the change is stored in the
cluster. The `phase` of the object shows whether the object is ready.

Lists are sorted by creation, newest first. A filter can have several values, either repeated
(`phase=Ready&phase=Failed`) or separated by commas (`phase=Ready,Failed`). The response contains
the items that match one of the values.

All errors have the same response body, `ErrorReply`. The response to a method that a path does not
support is 405 `method_not_allowed`.

A request above the rate of its token, tenant or address is 429 `rate_limited`. Each response to a
caller with limited rates has the header fields `RateLimit-Policy` and `RateLimit`.
"""

_TAGS = {
    "GPU units": "Pods with GPUs that users run. Each unit claims a ready stock unit.",
    "Audit": "Who changed, read or tried what.",
    "Usage": "GPU time and invocations by tenant, without prices.",
    "Functions": "Images that process invocations on workers, which run only while there is work.",
    "Invocations": "Requests to functions, and their results.",
    "Operations": "Accepted requests of the caller's tenant.",
    "Stock pools": "Declared pools of pods that reserve GPUs. Requires the operator scope.",
    "Stock": "Reserved GPU capacity for units, and the inventory. Requires the operator scope.",
    "GPU specs": "Catalogue of the named kinds of GPU capacity. Requires the operator scope.",
    "Tenants": "Parties that own units and functions, their limits, and what they use.",
    "Operations (operators)": "Accepted requests of any tenant. Requires the operator scope.",
    "Members and tokens": "Who may use the tenant, and with which permissions.",
    "Platform": "Links of the API and health of the platform. No token is required.",
}

SPECTACULAR_SETTINGS: dict[str, Any] = {
    "TITLE": "GPU Platform API",
    "VERSION": __version__,
    "DESCRIPTION": _DESCRIPTION,
    "CONTACT": {"name": "The operators of this platform"},
    "LICENSE": {"name": "Apache 2.0", "identifier": "Apache-2.0"},
    "SERVERS": [{"url": "/", "description": "This platform"}],
    "TAGS": [{"name": name, "description": text} for name, text in _TAGS.items()],
    "OAS_VERSION": "3.1.0",
    "SCHEMA_PATH_PREFIX": r"/api/v1",
    "SERVE_INCLUDE_SCHEMA": False,
    "COMPONENT_SPLIT_PATCH": False,
    "PATH_CONVERTER_OVERRIDES": {
        "name": {
            "type": "string",
            "maxLength": 253,
            "pattern": "^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$",
        },
        "spec": {
            "type": "string",
            "maxLength": 63,
            "pattern": "^[a-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$",
        },
        "operation": {"type": "string", "pattern": "^[A-Za-z0-9._:-]{1,128}$"},
        "member": {"type": "string", "maxLength": 156},
        "token": {"type": "string", "maxLength": 63},
        "request": {"type": "string", "pattern": "^[a-z0-9_-]{1,48}$"},
    },
    # The document is public: a browser that opens Swagger UI cannot send a token.
    "SERVE_AUTHENTICATION": [],
    "SERVE_PERMISSIONS": [],
    "POSTPROCESSING_HOOKS": ["gpuplatform.api.openapi.complete"],
    # Swagger UI must work without access to the Internet.
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "SWAGGER_UI_SETTINGS": {
        "deepLinking": True,
        "displayOperationId": True,
        "persistAuthorization": True,
        "validatorUrl": None,
    },
}
