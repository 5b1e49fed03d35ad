"""The guard of the simulated API server: only the holders of its kubeconfig get in.

The containers of some images run as programs of the user that started the simulator. A page in a
browser and another user of the machine must therefore not create pods.

The kubeconfig has the token twice: kubectl does not send the token of a user without TLS, so that
the path of the server's URL is the token, too.
"""

import hmac
import os
import secrets
from pathlib import Path
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from gpuplatform.dev.simulator.apiserver import errors
from gpuplatform.dev.simulator.apiserver.replies import PROBE_PATHS, json_reply

_PUBLIC: Final = PROBE_PATHS | {"/version"}
"""Kubernetes also serves these paths without credentials (`system:public-info-viewer`)."""
_HOSTS: Final = frozenset({"127.0.0.1", "localhost", "[::1]"})


def guard(token: str) -> Middleware:
    """Return the middleware that rejects web pages, and requests without this token."""
    prefix = f"/{token}"

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        first = "/" + request.rel_url.raw_path[1:].partition("/")[0]
        is_known = hmac.compare_digest(first.encode(), prefix.encode())
        if is_known:
            target = request.rel_url.raw_path_qs.removeprefix(prefix) or "/"
            request = request.clone(rel_url=target)
        error = _error(request, token, is_known=is_known)
        return await handler(request) if error is None else json_reply(error.status, error.code)

    return check


def _error(request: web.Request, token: str, *, is_known: bool) -> errors.ApiError | None:
    # A host name that resolves to loopback belongs to a page, which can then read responses.
    host = request.headers.get("Host", "")
    if host.rpartition(":")[0] not in _HOSTS:
        return errors.ApiError(403, "Forbidden", "this server serves only its own address")
    # This server has no pages. Some clients of WebSocket send its own address.
    if request.headers.get("Origin", f"http://{host}") != f"http://{host}":
        return errors.ApiError(403, "Forbidden", "this server serves no web pages")
    if request.path in _PUBLIC:
        return None
    offered = request.headers.get("Authorization", "")
    if not is_known and not hmac.compare_digest(offered.encode(), f"Bearer {token}".encode()):
        return errors.ApiError(401, "Unauthorized", "Unauthorized")
    if request.can_read_body and "Content-Type" not in request.headers:
        # A browser sends a body without it to any server, without asking that server first.
        return errors.ApiError(
            415, "UnsupportedMediaType", "the body of the request needs a Content-Type"
        )
    return None


def kept_token(state_dir: Path | None) -> str:
    """Return the token in `state_dir`, after creating a random token if the file does not exist.

    The token does not change, so that running clients can reconnect when the server starts again.
    """
    token = secrets.token_urlsafe(32)
    if state_dir is None:
        return token
    path = state_dir / "token"
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path.read_text() or token
    with os.fdopen(descriptor, "w") as file:
        file.write(token)
    return token
