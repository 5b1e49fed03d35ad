"""The sender of webhooks, with receivers on loopback."""

import base64
import hashlib
import hmac
import json
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from django.db import DatabaseError, connection
from django.db.models.functions import Now
from pytest_django import Settings

from gpuplatform.dev.embedded.ports import LOOPBACK, free_port
from serverless.documents import webhook_body
from serverless.loops import webhook_client, webhooks
from serverless.loops.webhooks import Webhooks
from serverless.models import Invocation
from serverless.webhook_phases import WebhookFailure
from tests.db.serverless.test_webhooks import ended, secret, settled
from tests.factories.serverless import accept, function_row
from tests.fakes.receiver import Receiver, Respond, dripping, raw, receiver, silent, status

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("cluster")]

STEPS = 200


@pytest.fixture
def sender(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Webhooks]:
    """A sender that may connect to loopback."""
    settings.WEBHOOK_NETWORKS = (ip_network("127.0.0.0/8"),)
    monkeypatch.setattr(webhooks, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(connection, "close", lambda: None)  # It is the test's.
    sender = Webhooks()
    yield sender
    sender.finish()


def done(url: str) -> Invocation:
    """Return an ended invocation with this webhook, whose function has a secret."""
    function = function_row()
    secret(function)
    return ended(accept(function, onDone={"url": url}))


def sent(sender: Webhooks, row: Invocation, attempts: int = 1) -> list[dict[str, Any]]:
    """Repeat steps until the webhook has this number of attempts; return them."""
    for _ in range(STEPS):
        sender.step()
        found: list[dict[str, Any]] = settled(row).webhook_attempts
        if len(found) >= attempts:
            return found
    pytest.fail("the webhook was not sent")


def test_webhook_is_posted_and_can_be_verified(sender: Webhooks) -> None:
    function = function_row()
    created = secret(function)
    with receiver(status(204)) as target:
        row = ended(accept(function, onDone={"url": target.url}))

        (attempt,) = sent(sender, row)

    (request,) = target.received
    assert request.line == "POST /hook?n=1 HTTP/1.1"
    assert request.headers["Content-Type"] == "application/json"
    assert request.headers["webhook-id"] == attempt["deliveryID"]
    assert json.loads(request.body)["data"]["invocationID"] == row.invocation_id
    assert (attempt["statusCode"], attempt["reason"]) == (204, "")
    assert settled(row).webhook_state == "Delivered"
    key = base64.b64decode(created.secret.removeprefix("whsec_"))
    head = f"{request.headers['webhook-id']}.{request.headers['webhook-timestamp']}."
    digest = hmac.new(key, head.encode() + request.body, hashlib.sha256).digest()
    assert request.headers["webhook-signature"] == f"v1,{base64.b64encode(digest).decode()}"


REJECTIONS: dict[str, tuple[Respond, WebhookFailure, int | None]] = {
    "error": (status(500), WebhookFailure.BAD_STATUS, 500),
    "not found": (status(404), WebhookFailure.BAD_STATUS, 404),
    "redirect": (
        status(302, "Location: http://169.254.169.254/"),
        WebhookFailure.REDIRECTED,
        302,
    ),
    "no HTTP": (raw(b"220 mail.example.com ESMTP\r\n\r\n"), WebhookFailure.INVALID_RESPONSE, None),
    "closed": (lambda connection: None, WebhookFailure.CONNECTION_FAILED, None),
    "long header": (
        raw(b"HTTP/1.1 200 OK\r\nX: " + b"a" * 100_000 + b"\r\n\r\n"),
        WebhookFailure.INVALID_RESPONSE,
        None,
    ),
}


@pytest.mark.parametrize(("respond", "reason", "code"), REJECTIONS.values(), ids=list(REJECTIONS))
def test_other_responses_are_failures(
    respond: Respond, reason: WebhookFailure, code: int | None, sender: Webhooks
) -> None:
    with receiver(respond) as target:
        row = done(target.url)

        (attempt,) = sent(sender, row)

    assert (attempt["reason"], attempt["statusCode"]) == (reason.value, code)
    assert settled(row).webhook_state == "Pending"
    assert target.connections == 1


def test_large_response_is_not_read(sender: Webhooks) -> None:
    endless = threading.Event()

    def respond(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
        while not endless.is_set():
            connection.sendall(b"a" * 65536)

    with receiver(respond) as target:
        (attempt,) = sent(sender, done(target.url))
        endless.set()

    assert attempt["reason"] == ""


def test_slow_receiver_times_out(sender: Webhooks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook_client, "ATTEMPT_SECONDS", 0.3)
    stop = threading.Event()
    slow: list[Respond] = [dripping(stop), silent(stop)]
    for respond in slow:
        with receiver(respond) as target:
            (attempt,) = sent(sender, done(target.url))
            stop.set()
        stop.clear()
        assert attempt["reason"] == "TimedOut"


def test_closed_port_is_a_failed_connection(sender: Webhooks) -> None:
    (attempt,) = sent(sender, done(f"http://{LOOPBACK}:{free_port()}/"))

    assert attempt["reason"] == "ConnectionFailed"


def resolving(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> list[str]:
    """Resolve every name to these addresses; return the list of resolved names."""
    names: list[str] = []

    def getaddrinfo(host: str, port: int, *_: Any, **__: Any) -> list[Any]:
        names.append(host)
        stream = (socket.SOCK_STREAM, socket.IPPROTO_TCP, "")
        return [(socket.AF_INET, *stream, (address, port)) for address in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return names


@pytest.mark.parametrize(
    "addresses",
    [["10.0.0.1"], ["169.254.169.254"], ["93.184.216.34", "192.168.0.1"], ["168.63.129.16"]],
)
def test_name_with_private_address_is_forbidden(
    addresses: list[str], sender: Webhooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = done("http://rebind.example/")
    resolving(monkeypatch, *addresses)

    (attempt,) = sent(sender, row)

    assert attempt["reason"] == "AddressForbidden"


def test_loopback_is_forbidden_without_setting(
    sender: Webhooks, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with receiver(status(204)) as target:
        by_address, by_name = done(target.url), done(f"http://name.example:{target.port}/")
        settings.WEBHOOK_NETWORKS = ()
        resolving(monkeypatch, LOOPBACK)

        attempts = [*sent(sender, by_address), *sent(sender, by_name)]

    assert [one["reason"] for one in attempts] == ["AddressForbidden"] * 2
    assert target.connections == 0


def test_name_is_resolved_once_and_its_checked_address_is_used(
    sender: Webhooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    with receiver(status(204)) as target:
        row = done(f"http://name.example:{target.port}/")
        names = resolving(monkeypatch, LOOPBACK)

        (attempt,) = sent(sender, row)

    assert attempt["reason"] == ""
    assert names == ["name.example"]
    assert target.received[0].headers["Host"] == f"name.example:{target.port}"


def test_unknown_name_is_not_resolved(sender: Webhooks, monkeypatch: pytest.MonkeyPatch) -> None:
    def getaddrinfo(*_: Any, **__: Any) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    row = done("http://unknown.example/")
    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)

    (attempt,) = sent(sender, row)

    assert attempt["reason"] == "NameNotResolved"


def test_name_server_that_does_not_respond_does_not_delay_other_names(
    sender: Webhooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook_client, "ATTEMPT_SECONDS", 0.3)
    monkeypatch.setattr(webhooks, "MAX_SENDING", 2)
    released = threading.Event()
    stream = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "")

    def getaddrinfo(host: str, port: int, *_: Any, **__: Any) -> list[Any]:
        if host.startswith("slow"):
            released.wait(20)
        return [(*stream, (LOOPBACK, port))]

    with receiver(status(204)) as target:
        slow = [done(f"http://slow{number}.example:{target.port}/") for number in range(2)]
        fast = done(f"http://fast.example:{target.port}/")
        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
        late = [one["reason"] for row in slow for one in sent(sender, row)]
        (attempt,) = sent(sender, fast)
        released.set()

    assert late == ["TimedOut"] * 2
    assert attempt["reason"] == ""


def test_unexpected_error_of_an_attempt_does_not_stop_the_sender(
    sender: Webhooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    def getaddrinfo(*_: Any, **__: Any) -> None:
        raise RuntimeError("broken")

    row = done("http://name.example/")
    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)

    (attempt,) = sent(sender, row)

    assert (attempt["reason"], attempt["message"]) == ("InternalError", "")


def test_webhook_that_cannot_be_built_does_not_stop_the_others(
    sender: Webhooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = webhook_body

    def body(row: Invocation) -> bytes:
        if row.pk == broken.pk:
            raise KeyError(row.pk)
        return build(row)

    monkeypatch.setattr(webhooks, "webhook_body", body)
    with receiver(status(204)) as target:
        broken, sound = done(target.url), done(target.url)
        (failed,) = sent(sender, broken)
        (delivered,) = sent(sender, sound)

    assert (failed["reason"], delivered["reason"]) == ("InternalError", "")
    assert len(target.received) == 1


def test_certificate_must_be_valid(sender: Webhooks, tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"]
    files = ["-keyout", str(key), "-out", str(certificate), "-subj", "/CN=localhost"]
    subprocess.run([*command, *files], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with receiver(status(204), context) as target:
        (attempt,) = sent(sender, done(target.url.replace("http:", "https:")))

    assert attempt["reason"] == "TLSFailed"
    assert target.received == []


def test_failed_webhook_is_sent_again_with_the_same_id(sender: Webhooks) -> None:
    with receiver(status(503)) as target:
        row = done(target.url)
        sent(sender, row)
        target.respond = status(200)
        Invocation.objects.update(webhook_after=Now() - timedelta(seconds=1))

        sent(sender, row, attempts=2)

    first, second = target.received
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert settled(row).webhook_state == "Delivered"


def test_attempt_is_recorded_after_outage_of_database(
    sender: Webhooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    with receiver(status(204)) as target:
        row = done(target.url)
        with monkeypatch.context() as outage:
            outage.setattr(webhooks, "webhook_record", _failing)
            with pytest.raises(DatabaseError):
                _repeat(sender.step)

        sent(sender, row)

    assert len(target.received) == 1


def _failing(*_: Any) -> None:
    raise DatabaseError


def _repeat(step: Callable[[], None]) -> None:
    for _ in range(STEPS):
        step()


def test_stop_waits_for_attempts_in_progress(sender: Webhooks) -> None:
    answer = threading.Event()

    def respond(connection: socket.socket) -> None:
        answer.wait(10)
        status(204)(connection)

    with receiver(respond) as target:
        row = done(target.url)
        _until(sender, target)
        threading.Timer(0.1, answer.set).start()

        sender.finish()

    assert settled(row).webhook_state == "Delivered"


def _until(sender: Webhooks, target: Receiver) -> None:
    for _ in range(STEPS):
        sender.step()
        if target.received:
            return
    pytest.fail("nothing was received")
