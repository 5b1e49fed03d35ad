"""Webhooks: their URL, the addresses they may be sent to, their signature and retries. Pure.

Headers and signatures follow Standard Webhooks (https://www.standardwebhooks.com), so that its
libraries can verify a webhook.
"""

import base64
import hmac
import re
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Annotated, Final, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from gpuplatform.formats.model import SpecModel
from gpuplatform.formats.text import quoted

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

SECRET_PREFIX: Final = "whsec_"  # noqa: S105 - the prefix of secrets
ID_HEADER: Final = "webhook-id"
TIME_HEADER: Final = "webhook-timestamp"
SIGNATURE_HEADER: Final = "webhook-signature"

RETRY_SECONDS: Final = (5, 60, 300, 1800, 2 * 3600, 5 * 3600, 10 * 3600)
"""Delays in seconds after the failed attempts of a delivery, about 18 hours in total."""

MAX_ATTEMPTS: Final = len(RETRY_SECONDS) + 1

_MAX_URL: Final = 2048
_LABEL: Final = "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_PORT: Final = (
    "[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]"
)
_PATH: Final = "([A-Za-z0-9._~/?:@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*"
_URL: Final = rf"https?://({_LABEL}([.]{_LABEL}){{0,20}}|\[[0-9A-Fa-f:.]{{2,45}}\])(:({_PORT}))?([/?]{_PATH})?"

_FORBIDDEN: Final[Sequence[Network]] = tuple(
    map(
        ip_network,
        (
            # Azure serves metadata at this public address. Other clouds use link-local addresses.
            "168.63.129.16",
            # Networks of the IANA registries of special addresses that some versions of Python
            # regard as global.
            *("192.0.0.0/24", "64:ff9b:1::/48", "3fff::/20", "5f00::/16"),
        ),
    )
)

_NAT64: Final = IPv6Network("64:ff9b::/96")


def _webhook_url(url: str) -> str:
    if not re.fullmatch(_URL, url) or not _has_valid_host(url):
        msg = (
            f"{quoted(url)} is not a URL to which a webhook can be sent. Use 'https://HOST/PATH'"
            " without a user and a fragment."
        )
        raise ValueError(msg)
    return url


def _has_valid_host(url: str) -> bool:
    """Return whether a host that looks like an address is one, in its usual form."""
    host = urlsplit(url).hostname or ""
    is_number = ":" in host or re.fullmatch("[0-9]+|0x[0-9a-f]*", host.rpartition(".")[2])
    return not is_number or literal_address(url) is not None


class OnDone(SpecModel):
    """The webhook that is sent when an invocation ends. An empty object sends none."""

    url: Annotated[str, AfterValidator(_webhook_url)] | None = Field(
        default=None,
        max_length=_MAX_URL,
        json_schema_extra={"pattern": f"^{_URL}$"},
        description="URL to which the outcome is posted.",
        examples=["https://example.com/hooks/gpu"],
    )


def literal_address(url: str) -> Address | None:
    """Return the IP address in the URL, or `None` if the URL contains a name."""
    try:
        return ip_address(urlsplit(url).hostname or "")
    except ValueError:
        return None


def may_connect(address: Address, allowed: Iterable[Network]) -> bool:
    """Return whether webhooks may be sent to the address: a public or an allowed one.

    Private, loopback, link-local, multicast, reserved and metadata addresses are not public. An
    IPv6 address that contains an IPv4 address, which a router or the kernel translates, is as
    public as the IPv4 address.
    """
    target = _target(address)
    if any(target in network or address in network for network in allowed):
        return True
    is_site_local = isinstance(target, IPv6Address) and target.is_site_local
    return (
        target.is_global
        and not target.is_multicast
        and not target.is_reserved
        and not is_site_local
        and not any(target in network for network in _FORBIDDEN)
    )


def _target(address: Address) -> Address:
    if isinstance(address, IPv4Address):
        return address
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    teredo = address.teredo
    return address.ipv4_mapped or address.sixtofour or (teredo[1] if teredo else address)


def retry_seconds(attempts: int) -> int | None:
    """Return the delay after this number of failed attempts, or `None` after the last one."""
    return RETRY_SECONDS[attempts - 1] if attempts < MAX_ATTEMPTS else None


def secret_text(key: bytes) -> str:
    """Return the secret with this key, as users receive it."""
    return f"{SECRET_PREFIX}{base64.b64encode(key).decode()}"


def signature(keys: Sequence[bytes], delivery: str, seconds: int, body: bytes) -> str:
    """Return the signature header of an attempt, with one signature for each key.

    Args:
        keys: The keys of the function's valid secrets.
        delivery: The id of the delivery.
        seconds: The time of the attempt, as a Unix timestamp.
        body: The body of the request.
    """
    signed = f"{delivery}.{seconds}.".encode() + body
    digests = (hmac.digest(key, signed, "sha256") for key in keys)
    return " ".join(f"v1,{base64.b64encode(digest).decode()}" for digest in digests)


def origin_of(url: str) -> str:
    """Return a URL without its path and query, which can contain a secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}/"
