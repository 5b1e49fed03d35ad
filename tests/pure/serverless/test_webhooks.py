"""Rules of webhooks: URLs, addresses, signatures and delays."""

import base64
from ipaddress import ip_address, ip_network

import pytest

from gpuplatform.errors import InvalidSpec
from serverless.core.webhooks import (
    MAX_ATTEMPTS,
    RETRY_SECONDS,
    OnDone,
    may_connect,
    retry_seconds,
    secret_text,
    signature,
)

VALID = [
    "https://example.com",
    "http://example.com/hook",
    "https://hooks.example.com:8443/a/b?token=x%20y&n=1",
    "https://93.184.216.34/hook",
    "https://[2606:2800:220:1::1]:443/hook",
    "https://a-b.example/?q",
]
INVALID = [
    "",
    "example.com/hook",
    "ftp://example.com/",
    "file:///etc/passwd",
    "https://",
    "https:///hook",
    "https://user@example.com/",
    "https://user:password@example.com/",
    "https://example.com/#fragment",
    "https://example.com:0/",
    "https://example.com:65536/",
    "https://example.com:/",
    "https://example.com/a b",
    "https://example.com/\n",
    "https://example.com/ü",
    "https://ex_ample.com/",
    "https://-example.com/",
    "https://example..com/",
    "https://2130706433/",
    "https://127.1/",
    "https://0x7f.0.0.1/",
    "https://0x7f000001/",
    "https://0177.0.0.1/",
    "https://1.2.3.4.5/",
    "https://256.1.1.1/",
    "https://[fe80::1%25eth0]/",
    "https://[::1/",
    "https://[1.2.3.4]/",
    "https://example.com\\@evil.example/",
    "https://example.com/" + "a" * 2048,
]


@pytest.mark.parametrize("url", VALID)
def test_url_is_accepted(url: str) -> None:
    assert OnDone.parse({"url": url}).url == url


@pytest.mark.parametrize("url", INVALID)
def test_url_is_rejected_with_its_field(url: str) -> None:
    with pytest.raises(InvalidSpec) as caught:
        OnDone.parse({"url": url})

    assert [one.field for one in caught.value.details] == ["url"]


FORBIDDEN = [
    *("127.0.0.1", "127.9.9.9", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1"),
    *("100.64.0.1", "100.100.100.200", "169.254.169.254", "169.254.0.23", "192.0.0.192"),
    *("168.63.129.16", "224.0.0.1", "240.0.0.1", "255.255.255.255", "198.18.0.1", "192.0.2.1"),
    *("::", "::1", "fe80::1", "fc00::1", "fd00:ec2::254", "fec0::1", "ff02::1"),
    *("::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe"),
    *("2002:7f00:1::", "2001:0:4136:e378:8000:63bf:80ff:fffe", "2001:db8::1", "64:ff9b:1::1"),
]


@pytest.mark.parametrize("text", FORBIDDEN)
def test_address_that_is_not_public_is_forbidden(text: str) -> None:
    assert not may_connect(ip_address(text), [])


@pytest.mark.parametrize(
    "text",
    ["93.184.216.34", "1.1.1.1", "2606:2800:220:1::1", "64:ff9b::5db8:d822", "::ffff:1.1.1.1"],
)
def test_public_address_is_allowed(text: str) -> None:
    assert may_connect(ip_address(text), [])


@pytest.mark.parametrize(
    ("text", "network", "expected"),
    [
        ("10.0.5.7", "10.0.5.0/24", True),
        ("10.0.6.7", "10.0.5.0/24", False),
        ("::ffff:10.0.5.7", "10.0.5.0/24", True),
        ("fd00::7", "fd00::/64", True),
        ("127.0.0.1", "::1/128", False),
    ],
)
def test_setting_allows_a_network(text: str, network: str, *, expected: bool) -> None:
    assert may_connect(ip_address(text), [ip_network(network)]) is expected


def test_signature_is_that_of_standard_webhooks() -> None:
    # The example of the specification's libraries.
    key = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")

    signed = signature([key], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')

    assert signed == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert secret_text(key) == "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def test_signature_contains_one_value_for_each_key() -> None:
    assert len(signature([b"a", b"b"], "id", 1, b"").split(" ")) == 2


def test_delays_grow_and_end() -> None:
    delays = [retry_seconds(attempts) for attempts in range(1, MAX_ATTEMPTS + 1)]

    assert delays == [*RETRY_SECONDS, None]
    assert sorted(RETRY_SECONDS) == list(RETRY_SECONDS)
