"""How the OpenAPI document is generated. Settings import it, so it imports only the version."""

from typing import Any

from gpuplatform import __version__

_DESCRIPTION = """\
Stock, GPU units, functions and the operations on them.

Every write has an `operationID`, which the caller chooses, and can be repeated safely. A new
request is answered with 202 and its operation; a repeated one with 200 and the same operation.
An operation that has `Succeeded` is stored in the cluster; whether its object is *ready* is in
the object's own `phase`.

Lists are sorted newest first. A filter with several values, repeated (`phase=Ready&phase=Failed`)
or separated by commas (`phase=Ready,Failed`), selects the rows that have one of them.

Every error has the same body (`ErrorReply`). A method that a path does not list is answered with
405 `method_not_allowed`.
"""

_TAGS = {
    "GPU units": "Pods with GPUs that users run, each on a claimed stock unit.",
    "Functions": "Images that answer invocations on workers, which run only while there is work.",
    "Invocations": "Requests to functions, and their results.",
    "Operations": "The accepted requests of the caller's tenant.",
    "Stock pools": "Declared pools of pods that hold GPUs. For operators.",
    "Stock": "Reserved GPU capacity that units claim, and the inventory. For operators.",
    "GPU specs": "The catalogue of GPU capacity by name. For operators.",
    "Operations (operators)": "The accepted requests of any tenant. For operators.",
    "Platform": "The addresses of the API and the health of the platform. They need no token.",
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
        "request": {"type": "string", "pattern": "^[a-z0-9_-]{1,48}$"},
    },
    # The document has no secrets, and a browser that opens Swagger cannot send a token yet.
    "SERVE_AUTHENTICATION": [],
    "SERVE_PERMISSIONS": [],
    "POSTPROCESSING_HOOKS": ["gpuplatform.api.openapi.complete"],
    # Everything is served by this host, also on a machine without the Internet.
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "SWAGGER_UI_SETTINGS": {
        "deepLinking": True,
        "displayOperationId": True,
        "persistAuthorization": True,
        "validatorUrl": None,
    },
}
