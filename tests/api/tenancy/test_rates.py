"""The rates of requests: whose they are, which requests count, and the responses."""

import json
from collections.abc import Iterator
from typing import Any, NoReturn

import pytest
from django.test import Client
from pytest_django import Settings

from gpuplatform.dev.embedded.ports import free_port
from gpuplatform.health import HealthCode
from gpuplatform.observability.health_document import _RECENT
from gpuplatform.rates import counters
from gpuplatform.rates.counters import COUNTERS, Counters, OwnCounter, SharedCounter
from gpuplatform.settings.rates import Rates
from gpuplatform.tenancy.models import Scope, Tenant
from gpuplatform.tenancy.selectors import tenant_by_name
from gpuplatform.tenancy.services import token_create
from tests.fakes.api import JOBS, UNITS
from tests.fakes.conformance import check_reply
from tests.fakes.rates import Clock, WholeCounter, clock

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("catalogue", "cluster")]

__all__ = ["clock"]
INVOCATIONS = "/api/v1/serverless/invocations"
ME = "/api/v1/me"
ROOT = "/api/v1/"
RATES = Rates(
    token_reads=6,
    token_writes=4,
    token_invocations=2,
    tenant_reads=8,
    tenant_writes=6,
    tenant_invocations=4,
    address=4,
    burst_seconds=5,
)
READS, WRITES, INVOKES, OF_ADDRESS = 30, 20, 10, 20
OF_TENANT = 40


