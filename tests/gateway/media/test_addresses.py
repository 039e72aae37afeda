"""Which addresses belong to the public internet."""

import ipaddress

import pytest
from hypothesis import example, given
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


@given(st.ip_addresses())
@example(ipaddress.IPv6Address("64:ff9b::100:0"))
@example(ipaddress.IPv6Address("64:ff9b::7f00:1"))
def test_nothing_that_the_standard_library_knows_as_special_is_public(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    leads_to = address
    if address in ipaddress.IPv6Network("64:ff9b::/96"):  # the library counts a translator's addresses as reserved
        leads_to = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    special = (
        leads_to.is_private
        or leads_to.is_loopback
        or leads_to.is_link_local
        or leads_to.is_multicast
        or leads_to.is_reserved
        or leads_to.is_unspecified
    )
    assert not (special and is_public(str(address)))
