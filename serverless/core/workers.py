"""Names of workers, and the request that creates a worker. Pure."""

import re
from typing import Any, Final

from serverless.core.spec import FunctionSpec
from serverless.queue.names import secret_name, unit_prefix
from units.requests import MAX_WAIT_SECONDS, WorkerUnitCreate

_NAME: Final = re.compile(r"fn-([0-9]{1,18})-([0-9]{1,18})-[0-9a-f]{8}")


def worker_name(function: int, generation: int, token: str) -> str:
    """Return the name of a worker, which contains the function id and the spec's generation."""
    return f"{unit_prefix(function)}{generation}-{token}"


def generation_of(name: str) -> int:
    """Return the generation of the spec in the name of a worker, or 0 for any other name."""
    found = _NAME.fullmatch(name)
    return int(found[2]) if found else 0


def function_of(name: str) -> int:
    """Return the id of the function in the name of a worker, or 0 for any other name."""
    found = _NAME.fullmatch(name)
    return int(found[1]) if found else 0


def worker_request(
    spec: FunctionSpec, *, function: int, tenant: str, name: str, queue_url: str
) -> WorkerUnitCreate:
    """Return the request for a GPU unit that is a worker of the function.

    Raises:
        InvalidSpec: If a worker cannot use the address of the queue.
    """
    fields = spec.normalised()
    shared = ("framework", "concurrency", "timeoutSeconds", "maxDeliver", "backoffSeconds")
    block = {key: fields[key] for key in shared if key in fields}
    body: dict[str, Any] = {
        key: fields[key] for key in ("specName", "image", "template") if key in fields
    }
    body |= {
        "operationID": name,
        "name": name,
        # The activator deletes a worker that is no longer needed, even while it waits.
        "wait": {"maxSeconds": MAX_WAIT_SECONDS},
        "serverless": {
            **block,
            "functionID": function,
            "tenant": tenant,
            "queueURL": queue_url,
            "credentialsSecret": secret_name(function),
        },
    }
    return WorkerUnitCreate.parse(body)
