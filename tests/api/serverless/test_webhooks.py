"""The webhook of functions and invocations, and the secrets of functions."""

from typing import Any

import pytest

from gpuplatform.tenancy.models import Scope
from gpuplatform.tenancy.services import token_create
from serverless.models import Function, Invocation, WebhookSecret
from serverless.phases import FailureClass
from serverless.services.endings import invocation_fail
from serverless.services.webhooks import webhook_record, webhooks_claim
from tests.db.serverless.test_webhooks import FAILURE
from tests.factories.serverless import function_row, tenant_row
from tests.fakes.api import Api

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("catalogue", "cluster")]

FUNCTIONS = "/api/v1/serverless/functions"
INVOCATIONS = "/api/v1/serverless/invocations"
SECRET = f"{FUNCTIONS}/echo/webhook-secret"
URL = "https://example.com/hook"
CREATE: dict[str, Any] = {"requestID": "echo", "specName": "g1.1", "image": "echo:1"}
INVOKE: dict[str, Any] = {"requestID": "echo", "payload": "", "onDone": {"url": URL}}


def test_function_has_default_webhook_that_can_be_removed(api: Api) -> None:
    created = {**CREATE, "operationID": "create-1", "onDone": {"url": URL}}
    assert api.post(FUNCTIONS, created).status == 202
    before = api.get(f"{FUNCTIONS}/echo").data["onDone"]

    api.put(f"{FUNCTIONS}/echo", {"operationID": "put-1", "onDone": {}})

    assert before == {"url": URL}
    assert api.get(f"{FUNCTIONS}/echo").data["onDone"] is None


@pytest.mark.parametrize(
    ("on_done", "field"),
    [
        ({"url": "ftp://example.com"}, "onDone.url"),
        ({"url": ""}, "onDone.url"),
        ({"url": 1}, "onDone.url"),
        ({"url": None}, "onDone.url"),
        ({"to": URL}, "onDone.to"),
        (URL, "onDone"),
        (None, "onDone"),
    ],
)
def test_invalid_webhook_is_rejected_with_its_field(on_done: Any, field: str, api: Api) -> None:
    function_row("echo")

    created = api.post(FUNCTIONS, {**CREATE, "operationID": "create-1", "onDone": on_done})
    invoked = api.post(INVOCATIONS, {**INVOKE, "onDone": on_done})

    assert [(one.status, one.fields) for one in (created, invoked)] == [(400, [field])] * 2
    assert (Function.objects.count(), Invocation.objects.count()) == (1, 0)


def test_secret_is_returned_once(api: Api) -> None:
    function_row("echo")

    first, second = api.post(SECRET, {}), api.post(SECRET, {})

    assert [first.status, second.status] == [201, 201]
    assert first.data["secret"] != second.data["secret"]
    assert first.data["previousExpiresAt"] is None
    assert second.data["previousExpiresAt"] is not None
    assert first.data["secret"] not in str(api.get(f"{FUNCTIONS}/echo").json)


@pytest.mark.parametrize("seconds", [-1, 8 * 24 * 3600, "1", 1.5])
def test_overlap_of_secrets_is_limited(seconds: Any, api: Api) -> None:
    function_row("echo")

    answer = api.post(SECRET, {"previousExpiresInSeconds": seconds})

    assert (answer.status, answer.fields) == (400, ["previousExpiresInSeconds"])
    assert not WebhookSecret.objects.exists()


def test_secret_of_another_tenant_cannot_be_created(api: Api) -> None:
    function_row("echo")
    _, other = token_create(tenant=tenant_row("other"), name="app", scopes=[Scope.USER])

    answer = api.post(SECRET, {}, HTTP_AUTHORIZATION=f"Bearer {other}")

    assert answer.status == 404
    assert not WebhookSecret.objects.exists()


def test_invocation_without_secret_is_a_conflict(api: Api) -> None:
    function_row("echo")

    answer = api.post(INVOCATIONS, INVOKE)

    assert (answer.status, answer.code) == (409, "phase_conflict")
    assert not Invocation.objects.exists()


def test_webhook_with_its_attempts_is_part_of_the_invocation(api: Api) -> None:
    function_row("echo")
    api.post(SECRET, {})
    accepted = api.post(INVOCATIONS, {**INVOKE, "invocationID": "one"}).data["webhook"]
    row = Invocation.objects.get()
    invocation_fail(row.pk, row.publications, FailureClass.FRAMEWORK_ERROR, "It failed.")
    (claimed,) = webhooks_claim(1, busy={}, per_function=1)
    webhook_record(claimed, FAILURE)

    (listed,) = api.get(INVOCATIONS).data
    shown = api.get(f"{INVOCATIONS}/one").data["webhook"]

    assert (accepted["state"], accepted["deliveryID"], accepted["attempts"]) == (
        "Pending",
        None,
        [],
    )
    assert shown == listed["webhook"]
    assert shown["url"] == URL
    assert shown["nextAttemptAt"] is not None
    (attempt,) = shown["attempts"]
    assert attempt["deliveryID"] == shown["deliveryID"] == str(claimed.webhook_id)
    assert (attempt["statusCode"], attempt["reason"]) == (500, "BadStatus")


def test_another_webhook_is_another_request(api: Api) -> None:
    function_row("echo")
    api.post(SECRET, {})
    body = {**INVOKE, "invocationID": "one"}
    api.post(INVOCATIONS, body)

    answer = api.post(INVOCATIONS, {**body, "onDone": {}})

    assert (answer.status, answer.code) == (409, "operation_conflict")
