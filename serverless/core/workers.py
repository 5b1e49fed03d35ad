"""The GPU unit that is a worker of a function. Pure."""

from serverless.core.spec import FunctionSpec
from serverless.queue.names import secret_name
from units.core.requests import WorkerUnitCreate


def worker_create(
    spec: FunctionSpec, *, function: int, tenant: str, queue_url: str, operation_id: str, name: str
) -> WorkerUnitCreate:
    """Return the request for one more worker.

    `name` is the unit's; `queue_url` is the queue as pods reach it.
    """
    asked = spec.normalised()
    shared = ("framework", "concurrency", "timeoutSeconds", "maxDeliver", "backoffSeconds")
    block = {
        "functionID": function,
        "tenant": tenant,
        "queueURL": queue_url,
        "credentialsSecret": secret_name(function),
        **{key: asked[key] for key in shared if key in asked},
    }
    template = {"template": asked["template"]} if "template" in asked else {}
    return WorkerUnitCreate.parse(
        {
            "operationID": operation_id,
            "name": name,
            "specName": spec.spec_name,
            "image": spec.image,
            "serverless": block,
            **template,
        }
    )
