"""Look up DNS records of names that others control. A lookup ends in time, and its answer is bounded."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from mailwright.domain.errors import ConfigurationInvalid

if TYPE_CHECKING:
    from dns.asyncresolver import Resolver

# The timeout of one lookup. It is short, so that a machine without a network does not wait a minute for the result.
DNS_SECONDS: Final = 2.0
# The maximum number of records and of characters. Names of real senders have fewer.
MAX_RECORDS: Final = 100
MAX_TEXT: Final = 16_384

# Returns the records of a name and type as text, or raises `DnsUnavailable`.
Lookup = Callable[[str, str], Awaitable[list[str]]]


class DnsUnavailable(Exception):
    """DNS does not respond."""


def make_lookup(servers: Sequence[str] = ()) -> Lookup:
    """Return lookups that ask these servers, or those of this machine if there are none."""
    return partial(look_up, servers=tuple(map(_parse_server, servers)))


async def look_up(name: str, kind: str, *, servers: Sequence[tuple[str, int]] = ()) -> list[str]:
    """Return the TXT, MX, CNAME, A or AAAA records of a name, as text; empty if it has none."""
    import dns.exception  # noqa: PLC0415 - large, and only DNS checks need it
    import dns.resolver  # noqa: PLC0415

    try:
        async with asyncio.timeout(DNS_SECONDS + 0.5):
            answer = await _resolver(servers).resolve(name, kind, lifetime=DNS_SECONDS)
    except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer):
        return []
    except (dns.exception.Timeout, TimeoutError) as error:
        raise DnsUnavailable(f"DNS did not answer within {DNS_SECONDS:g} seconds") from error
    except (dns.exception.DNSException, OSError, ValueError) as error:
        raise DnsUnavailable("DNS gave no usable answer") from error
    if len(answer) > MAX_RECORDS:
        raise DnsUnavailable(f"DNS answered with more than {MAX_RECORDS} records")
    texts = [_text(record) for record in answer]
    if sum(map(len, texts)) > MAX_TEXT:
        raise DnsUnavailable(f"DNS answered with more than {MAX_TEXT // 1024} KB")
    return texts


def _resolver(servers: Sequence[tuple[str, int]]) -> "Resolver":
    import dns.asyncresolver  # noqa: PLC0415 - as above
    import dns.nameserver  # noqa: PLC0415

    if not servers:
        return dns.asyncresolver.Resolver()
    resolver = dns.asyncresolver.Resolver(configure=False)
    resolver.nameservers = [dns.nameserver.Do53Nameserver(host, port) for host, port in servers]
    return resolver


def _text(record: Any) -> str:
    """Return a record as text. Names are in lower case and without the final dot.

    Control characters and similar ones are removed, so that the text can be shown in a terminal.
    """
    if hasattr(record, "strings"):
        text = b"".join(record.strings).decode(errors="replace")
        return "".join(each if each.isprintable() else " " if each in "\t\r\n" else "�" for each in text)
    if hasattr(record, "exchange"):
        return f"{record.preference} {_name(record.exchange)}"
    return str(record.address) if hasattr(record, "address") else _name(record.target)


def _name(name: Any) -> str:
    return str(name.to_text(omit_final_dot=True)).lower()


def _parse_server(text: str) -> tuple[str, int]:
    import dns.inet  # noqa: PLC0415 - as above

    host, _, port = text.rpartition(":") if text.count(":") == 1 else (text, "", "53")
    if not dns.inet.is_address(host) or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ConfigurationInvalid(f"MAILWRIGHT_DNS_SERVERS: {text!r} is not an address such as 9.9.9.9 or 10.0.0.2:53")
    return host, int(port)