@pytest.fixture(autouse=True)
def _limited(settings: Settings, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The time stands still, so that no test depends on its duration."""
    settings.GPUPLATFORM_DEV = False
    settings.ALLOWED_HOSTS = ["testserver"]
    settings.RATES = RATES
    monkeypatch.setattr(COUNTERS, "_create", lambda: Counters(WholeCounter(), OwnCounter()))
    COUNTERS.reset()
    yield
    COUNTERS.reset()


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker counts. On a busy machine, it responds later than in production."""
    monkeypatch.setattr(counters, "BROKER_SECONDS", 30.0)
    monkeypatch.setattr(COUNTERS, "_create", lambda: Counters(SharedCounter(), OwnCounter()))
    COUNTERS.reset()


class Caller:
    """A token of a tenant, and its requests."""

    def __init__(self, name: str = "ci", *scopes: Scope, tenant: Tenant | None = None) -> None:
        owner = tenant or tenant_by_name()
        self.secret = token_create(tenant=owner, name=name, scopes=scopes or [Scope.USER])[1]

    def __call__(self, method: str = "GET", path: str = ME, **extra: Any) -> Any:
        headers = {"Authorization": f"Bearer {self.secret}", **extra.pop("headers", {})}
        return send(method, path, headers=headers, **extra)


def send(method: str = "GET", path: str = ROOT, **extra: Any) -> Any:
    client = Client(raise_request_exception=False)
    response = client.generic(method, path, content_type="application/json", **extra)
    check_reply(response)
    return response


def allowed(call: Any, *arguments: str, most: int = 50, **extra: Any) -> int:
    """Return the number of requests until the first one that is rejected because of its rate."""
    for number in range(most):
        if call(*arguments, **extra).status_code == 429:
            return number
    return most


def limit_of(response: Any) -> dict[str, tuple[int, int]]:
    """Return `r` and `t` of each policy in the field `RateLimit`."""
    items = (item.split(";") for item in response["RateLimit"].split(", "))
    return {name.strip('"'): (int(r[2:]), int(t[2:])) for name, r, t in items}


def test_every_response_describes_the_rates() -> None:
    call = Caller()

    first, second = call(), call()

    assert first["RateLimit-Policy"] == '"token-reads";q=30;w=5, "tenant-reads";q=40;w=5'
    assert first["RateLimit"] == '"token-reads";r=29;t=5, "tenant-reads";r=39;t=5'
    assert second["RateLimit"] == '"token-reads";r=28;t=5, "tenant-reads";r=38;t=5'
    assert "Retry-After" not in first


@pytest.mark.usefixtures("broker", "shared")
def test_the_broker_counts(settings: Settings) -> None:
    settings.RATES = Rates(token_reads=1, burst_seconds=60)
    call = Caller()

    assert call()["RateLimit"] == '"token-reads";r=59;t=60'
    COUNTERS.reset()  # As in another process.
    assert limit_of(call())["token-reads"][0] == 58


def test_a_rejection_has_a_code_and_the_time_of_the_next_attempt() -> None:
    call = Caller()
    assert allowed(call) == READS

    rejected = call()

    error = json.loads(rejected.content)["error"]
    assert (rejected.status_code, error["code"], error["details"]) == (429, "rate_limited", [])
    assert error["traceID"] == rejected["X-Request-ID"]
    assert rejected["Retry-After"] == "5"
    assert rejected["RateLimit"] == '"token-reads";r=0;t=5, "tenant-reads";r=10;t=5'
    assert rejected["RateLimit-Policy"] == call("HEAD")["RateLimit-Policy"]


def test_the_rate_refills_with_time(clock: Clock) -> None:
    call = Caller()
    assert allowed(call) == READS

    clock.seconds += int(call()["Retry-After"]) + 0.5
    assert allowed(call) == 3, "27 of 30 count after a tenth of a period"


def test_tokens_share_only_the_rate_of_their_tenant() -> None:
    one, another = Caller("one"), Caller("another")
    foreign = Caller("foreign", tenant=Tenant.objects.create(name="b", namespace="tenant-b"))

    assert allowed(one) == READS
    assert allowed(another) == OF_TENANT - READS
    assert foreign().status_code == 200


def test_reads_writes_and_invocations_have_separate_rates() -> None:
    call = Caller()

    assert allowed(call, "POST", INVOCATIONS) == INVOKES
    assert allowed(call, "POST", UNITS) == WRITES
    assert call().status_code == 200
    assert "token-reads" in limit_of(call("HEAD"))
    assert "token-writes" in limit_of(call("POST", f"{INVOCATIONS}/a/cancel"))


def test_rejected_and_repeated_requests_count() -> None:
    call = Caller()
    body: dict[str, Any] = {
        "operationID": "a",
        "name": "a",
        "specName": "g1.1",
        "image": "example.com/a:1",
    }
    body["wait"] = {"maxSeconds": 600}
    answers = [call("POST", UNITS, data=json.dumps(body)) for _ in range(2)]
    forbidden = call("POST", JOBS + "/a/cancel")

    assert [one.status_code for one in answers] == [202, 200]
    assert forbidden.status_code == 403
    assert limit_of(forbidden)["token-writes"][0] == WRITES - 3


def test_tokens_of_operators_have_their_own_rate(settings: Settings) -> None:
    call = Caller("ops", Scope.USER, Scope.OPERATOR)
    unlimited = call()
    settings.RATES = Rates(token_reads=1, tenant_reads=1, operator=5, burst_seconds=2)
    limited = call("POST", UNITS)

    assert "RateLimit" not in unlimited
    assert limited["RateLimit"] == '"operator";r=9;t=2'


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        pytest.param(ROOT, {}, 200, id="a public route"),
        pytest.param(ME, {}, 401, id="without a token"),
        pytest.param(ME, {"Authorization": "Bearer wrong"}, 401, id="an unknown token"),
        pytest.param(ME, {"Authorization": "Basic wrong"}, 401, id="a malformed token"),
    ],
)
def test_requests_without_a_token_count_for_their_address(
    path: str, headers: dict[str, str], status: int
) -> None:
    first = send("GET", path, headers=headers, REMOTE_ADDR="198.51.100.7")
    assert first.status_code == status
    assert first["RateLimit"] == '"address";r=19;t=5'

    left = allowed(send, "GET", path, headers=headers, REMOTE_ADDR="198.51.100.7")
    assert left == OF_ADDRESS - 1
    other = send("GET", path, headers=headers, REMOTE_ADDR="198.51.100.8")
    assert other.status_code == status
    assert Caller()("GET", ME, REMOTE_ADDR="198.51.100.7").status_code == 200


