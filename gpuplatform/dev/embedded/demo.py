"""The demo requests that `make run` sends to the public API on the first start of a platform.

They create two GPU specs, three stock pools (one that becomes ready, one whose image cannot be
pulled, and one that requests more GPUs than exist), three stock units, a GPU unit that claims one
of them, and a function that is invoked once. The operationIDs are constant, so the requests are
idempotent.
"""

import argparse
import json
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gpuplatform.images import ECHO_IMAGE

READY_SECONDS: Final = 60.0
"""Maximum time in seconds to wait for a ready stock unit."""

_POLL_SECONDS = 0.5
_API = "/api/v1"


@dataclass(frozen=True, slots=True)
class DemoRequest:
    """A POST request of the demo."""

    path: str
    body: dict[str, Any]
    needs_stock: str = ""
    """Name of the GPU spec of which a stock unit must be ready before the request is sent."""

    @property
    def name(self) -> str:
        """Name of the created object, for the log."""
        kind = self.path.rpartition("/")[2]
        name = self.body.get("name") or self.body.get("requestID") or self.body["specName"]
        return f"{kind} {name}"


def _pool(name: str, **body: Any) -> DemoRequest:
    return DemoRequest("/operator/stockpools", {"name": name, "memory": "16Gi", **body})


_NGINX = "docker.io/library/nginx:1.27"
_HTTP = {"ports": [{"name": "http", "port": 80}]}

DEMO_REQUESTS: tuple[DemoRequest, ...] = (
    DemoRequest(
        "/operator/gpu-specs",
        {
            "operationID": "demo-spec-1",
            "name": "h100-1g",
            "description": "One H100",
            "cpu": "4",
            "memory": "16Gi",
            "gpu": 1,
        },
    ),
    DemoRequest(
        "/operator/gpu-specs",
        {
            "operationID": "demo-spec-2",
            "name": "h100-64g",
            "description": "More GPUs than a node has",
            "gpu": 64,
        },
    ),
    _pool(
        "demo-ready",
        operationID="demo-1",
        specName="h100-1g",
        image=_NGINX,
        gpu=1,
        replicas=2,
        template=_HTTP,
    ),
    _pool(
        "demo-image-missing",
        operationID="demo-2",
        specName="h100-1g",
        image="registry.example.invalid/team/missing:1.0",
        gpu=1,
        replicas=1,
    ),
    _pool(
        "demo-too-many-gpus",
        operationID="demo-3",
        specName="h100-64g",
        image=_NGINX,
        gpu=64,
        replicas=1,
    ),
    DemoRequest(
        "/operator/stock-units",
        {
            "operationID": "demo-4",
            "specName": "h100-1g",
            "replicas": 3,
        },
    ),
    DemoRequest(
        "/gpu-units",
        {
            "operationID": "demo-5",
            "name": "demo-unit",
            "specName": "h100-1g",
            "image": _NGINX,
            "template": _HTTP,
        },
        needs_stock="h100-1g",
    ),
    DemoRequest(
        "/serverless/functions",
        {
            "operationID": "demo-6",
            "requestID": "echo",
            "specName": "h100-1g",
            "image": ECHO_IMAGE,
            "idleTimeoutSeconds": 60,
        },
    ),
    DemoRequest(
        "/serverless/invocations",
        {"invocationID": "demo-7", "requestID": "echo", "payload": '{"text": "hello"}'},
    ),
)


class DemoFailed(Exception):
    """The platform rejected a demo request, or the required stock was not ready in time."""


def send_demo(url: str) -> Iterator[str]:
    """Send all requests and yield a line of text for each. Wait for stock where necessary.

    Raises:
        DemoFailed: If a request was not accepted or its stock was not ready in time.
    """
    for demo in DEMO_REQUESTS:
        if demo.needs_stock and not _is_accepted(url, demo):
            _wait_for_stock(url, demo.needs_stock)
        status, _ = _send("POST", f"{url}{_API}{demo.path}", demo.name, demo.body)
        yield f"POST {demo.name}: {status}"


def _is_accepted(url: str, demo: DemoRequest) -> bool:
    """Return whether an earlier run has sent the request; such a request needs no stock."""
    operation = demo.body["operationID"]
    address = f"{url}{_API}/operator/jobs?search={operation}"
    _, jobs = _send("GET", address, demo.name)
    return any(job["operationID"] == operation for job in jobs)


def _wait_for_stock(url: str, spec_name: str) -> None:
    address = f"{url}{_API}/operator/stock-units?specName={spec_name}&state=ready&limit=1"
    until = time.monotonic() + READY_SECONDS
    while not _send("GET", address, "stock-units")[1]:
        if time.monotonic() > until:
            raise DemoFailed(f"No stock of {spec_name} was ready in {READY_SECONDS:.0f} s.")
        time.sleep(_POLL_SECONDS)


def _send(
    method: str, address: str, about: str, body: dict[str, Any] | None = None
) -> tuple[int, Any]:
    """Return the HTTP status and the `data` of the response."""
    request = urllib.request.Request(  # noqa: S310 - an address of the platform
        address,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
        method=method,
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as response:  # noqa: S310 - as above
            return response.status, json.load(response)["data"]
    except urllib.error.HTTPError as error:
        text = error.read().decode(errors="replace")
        raise DemoFailed(f"{about} was rejected with {error.code}: {text}") from error
    except OSError as error:
        raise DemoFailed(f"{address} cannot be reached: {error}") from error


def main() -> int:
    """Parse the command line, send the demo, and create the marker file after success."""
    parser = argparse.ArgumentParser(description="Send the demo requests once.")
    parser.add_argument("url")
    parser.add_argument("--marker", type=Path, required=True)
    arguments = parser.parse_args()
    try:
        for line in send_demo(arguments.url):
            sys.stdout.write(line + "\n")
            sys.stdout.flush()
    except DemoFailed as error:
        sys.stdout.write(f"{error}\n")
        return 1
    arguments.marker.touch()
    return 0


if __name__ == "__main__":
    sys.exit(main())
