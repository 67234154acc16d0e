"""Classify network addresses: public or private, and which of them share a limit."""

import socket
from ipaddress import IPv4Address, IPv6Address, ip_address


def is_public_address(address: str) -> bool:
    """Return whether a numeric IP address is public."""
    try:
        return _is_public(ip_address(address.partition("%")[0]))
    except ValueError:
        return False


def is_private_host(host: str) -> bool:
    """Return whether a host is private, judged by its name or address without a DNS lookup."""
    name = host.rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    ip = _parse_ip(name)
    return ip is not None and not _is_public(ip)


def network_of(host: str) -> str:
    """Return the network that limits count as one client: an IPv4 address, or the /64 network of an IPv6 address."""
    try:
        address = ip_address(host)
    except ValueError:
        return host[:100]
    if isinstance(address, IPv4Address):
        return str(address)
    return str(address.ipv4_mapped or f"{IPv6Address(int(address) >> 64 << 64)}/64")


def _is_public(ip: IPv4Address | IPv6Address) -> bool:
    inner = getattr(ip, "ipv4_mapped", None) or getattr(ip, "sixtofour", None)
    return ip.is_global and not ip.is_multicast and (inner is None or inner.is_global)


def _parse_ip(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host.partition("%")[0])
    except ValueError:
        pass
    try:
        return IPv4Address(socket.inet_aton(host))  # Resolvers accept `127.1` and `0x7f000001` as addresses.
    except OSError:
        return None
