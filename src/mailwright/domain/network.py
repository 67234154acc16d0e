"""Where an address leads: into the world, or into a network of somebody's own."""

import socket
from ipaddress import IPv4Address, IPv6Address, ip_address


def is_public_address(address: str) -> bool:
    """Of an address in digits, as a name turns into."""
    try:
        return _is_public(ip_address(address.partition("%")[0]))
    except ValueError:
        return False


def is_private_host(host: str) -> bool:
    """Whether a host tells by itself, before anybody looks it up, that it is in a private network."""
    name = host.rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    found = _in_digits(name)
    return found is not None and not _is_public(found)


def _is_public(found: IPv4Address | IPv6Address) -> bool:
    inner = getattr(found, "ipv4_mapped", None) or getattr(found, "sixtofour", None)
    return found.is_global and not found.is_multicast and (inner is None or inner.is_global)


def _in_digits(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host.partition("%")[0])
    except ValueError:
        pass
    try:
        return IPv4Address(socket.inet_aton(host))  # `127.1` and `0x7f000001` are addresses to resolvers
    except OSError:
        return None
