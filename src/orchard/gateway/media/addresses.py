"""The IP addresses that the server may connect to for a caller: those of the public internet."""

import ipaddress

# IPv6 addresses that embed an IPv4 address. Translators may route them to a private network.
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
"""RFC 6052: networks without IPv4 reach IPv4 addresses under this prefix."""
_GLOBAL = ipaddress.IPv6Network("2000::/3")
"""All addresses that are assigned for the internet."""
_SPECIAL = tuple(
    map(
        ipaddress.IPv6Network,
        (
            "2001::/23",  # for protocols (RFC 6890), such as Teredo
            "2001:db8::/32",  # for documentation (RFC 3849)
            "2002::/16",  # 6to4 (RFC 3056)
            "3fff::/20",  # for documentation (RFC 9637)
        ),
    )
)
_SPECIAL_V4 = tuple(
    map(
        ipaddress.IPv4Network,
        (
            "192.0.0.0/24",  # for protocols (RFC 6890)
            "192.88.99.0/24",  # relays of 6to4 (RFC 7526)
        ),
    )
)


def is_public(address: str) -> bool:
    """Return whether an address, in the form that the resolver returns, belongs to the public internet.

    Private, loopback, link-local, shared, multicast, reserved and documentation addresses are not
    (https://www.iana.org/assignments/iana-ipv4-special-registry and -ipv6-), and neither are those that embed one.
    """
    if "%" in address:  # an address with a zone is local to one of this machine's networks (RFC 4007)
        return False
    found = ipaddress.ip_address(address)
    if isinstance(found, ipaddress.IPv6Address):
        if found in _NAT64:
            return is_public(str(ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)))
        return found in _GLOBAL and found.is_global and not any(found in network for network in _SPECIAL)
    return found.is_global and not found.is_multicast and not any(found in network for network in _SPECIAL_V4)
