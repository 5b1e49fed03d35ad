"""A caller of an installed platform. Its source runs in a pod, with the standard library only.

The arguments are the address of the API, the token, and the name of a step with its arguments as
JSON. The step prints its result as JSON.
"""

import json
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

SECONDS = 300.0
PAUSE_SECONDS = 0.5
"""Pause between two reads of a condition: the caller runs in a pod and watches nothing."""
ENDS = {"Succeeded", "Failed", "Expired", "Cancelled", "DeadLettered"}


class Caller:
    """The steps."""

    def __init__(self, address: str, token: str) -> None:
        self._address = f"http://{address}/api/v1"
        self._headers = {"Authorization": f"Bearer {token}", "Host": "localhost"}

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request, and return the data of the response."""
        data = None if body is None else json.dumps(body).encode()
        headers = {**self._headers, "Content-Type": "application/json"}
        request = urllib.request.Request(self._address + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return json.load(response)["data"]
        except urllib.error.HTTPError as error:
            raise SystemExit(f"{method} {path}: {error.code} {error.read().decode()}") from error

    def until(self, path: str, field: str, *wanted: str) -> Any:
        """Read an object until a field has one of the values; return the object."""
        return self._poll(path, lambda found: found[field] in wanted)

    def _poll(self, path: str, is_met: Callable[[Any], bool]) -> Any:
        """Read `path` until the condition is met; return the data. Exit after the deadline."""
        deadline = time.monotonic() + SECONDS
        while not is_met(found := self.call("GET", path)):
            if time.monotonic() > deadline:
                raise SystemExit(f"{path}: {json.dumps(found)}")
            time.sleep(PAUSE_SECONDS)
        return found

    def seed(self, units: int) -> Any:
        """Seed stock, and wait until it is ready."""
        spec = {"operationID": "spec-1", "name": "g1.1", "gpu": 1}
        self.call("POST", "/operator/gpu-specs", {**spec, "cpu": "200m", "memory": "256Mi"})
        body = {"operationID": "seed-1", "specName": "g1.1", "replicas": units}
        self.call("POST", "/operator/stock-units", body)
        self.until("/operations/seed-1", "phase", "Succeeded")
        path = "/operator/stock-units?specName=g1.1&state=ready"
        return len(self._poll(path, lambda found: len(found) >= units))

    def create(self, name: str, fields: Any) -> Any:
        """Create a function."""
        body = {"operationID": f"create-{name}", "requestID": name, "specName": "g1.1", **fields}
        self.call("POST", "/serverless/functions", body)
        return self.until(f"/operations/create-{name}", "phase", "Succeeded", "Failed")

    def invoke(self, name: str, payloads: list[str]) -> Any:
        """Invoke a function with each payload, and return the ended invocations in order."""

        def one(number: int) -> Any:
            key = f"{name}-{number}"
            body = {"invocationID": key, "requestID": name, "payload": payloads[number]}
            self.call("POST", "/serverless/invocations", body)
            return self.until(f"/serverless/invocations/{key}", "state", *ENDS)

        with ThreadPoolExecutor(8) as pool:
            return list(pool.map(one, range(len(payloads))))


if __name__ == "__main__":
    _, address, token, step, arguments = sys.argv
    result = getattr(Caller(address, token), step)(*json.loads(arguments))
    sys.stdout.write(json.dumps(result))
