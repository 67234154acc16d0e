"""Classify network addresses as public or private, and group addresses that share a limit."""

import socket
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

# The network whose addresses are translated to IPv4 (RFC 6052).
_NAT64 = IPv6Network("64:ff9b::/96")
# Translation within a local network (RFC 8215), and Teredo, whose servers choose the target.
_LOCAL_NETWORKS = (IPv6Network("64:ff9b:1::/48"), IPv6Network("2001::/32"))
# The third quarter of an ISATAP address (RFC 5214), without the bit for a global address.
_ISATAP = 0x00005EFE


def is_public_address(address: str) -> bool:
    """Return whether a numeric IP address is public."""
    try:
        return _is_public(ip_address(address.partition("%")[0]))
    except ValueError:
        return False


def is_loopback_address(address: str) -> bool:
    """Return whether a numeric IP address is a loopback address of this machine."""
    ip = _parse_ip(address.partition("%")[0])
    if isinstance(ip, IPv6Address) and ip.ipv4_mapped is not None:
        ip = ip.ipv4_mapped
    return ip is not None and ip.is_loopback


def is_private_host(host: str) -> bool:
    """Return whether a host is private, judged by its name or address without a DNS lookup."""
    name = host.rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    ip = _parse_ip(name)
    return ip is not None and not _is_public(ip)


def is_numeric_or_local(host: str) -> bool:
    """Return whether a host is an IP address or localhost, so that its address does not depend on DNS."""
    if host.rstrip(".").lower() == "localhost":
        return True
    try:
        ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


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
    if not ip.is_global or ip.is_multicast:
        return False
    if isinstance(ip, IPv4Address):
        return True
    if any(ip in network for network in _LOCAL_NETWORKS):
        return False
    return all(inner.is_global and not inner.is_multicast for inner in _embedded(ip))


def _embedded(ip: IPv6Address) -> list[IPv4Address]:
    """Return the IPv4 addresses to which a translator or tunnel would forward an IPv6 address."""
    low = IPv4Address(int(ip) & 0xFFFFFFFF)
    found = [inner for inner in (ip.ipv4_mapped, ip.sixtofour) if inner is not None]
    if ip in _NAT64 or int(ip) >> 32 == 0:
        found.append(low)
    if (int(ip) >> 32) & 0xFDFFFFFF == _ISATAP:
        found.append(low)
    return found


def _parse_ip(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host.partition("%")[0])
    except ValueError:
        pass
    try:
        return IPv4Address(socket.inet_aton(host))  # Resolvers accept `127.1` and `0x7f000001` as addresses.
    except OSError:
        return None
