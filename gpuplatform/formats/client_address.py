"""The address of the client of a request that proxies may have forwarded."""

from collections.abc import Iterable, Mapping
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import Any

Networks = Iterable[IPv4Network | IPv6Network]


def client_of(meta: Mapping[str, Any], trusted: Networks) -> str:
    """Return the address of the client of a request, from the variables of WSGI (`meta`)."""
    return client_address(
        meta.get("REMOTE_ADDR", ""), meta.get("HTTP_X_FORWARDED_FOR", ""), trusted
    )


def client_address(peer: str, forwarded_for: str, trusted: Networks) -> str:
    """Return the address of the client: the last one that no trusted proxy has.

    Each proxy appends the address of its peer to `X-Forwarded-For`, so the client can choose the
    addresses before the one that the first proxy appended.

    Args:
        peer: The address from which the request came, or an empty string if it is unknown.
        forwarded_for: The value of `X-Forwarded-For`, or an empty string.
        trusted: The networks of the proxies in front of the platform.
    """
    networks = tuple(trusted)
    address = peer
    for forwarded in reversed(forwarded_for.split(",")):
        if not _is_in(address, networks):
            return address
        text = forwarded.strip()
        if not _is_address(text):
            return address
        address = text
    return address


def _is_in(text: str, networks: Networks) -> bool:
    return _is_address(text) and any(
        ip_address(text) in network
        for network in networks
        if network.version == ip_address(text).version
    )


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
