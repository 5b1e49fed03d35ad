"""The address of a client behind proxies."""

from ipaddress import ip_network

import pytest

from gpuplatform.formats.client_address import client_address, client_network

PROXIES = (ip_network("10.0.0.0/8"), ip_network("fd00::/8"))


@pytest.mark.parametrize(
    ("peer", "forwarded", "expected"),
    [
        ("203.0.113.9", "", "203.0.113.9"),
        ("203.0.113.9", "198.51.100.1", "203.0.113.9"),
        ("10.0.0.1", "", "10.0.0.1"),
        ("10.0.0.1", "198.51.100.1", "198.51.100.1"),
        ("10.0.0.1", "192.0.2.66, 198.51.100.1", "198.51.100.1"),
        ("10.0.0.1", "198.51.100.1, 10.0.0.2", "198.51.100.1"),
        ("fd00::1", "2001:db8::5", "2001:db8::5"),
        ("10.0.0.1", "198.51.100.1, nonsense", "10.0.0.1"),
        ("", "198.51.100.1", ""),
        ("::ffff:203.0.113.9", "", "203.0.113.9"),
        ("::ffff:10.0.0.1", "192.0.2.66, ::ffff:198.51.100.1", "198.51.100.1"),
        ("fd00::1", "2001:DB8:0::0005", "2001:db8::5"),
        ("fd00::1", "fe80::1%eth0", "fe80::1"),
    ],
)
def test_only_trusted_proxies_forward_an_address(peer: str, forwarded: str, expected: str) -> None:
    assert client_address(peer, forwarded, PROXIES) == expected


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("203.0.113.9", "203.0.113.9"),
        ("::ffff:203.0.113.9", "203.0.113.9"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::ffff:2%eth0", "2001:db8::/64"),
        ("2001:db8:0:1::1", "2001:db8:0:1::/64"),
        ("", ""),
    ],
)
def test_a_network_of_ipv6_is_one_client(address: str, expected: str) -> None:
    assert client_network(address) == expected
