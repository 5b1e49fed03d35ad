"""An OpenID Connect provider on loopback, whose ID tokens a test determines."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey
from typing_extensions import override

CLIENT_ID: Final = "gpu-platform"
CLIENT_SECRET: Final = "provider-secret"
_KEY: Final = RSAKey.generate_key(2048, {"kid": "1", "use": "sig"})
FOREIGN_KEY: Final = RSAKey.generate_key(2048, {"kid": "1", "use": "sig"})
"""A key that the provider does not publish."""


@dataclass
class Provider:
    """The provider. A test changes the claims before the login."""

    issuer: str = ""
    nonce: str = ""
    """The nonce of the login, which a test reads from the redirect."""
    claims: dict[str, Any] = field(default_factory=dict)
    """Claims that replace the valid ones; `None` omits a claim."""
    key: Any = field(default_factory=lambda: _KEY)
    status: int = 200
    metadata: dict[str, Any] = field(default_factory=dict)
    requests: list[dict[str, str]] = field(default_factory=list)
    """The parameters of the requests for tokens."""

    def id_token(self) -> str:
        """Return the ID token."""
        now = int(time.time())
        claims: dict[str, Any] = {
            "iss": self.issuer,
            "sub": "subject-1",
            "aud": CLIENT_ID,
            "exp": now + 300,
            "iat": now,
            "nonce": self.nonce,
            "preferred_username": "ada",
            "groups": ["gpu-ops"],
            **self.claims,
        }
        given = {name: value for name, value in claims.items() if value is not None}
        return jwt.encode({"alg": "RS256", "kid": "1"}, given, self.key)

    def document(self, path: str) -> Any:
        """Return the document at a path."""
        if path.endswith("/openid-configuration"):
            return {
                "issuer": self.issuer,
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
                "jwks_uri": f"{self.issuer}/keys",
                "id_token_signing_alg_values_supported": ["none", "HS256", "RS256"],
                **self.metadata,
            }
        return {"keys": [_KEY.as_dict(private=False)]}


@contextmanager
def oidc_provider() -> Iterator[Provider]:
    """Run a provider within the block."""
    provider = Provider()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send(provider.document(self.path))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            provider.requests.append({name: one[0] for name, one in parse_qs(body).items()})
            self._send(
                {"access_token": "a", "token_type": "Bearer", "id_token": provider.id_token()}
            )

        def _send(self, document: Any) -> None:
            body = json.dumps(document).encode()
            self.send_response(provider.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        @override
        def log_message(self, format: str, *args: Any) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        provider.issuer = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield provider
        finally:
            server.shutdown()
            thread.join()


def parameters(location: str) -> dict[str, str]:
    """Return the query parameters of a redirect."""
    return {name: one[0] for name, one in parse_qs(urlsplit(location).query).items()}
