"""The first requests of a new platform, sent through the public API by `make run`, once.

Three pools: one that gets ready, one whose image cannot be pulled, one that asks for more GPUs
than there are. The operation IDs are fixed, so that sending them again changes nothing.
"""

import argparse
import json
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

POOLS: tuple[dict[str, Any], ...] = (
    {
        "operationID": "demo-1",
        "name": "demo-ready",
        "specName": "h100-1g",
        "image": "docker.io/library/nginx:1.27",
        "memory": "16Gi",
        "gpu": 1,
        "replicas": 2,
        "template": {"ports": [{"name": "http", "port": 80}]},
    },
    {
        "operationID": "demo-2",
        "name": "demo-image-missing",
        "specName": "h100-1g",
        "image": "registry.example.invalid/team/missing:1.0",
        "memory": "16Gi",
        "gpu": 1,
        "replicas": 1,
    },
    {
        "operationID": "demo-3",
        "name": "demo-too-many-gpus",
        "specName": "h100-64g",
        "image": "docker.io/library/nginx:1.27",
        "memory": "16Gi",
        "gpu": 64,
        "replicas": 1,
    },
)


class DemoRefused(Exception):
    """The API did not take a request of the demo."""


def send_demo(url: str) -> list[str]:
    """Send every request; return a line for each.

    Raises:
        DemoRefused: one was not accepted.
    """
    return [_send(f"{url}/api/v1/operator/stockpools", pool) for pool in POOLS]


def _send(address: str, body: dict[str, Any]) -> str:
    request = urllib.request.Request(  # noqa: S310 - the address is the platform's own
        address,
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
        method="POST",
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
            return f"POST stockpools {body['name']}: {answer.status}"
    except urllib.error.HTTPError as error:
        text = error.read().decode(errors="replace")
        raise DemoRefused(f"{body['name']} was refused with {error.code}: {text}") from error
    except OSError as error:
        raise DemoRefused(f"{address} cannot be reached: {error}") from error


def main() -> int:
    """Send the demo from the command line; the marker file says that it was sent."""
    parser = argparse.ArgumentParser(description="Send the demo requests once.")
    parser.add_argument("url")
    parser.add_argument("--marker", type=Path, required=True)
    arguments = parser.parse_args()
    try:
        for line in send_demo(arguments.url):
            sys.stdout.write(line + "\n")
    except DemoRefused as error:
        sys.stdout.write(f"{error}\n")
        return 1
    arguments.marker.touch()
    return 0


if __name__ == "__main__":
    sys.exit(main())
