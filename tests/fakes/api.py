"""A client of the API; each reply must be one that the OpenAPI document declares."""

import json
from dataclasses import dataclass, field
from typing import Any

from django.http.response import HttpResponseBase
from django.test import Client

from tests.fakes.conformance import check_reply

POOLS = "/api/v1/operator/stockpools"
JOBS = "/api/v1/operator/jobs"
SPECS = "/api/v1/operator/gpu-specs"
STOCK = "/api/v1/operator/stock-units"
INVENTORY = "/api/v1/operator/inventory"
UNITS = "/api/v1/gpu-units"


@dataclass(frozen=True)
class Answer:
    """One response of the API."""

    status: int
    headers: Any
    json: Any

    @property
    def data(self) -> Any:
        """The content of `data`."""
        return self.json["data"]

    @property
    def code(self) -> str:
        """The code of the error; empty without one."""
        return str(self.json.get("error", {}).get("code", ""))

    @property
    def fields(self) -> list[str]:
        """The fields that the error names."""
        return [one["field"] for one in self.json["error"]["details"]]


@dataclass
class Api:
    """A client for the API that expects JSON."""

    client: Client = field(default_factory=lambda: Client(raise_request_exception=False))

    def get(self, path: str, **query: Any) -> Answer:
        """Send a GET request."""
        return _answer(self.client.get(path, query))

    def post(self, path: str, body: Any, **extra: Any) -> Answer:
        """Send a JSON body; `extra` are headers in the form of WSGI."""
        return self.send("POST", path, json.dumps(body).encode(), **extra)

    def put(self, path: str, body: Any, **extra: Any) -> Answer:
        """Send a JSON body; `extra` are headers in the form of WSGI."""
        return self.send("PUT", path, json.dumps(body).encode(), **extra)

    def patch(self, path: str, body: Any, **extra: Any) -> Answer:
        """Send a JSON body; `extra` are headers in the form of WSGI."""
        return self.send("PATCH", path, json.dumps(body).encode(), **extra)

    def delete(self, path: str, **query: str) -> Answer:
        """Send a DELETE request."""
        return _answer(self.client.delete(path, query_params=query))

    def send(
        self, method: str, path: str, body: bytes, type_: str = "application/json", **extra: Any
    ) -> Answer:
        """Send a body of bytes."""
        return _answer(self.client.generic(method, path, body, type_, **extra))


def _answer(response: HttpResponseBase) -> Answer:
    assert response["Content-Type"] == "application/json", response["Content-Type"]
    check_reply(response)
    content = getattr(response, "content", b"")
    return Answer(response.status_code, response.headers, json.loads(content))
