"""Which addresses belong to the public internet."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchard.gateway.media.addresses import is_public

PUBLIC = ["1.1.1.1", "8.8.8.8", "172.15.0.1", "172.32.0.1", "93.184.216.34", "2606:4700::1111", "2a00:1450:4001::2004"]
OTHERS = [
    "0.0.0.0",  # noqa: S104
    "0.1.2.3",
    "10.0.0.1",
    "100.64.0.1",
    "100.127.255.254",
    "127.0.0.1",
    "127.255.255.254",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.1",
    "192.0.0.9",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:8.8.8.8",
    "64:ff9b:1::a00:1",
    "100::1",
    "2001::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "2002:808:808::1",
    "3fff::1",
    "5f00::1",
    "fc00::1",
    "fd12:3456:789a::1",
    "fe80::1",
    "fe80::1%eth0",
    "2606:4700::1111%eth0",
    "fec0::1",
    "ff02::1",
    "ff0e::1",
]


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize("address", OTHERS)
def test_all_others(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", [*PUBLIC[:5], *OTHERS[:22]])
def test_what_a_translator_leads_to_counts(address: str) -> None:
    wrapped = ipaddress.IPv6Address((0x64FF9B << 96) | int(ipaddress.IPv4Address(address)))
    assert is_public(str(wrapped)) == is_public(address)


NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
"""The library counts them as reserved; the test above says which of them are public."""


@given(st.ip_addresses().filter(lambda address: address not in NAT64))
def test_nothing_that_the_standard_library_knows_as_special_is_public(address: ipaddress.IPv4Address) -> None:
    special = (
        address.is_private
        or address.is_loopback
        or address.is_link_local
        or address.is_multicast
        or address.is_reserved
        or address.is_unspecified
    )
    assert not (special and is_public(str(address)))
