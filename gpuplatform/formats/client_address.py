"""The address of the client of a request that proxies may have forwarded."""

from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Any, Final

Networks = Iterable[IPv4Network | IPv6Network]

_IPV6_PREFIX: Final = 64
"""A client can choose the other bits of its address."""


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
    known = _parsed(peer)
    if known is None:
        return peer
    for forwarded in reversed(forwarded_for.split(",")):
        following = _parsed(forwarded.strip())
        if following is None or not _is_in(known, networks):
            break
        known = following
    return str(known)


def client_network(address: str) -> str:
    """Return the name of a client for limits: an IPv4 address, or the network of an IPv6 address.

    Other texts, such as the empty one of an unknown address, are returned as they are.
    """
    found = _parsed(address)
    if isinstance(found, IPv6Address):
        return str(IPv6Network((int(found), _IPV6_PREFIX), strict=False))
    return address if found is None else str(found)


def _is_in(address: IPv4Address | IPv6Address, networks: Networks) -> bool:
    return any(address in network for network in networks if network.version == address.version)


def _parsed(text: str) -> IPv4Address | IPv6Address | None:
    """Return the address in its only form: servers for both versions map IPv4 to IPv6."""
    try:
        found = ip_address(text.partition("%")[0])  # A zone is only known to its own machine.
    except ValueError:
        return None
    return found if isinstance(found, IPv4Address) else found.ipv4_mapped or found
