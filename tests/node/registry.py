"""A registry that only serves: the image archives of a directory, as `ADDRESS/NAME:TAG`.

The name of an image is the name of its archive; every tag is the same image. Before the name, a
folder selects how the registry behaves:

    slow/       sends blobs slowly
    private/    requires the credentials of `pull_secret` (401)
    refused/    denies access (403)
    throttled/  limits the rate (429) for some seconds from the first request of each image
"""

import base64
import contextlib
import json
import tarfile
import threading
import time
from collections.abc import Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from typing_extensions import override

from tests.node.archive import MANIFEST

PORT = 5000
SLOW, PRIVATE, REFUSED, THROTTLED = "slow/", "private/", "refused/", "throttled/"
FOLDERS = (SLOW, PRIVATE, REFUSED, THROTTLED)
SLOW_BYTES_PER_SECOND = 400_000
PIECES_PER_SECOND = 10
THROTTLED_SECONDS = 5.0
"""Shorter than the first back-off of a kubelet, which is 10 seconds."""
USER, PASSWORD = "robot", "a$$b$(UNIT_NAME)"
_CREDENTIALS = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
_CODES = {
    HTTPStatus.NOT_FOUND: "MANIFEST_UNKNOWN",
    HTTPStatus.UNAUTHORIZED: "UNAUTHORIZED",
    HTTPStatus.FORBIDDEN: "DENIED",
    HTTPStatus.TOO_MANY_REQUESTS: "TOOMANYREQUESTS",
}
"""The error code of the distribution API for each status."""


def pull_secret(address: str) -> str:
    """Return the content of a Docker registry Secret for this registry."""
    return json.dumps({"auths": {address: {"auth": _CREDENTIALS}}})


class Content:
    """The blobs and the manifests of all archives."""

    def __init__(self, folder: Path) -> None:
        self.blobs: dict[str, bytes] = {}
        self.manifests: dict[str, str] = {}
        """The digest of the manifest of each name."""
        self._asked_at: dict[str, float] = {}
        for path in sorted(folder.glob("*.tar")):
            self._read(path)

    def manifest(self, name: str, reference: str) -> str | None:
        """Return the digest of a manifest; `reference` is a tag or a digest."""
        return reference if reference in self.blobs else self.manifests.get(name)

    def is_throttled(self, image: str) -> bool:
        """Return whether the rate of requests for an image is limited, and note the request."""
        now = time.monotonic()
        return now - self._asked_at.setdefault(image, now) < THROTTLED_SECONDS

    def _read(self, path: Path) -> None:
        with tarfile.open(path) as tar:
            files = {
                member.name: extracted.read()
                for member in tar.getmembers()
                if (extracted := tar.extractfile(member)) is not None
            }
        index = json.loads(files["index.json"])
        self.manifests[path.stem] = index["manifests"][0]["digest"]
        for name, data in files.items():
            if name.startswith("blobs/"):
                self.blobs[name.removeprefix("blobs/").replace("/", ":")] = data


@contextlib.contextmanager
def serving(folder: Path, host: str) -> Iterator[str]:
    """Serve the archives of a directory during the block; yield the address."""
    content = Content(folder)

    class Handler(_Handler):
        served = content

    server = ThreadingHTTPServer((host, PORT), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True)
    thread.start()
    try:
        yield f"{host}:{PORT}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    """The read half of the distribution API."""

    served: Content
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Handle `/v2/`, `/v2/NAME/manifests/REFERENCE` and `/v2/NAME/blobs/DIGEST`."""
        _, *name, kind, reference = ("", *self.path.strip("/").split("/"))
        path = "/".join(name[1:])
        if self.path.strip("/") == "v2":
            self._send(HTTPStatus.OK, b"{}", "application/json")
            return
        folder = next((one for one in FOLDERS if path.startswith(one)), "")
        digest = reference if kind == "blobs" else None
        if kind == "manifests":
            digest = self.served.manifest(path.removeprefix(folder), reference)
        status = self._status(folder, path)
        if digest not in self.served.blobs and status == HTTPStatus.OK:
            status = HTTPStatus.NOT_FOUND
        if status != HTTPStatus.OK:
            error = {"code": _CODES[status], "message": status.phrase}
            self._send(status, json.dumps({"errors": [error]}).encode(), "application/json")
            return
        assert digest is not None
        type_ = MANIFEST if kind == "manifests" else "application/octet-stream"
        is_slow = folder == SLOW and kind == "blobs"
        self._send(status, self.served.blobs[digest], type_, digest=digest, is_slow=is_slow)

    def do_HEAD(self) -> None:
        """Respond like GET, without a body."""
        self.do_GET()

    def _status(self, folder: str, image: str) -> HTTPStatus:
        """Return the status with which the folder responds to a request for an image."""
        has_credentials = self.headers.get("Authorization") == f"Basic {_CREDENTIALS}"
        if folder == PRIVATE and not has_credentials:
            return HTTPStatus.UNAUTHORIZED
        if folder == REFUSED:
            return HTTPStatus.FORBIDDEN
        if folder == THROTTLED and self.served.is_throttled(image):
            return HTTPStatus.TOO_MANY_REQUESTS
        return HTTPStatus.OK

    def _send(
        self, status: int, body: bytes, type_: str, *, digest: str = "", is_slow: bool = False
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", type_)
        self.send_header("Content-Length", str(len(body)))
        if status == HTTPStatus.UNAUTHORIZED:
            self.send_header("WWW-Authenticate", 'Basic realm="tests"')
        if digest:
            self.send_header("Docker-Content-Digest", digest)
        self.end_headers()
        if self.command == "HEAD":
            return
        piece = SLOW_BYTES_PER_SECOND // PIECES_PER_SECOND if is_slow else len(body)
        for start in range(0, len(body), piece):
            if is_slow:
                time.sleep(1 / PIECES_PER_SECOND)
            self.wfile.write(body[start : start + piece])

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Write no log."""
