"""A DNS server on a port of its own, with the records of a test. It can also be slow, or answer with nonsense."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset

# Records by type and name.
Zone = dict[tuple[str, str], list[str]]


class DnsServer:
    def __init__(self) -> None:
        self.zone: Zone = {}
        self.silent: set[str] = set()  # Names that get no answer.
        self.nonsense: Mapping[str, bytes] = {}  # Raw answers by name.
        self.aliases: Mapping[str, str] = {}  # The targets of CNAME records by name, which may form a loop.
        self.asked: Counter[str] = Counter()
        self.address = ""

    def publish(self, records: Sequence[Any]) -> None:
        """Publish records, which have a type, a name and a value. Long texts are split as in a zone file."""
        for record in records:
            self.zone.setdefault((record.type, record.name), []).append(record.value)

    def answer(self, query: bytes) -> bytes | None:
        asked = dns.message.from_wire(query)
        [question] = asked.question
        name, kind = question.name.to_text(omit_final_dot=True).lower(), dns.rdatatype.to_text(question.rdtype)
        self.asked[name] += 1
        if name in self.silent:
            return None
        if name in self.nonsense:
            return query[:2] + self.nonsense[name]
        response = dns.message.make_response(asked)
        response.flags |= dns.flags.RA
        seen: set[str] = set()
        while name in self.aliases and name not in seen:
            seen.add(name)
            response.answer.append(dns.rrset.from_text(f"{name}.", 60, "IN", "CNAME", f"{self.aliases[name]}."))
            name = self.aliases[name]
        values = self.zone.get((kind, name))
        if values:
            response.answer.append(dns.rrset.from_text_list(f"{name}.", 60, "IN", kind, _texts(kind, values)))
        elif not any(known == name for _, known in self.zone):
            response.set_rcode(dns.rcode.NXDOMAIN)
        return response.to_wire(max_size=65_535)


def _texts(kind: str, values: Sequence[str]) -> list[str]:
    if kind in ("A", "AAAA"):
        return list(values)
    if kind != "TXT":
        return [f"{value}." for value in values]
    escaped = [[_escape(value[start : start + 200]) for start in range(0, len(value), 200)] or [""] for value in values]
    return [" ".join(f'"{part}"' for part in parts) for parts in escaped]


def _escape(text: str) -> str:
    return "".join(
        character
        if " " <= character <= "~" and character not in '"\\'
        else "".join(f"\\{byte:03}" for byte in character.encode())
        for character in text
    )


class _Protocol(asyncio.DatagramProtocol):
    def __init__(self, server: DnsServer) -> None:
        self._server = server
        self._transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        if (answer := self._server.answer(data)) is not None:
            self._transport.sendto(answer, addr)


@asynccontextmanager
async def a_dns_server() -> AsyncIterator[DnsServer]:
    server = DnsServer()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(lambda: _Protocol(server), local_addr=("127.0.0.1", 0))
    server.address = "{}:{}".format(*transport.get_extra_info("sockname")[:2])
    try:
        yield server
    finally:
        transport.close()
