"""The ports on which ranks will listen."""

import socket

import pytest

from orchard.backends.ranks.join import hold_addresses


def test_nobody_else_gets_a_port_before_mlx() -> None:
    """Another group may start at the same time, and the other hosts take a while to answer."""
    with hold_addresses(["127.0.0.1"] * 2) as addresses:
        places = [(ip, int(port)) for ip, _, port in (address.partition(":") for address in addresses)]
        assert len(set(places)) == 2
        for place in places:
            with socket.socket() as other, pytest.raises(OSError, match="in use"):
                other.bind(place)
    for place in places:
        with socket.socket() as mlx:
            mlx.bind(place)


def test_an_address_of_another_machine_is_an_error() -> None:
    with pytest.raises(OSError, match="assign"), hold_addresses(["127.0.0.1", "192.0.2.1"]):
        pass
