"""A killed sender loses no webhook: another one sends it again with the same id."""

import threading

import pytest

from gpuplatform.images import ECHO_IMAGE
from serverless.services.webhooks import CLAIM_SECONDS
from tests.acceptance.platform import RunningPlatform
from tests.fakes.receiver import receiver, silent, status

pytestmark = [
    pytest.mark.processes,
    pytest.mark.long,
    pytest.mark.timeout(400),
    pytest.mark.xdist_group("acceptance"),
]

FUNCTIONS = "/api/v1/serverless/functions"
INVOCATIONS = "/api/v1/serverless/invocations"


def test_webhook_of_killed_sender_is_sent_again(platform: RunningPlatform) -> None:
    body = {"operationID": "hook-1", "requestID": "hook", "specName": "hook", "image": ECHO_IMAGE}
    platform.add_spec("hook")
    assert platform.request("POST", FUNCTIONS, body).status == 202
    platform.wait_for_job("hook-1")
    assert platform.request("POST", f"{FUNCTIONS}/hook/webhook-secret", {}).status == 201
    stop = threading.Event()
    with receiver(silent(stop)) as target:
        invocation = {"invocationID": "hook-2", "requestID": "hook", "payload": ""}
        asked = {**invocation, "onDone": {"url": target.url}}
        assert platform.request("POST", INVOCATIONS, asked).status == 202
        cancel = f"{INVOCATIONS}/hook-2/cancel"
        assert platform.request("POST", cancel, {"operationID": "hook-3"}).status == 202
        platform.wait(lambda: len(target.received) == 1, "the webhook")

        platform.kill("results")
        stop.set()
        target.respond = status(204)
        platform.start("results")
        platform.wait(lambda: len(target.received) == 2, "its repetition", CLAIM_SECONDS + 60)

        def webhook() -> dict[str, str]:
            found: dict[str, str] = platform.request("GET", f"{INVOCATIONS}/hook-2").data[
                "webhook"
            ]
            return found

        platform.wait(lambda: webhook()["state"] == "Delivered", "the record")
    first, second = (one.headers["webhook-id"] for one in target.received)
    assert first == second == webhook()["deliveryID"]
    platform.request("DELETE", f"{FUNCTIONS}/hook?operationID=hook-4")
