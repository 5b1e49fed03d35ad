"""Runs a command in a container through the API server, as `kubectl exec` does."""

import json
from dataclasses import dataclass
from urllib.parse import urlencode

import websocket

from gpuplatform.kube.kinds import POD
from tests.cluster.world import World

PROTOCOL = "v5.channel.k8s.io"
STDIN, STDOUT, STDERR, ERROR, CLOSE = 0, 1, 2, 3, 255
SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Result:
    """The end of a command."""

    code: int | None
    """Exit code, or `None` if the command did not start."""
    output: str
    message: str = ""


def run_in_pod(
    world: World, name: str, *command: str, stdin: bytes | None = None, container: str = ""
) -> Result:
    """Run a command in a container of a pod, and return its end.

    Raises:
        websocket.WebSocketException: the server rejected the command.
    """
    options = [("stdout", "true"), ("stderr", "true"), ("stdin", str(stdin is not None).lower())]
    options += [("command", word) for word in command]
    options += [("container", container)] if container else []
    url = f"{world.http.server}{world.path(POD, name, 'exec')}?{urlencode(options)}"
    socket = websocket.create_connection(
        url.replace("http", "ws", 1),
        header=[f"Authorization: Bearer {world.http.token}"],
        subprotocols=[PROTOCOL],
        sslopt={"cert_reqs": 0},
        timeout=SECONDS,
    )
    try:
        if stdin is not None:
            socket.send_binary(bytes([STDIN]) + stdin)
            socket.send_binary(bytes([CLOSE, STDIN]))
        return _read(socket)
    finally:
        socket.close()


def _read(socket: websocket.WebSocket) -> Result:
    output = b""
    while True:
        message = socket.recv()
        data = message if isinstance(message, bytes) else message.encode()
        if data[:1] in {bytes([STDOUT]), bytes([STDERR])}:
            output += data[1:]
        elif data[:1] == bytes([ERROR]):
            return _result(json.loads(data[1:]), output.decode())
        elif not data:
            return Result(None, output.decode(), "the connection was closed")


def _result(status: dict[str, object], output: str) -> Result:
    if status.get("status") == "Success":
        return Result(0, output)
    details = status.get("details")
    causes = details.get("causes") or [] if isinstance(details, dict) else []
    codes = [int(one["message"]) for one in causes if one.get("reason") == "ExitCode"]
    return Result(codes[0] if codes else None, output, str(status.get("message")))