def test_a_network_of_ipv6_is_one_address() -> None:
    send(REMOTE_ADDR="2001:db8::1")

    assert limit_of(send(REMOTE_ADDR="2001:db8::ffff:2"))["address"][0] == OF_ADDRESS - 2
    assert limit_of(send(REMOTE_ADDR="2001:db8:0:1::1"))["address"][0] == OF_ADDRESS - 1


def test_only_a_trusted_proxy_forwards_the_address() -> None:
    for number in range(2):
        send(REMOTE_ADDR="203.0.113.1", headers={"X-Forwarded-For": f"198.51.100.{number}"})
    untrusted = send(REMOTE_ADDR="203.0.113.1")
    trusted = send(REMOTE_ADDR="127.0.0.1", headers={"X-Forwarded-For": "198.51.100.1"})

    assert limit_of(untrusted)["address"][0] == OF_ADDRESS - 3
    assert limit_of(trusted)["address"][0] == OF_ADDRESS - 1


class Unread:
    """A body that must not be read."""

    def read(self, *_: object) -> NoReturn:
        raise AssertionError("the body was read")

    readline = read

    def close(self) -> None:
        """Close nothing."""


def test_the_body_of_a_rejected_request_is_not_read() -> None:
    call = Caller()
    body: dict[str, Any] = {"wsgi.input": Unread(), "CONTENT_LENGTH": "9"}
    body["CONTENT_TYPE"] = "application/json"
    assert call("POST", UNITS, **body).status_code == 500, "it is read while the rate allows it"
    allowed(call, "POST", UNITS)

    assert call("POST", UNITS, **body).status_code == 429


@pytest.mark.parametrize("accept", ["text/html", "*/*", "application/xml"])
def test_a_rejection_is_never_html(accept: str) -> None:
    call = Caller()
    allowed(call)

    rejected = call(headers={"Accept": accept})

    assert rejected.status_code == 429
    assert rejected["Content-Type"] == "application/json"
    assert json.loads(rejected.content)["error"]["code"] == "rate_limited"


@pytest.mark.usefixtures("shared")
def test_without_the_broker_half_of_the_rate_remains(settings: Settings) -> None:
    settings.CELERY_BROKER_URL = f"redis://127.0.0.1:{free_port()}/0"
    call = Caller()

    assert allowed(call) == READS // 2
    _RECENT.reset()
    health = json.loads(send("GET", "/api/v1/health").content)["data"]
    assert health["parts"]["rates"]["code"] == HealthCode.DEGRADED
    assert health["parts"]["rates"]["ok"] is True


@pytest.mark.usefixtures("shared")
def test_a_rate_of_zero_is_unlimited_and_calls_no_broker(settings: Settings) -> None:
    settings.CELERY_BROKER_URL = f"redis://127.0.0.1:{free_port()}/0"
    settings.RATES = Rates()

    response = Caller()()

    assert (response.status_code, "RateLimit" in response) == (200, False)
    assert not COUNTERS.get().is_degraded


def test_a_single_rate_can_be_unlimited(settings: Settings) -> None:
    settings.RATES = Rates(token_reads=1, burst_seconds=5)

    assert Caller()()["RateLimit"] == '"token-reads";r=4;t=5'


def test_local_callers_in_development_mode_and_the_admin_are_unlimited(
    settings: Settings,
) -> None:
    settings.GPUPLATFORM_DEV = True
    assert "RateLimit" not in send("GET", ME)

    for _ in range(OF_ADDRESS + 1):
        assert Client().get("/admin/login/", REMOTE_ADDR="198.51.100.7").status_code == 200
