"""The SPF record of a domain: the mechanisms that the providers need, and the check of the published record."""

import asyncio
import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import Final

from mailwright.app.dns_lookup import DnsUnavailable, Lookup
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.ops.provider_kind import ProviderKind
from mailwright.ops.provider_kinds import KINDS
from mailwright.ops.settings import Settings
from mailwright.providers.route import providers_of
from mailwright.providers.smtp.settings import is_loopback
from mailwright.providers.smtp.url import parse_smtp_url

# SMTP services that send from the addresses of their customers.
_MECHANISMS: Final = {
    ".office365.com": "include:spf.protection.outlook.com",
    ".outlook.com": "include:spf.protection.outlook.com",
    ".gmail.com": "include:_spf.google.com",
    ".googlemail.com": "include:_spf.google.com",
}
# The servers that receive email for the customers of Microsoft 365 and Google. They see the address of this machine.
_RECEIVING: Final = (".protection.outlook.com", ".google.com")
_OWN_ADDRESS: Final = "Allow the public address of this machine too, such as ip4:192.0.2.1."

# A receiver stops after this number of DNS lookups and ignores the record (RFC 7208, section 4.6.4).
MAX_LOOKUPS: Final = 10
# The timeout of the whole check, because includes are looked up one after the other.
WALK_SECONDS: Final = 8.0
_WITH_LOOKUP: Final = ("include", "a", "mx", "ptr", "exists", "redirect")


@dataclass(frozen=True, slots=True)
class SpfAdvice:
    """The mechanisms to publish, a hint for those that only the operator can know, and the services that need no record
    here.
    """

    mechanisms: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    own_return_path: tuple[str, ...] = ()

    @property
    def is_needed(self) -> bool:
        return bool(self.mechanisms or self.hints)

    @property
    def value(self) -> str:
        """The record; empty if no mechanism is known."""
        return f"v=spf1 {' '.join(self.mechanisms)} ~all" if self.mechanisms else ""

    @property
    def hint(self) -> str:
        return " ".join(self.hints)

    @property
    def note(self) -> str:
        """A sentence about the services that need no record."""
        if not self.own_return_path:
            return ""
        names = " and ".join(self.own_return_path)
        return f"SPF: no record of this domain is needed for {names}, which sends with a return path of its own."


def spf_advice(providers: Iterable[Settings], domain: str) -> SpfAdvice:
    """Return the mechanisms that the SPF record of a domain needs for these providers.

    Each item of `providers` is the settings of one provider.
    """
    mechanisms, hints, own = dict[str, None](), dict[str, None](), dict[str, None]()
    kinds = [(name, settings) for settings in providers for name in providers_of(settings)]
    for name, settings in kinds:
        kind = KINDS[name]
        has_any_server = kind.smtp_server is not None and kind.smtp_server.name == "smtp_url"
        host = _smtp_host(settings) if has_any_server else ""
        # Receivers check SPF for the envelope sender. Some services use a domain of their own there.
        service = kind if kind.spf.has_own_return_path else _service_of(host)
        if service is not None:
            if mechanism := service.spf.mechanism(settings, domain):
                mechanisms[mechanism] = None
            else:
                own[str(service.label)] = None
        elif kind.spf.hint:
            hints[kind.spf.hint] = None
        elif has_any_server and (not host or is_loopback(host)):
            hints["Your mail server runs on this machine. Allow its public address, such as ip4:192.0.2.1."] = None
        elif has_any_server:
            if host.endswith(_RECEIVING):
                hints[f"{host} gets email directly from this machine. {_OWN_ADDRESS}"] = None
            if (known := _by_suffix(_MECHANISMS, host)) or not host.endswith(_RECEIVING):
                mechanisms[known or _of_host(host)] = None
    if all(KINDS[name].is_local for name, _ in kinds):
        hints["Connect a provider first: it decides which servers SPF must allow."] = None
    return SpfAdvice(tuple(mechanisms), tuple(hints), tuple(own))


async def find_spf_problem(domain: str, value: str, found: Sequence[str], look_up: Lookup) -> str | None:
    """Return the problem of the SPF records of a domain as a sentence; None if they allow the same servers as `value`.

    `value` may be empty: then the record must only be valid and allow any server. Raises `DnsUnavailable` if a record
    that the result depends on cannot be read.
    """
    records = spf_records(found)
    if len(records) > 1:
        return f"{domain} has {len(records)} SPF records, so receivers ignore all. Keep one."
    published = _Published(domain, look_up)
    try:
        async with asyncio.timeout(WALK_SECONDS):
            await published.read(records[0], domain)
            missing = [each for each in value.lower().split()[1:-1] if not await published.allows(each)]
    except _InvalidSpf as error:
        return str(error)
    except TimeoutError as error:
        raise DnsUnavailable(f"the SPF record could not be followed within {WALK_SECONDS:g} seconds") from error
    if missing or not published.allowed:
        if published.unread:
            raise DnsUnavailable(f"the SPF record of {published.unread[0]} cannot be read")
        what = f"lacks {' '.join(missing)}" if missing else "allows no server"
        return f"The SPF record of {domain} {what}"
    return None


def spf_records(found: Sequence[str]) -> list[str]:
    return [text for text in found if text.lower().split(" ")[0] == "v=spf1"]


class _InvalidSpf(Exception):
    """Receivers ignore the record."""


@dataclass(slots=True)
class _Published:
    """The mechanisms of a record and of those that it includes."""

    domain: str
    look_up: Lookup
    lookups: int = 0
    allowed: set[str] = field(default_factory=set)
    receivers: list[str] = field(default_factory=list)  # The domains whose mail servers may send.
    networks: list[ipaddress.IPv4Network | ipaddress.IPv6Network] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)

    async def read(self, text: str, domain: str) -> None:
        redirect = None
        for term in text.lower().split()[1:]:
            qualifier, mechanism = (term[0], term[1:]) if term[0] in "+-~?" else ("+", term)
            if mechanism == "all":
                if qualifier == "+":
                    raise _InvalidSpf(f"The SPF record of {domain} ends with +all, so everyone may send as {domain}.")
                return
            name, target = _split(mechanism)
            if "your-" in target or "<" in target:
                raise _InvalidSpf(f"The SPF record of {domain} has a placeholder: {term[:80]}")
            if name in _WITH_LOOKUP:
                self._count()
            if name == "redirect":
                redirect = target
            elif qualifier == "+":
                await self._add(name, target or domain, mechanism)
        if redirect:
            await self._include(redirect)

    async def _add(self, name: str, target: str, mechanism: str) -> None:
        match name:
            case "include":
                self.allowed.add(mechanism)
                await self._include(target)
            case "a":
                self.allowed.add(f"a:{target}")
            case "mx":
                self.allowed.add(mechanism)
                self.receivers.append(target)
            case "ip4" | "ip6":
                try:
                    self.networks.append(ipaddress.ip_network(target, strict=False))
                except ValueError as error:
                    raise _InvalidSpf(
                        f"The SPF record of {self.domain} has an invalid part: {mechanism[:80]}"
                    ) from error
                self.allowed.add(mechanism)
            case "exists" | "ptr":
                self.allowed.add(mechanism)

    async def _include(self, target: str) -> None:
        """Read an included record. Macros depend on the message, so they are not followed."""
        if "%" in target:
            return
        texts = await self._ask(target, "TXT")
        records = spf_records(texts)
        if len(records) == 1:
            await self.read(records[0], target)
        elif target not in self.unread:
            raise _InvalidSpf(f"The SPF record of {self.domain} includes {target[:80]}, which has no valid SPF record.")

    async def _ask(self, name: str, kind: str) -> list[str]:
        try:
            return await self.look_up(name, kind)
        except DnsUnavailable:
            self.unread.append(name)
            return []

    def _count(self) -> None:
        self.lookups += 1
        if self.lookups > MAX_LOOKUPS:
            raise _InvalidSpf(
                f"The SPF record of {self.domain} needs more than {MAX_LOOKUPS} DNS lookups, so receivers ignore it. "
                "Remove services that you do not use."
            )

    async def allows(self, mechanism: str) -> bool:
        """Return whether the record has the mechanism, or allows the addresses of the same host in another way."""
        if mechanism in self.allowed:
            return True
        name, target = _split(mechanism)
        if name not in ("a", "ip4", "ip6"):
            return False
        servers = [text.split()[-1:] for each in self.receivers for text in await self._ask(each, "MX")]
        if [target] in servers or not self.networks:
            return [target] in servers
        texts = [target] if name != "a" else [*await self._ask(target, "A"), *await self._ask(target, "AAAA")]
        return any(ipaddress.ip_address(text) in network for text in texts for network in self.networks)


def _split(mechanism: str) -> tuple[str, str]:
    """Return the name and the target of a mechanism or modifier: `include:a.example` or `redirect=a.example`."""
    for mark in (":", "="):
        name, found, target = mechanism.partition(mark)
        if found:
            return name, target if name in ("ip4", "ip6") else target.partition("/")[0].removesuffix(".")
    return mechanism.partition("/")[0], ""


def _smtp_host(settings: Settings) -> str:
    if settings.smtp_url is None:
        return ""
    return parse_smtp_url(settings.smtp_url.get_secret_value()).host.lower().removesuffix(".")


def _service_of(host: str) -> ProviderKind | None:
    """Return the service whose SMTP server this is."""
    relays = {suffix: kind for kind in KINDS.values() for suffix in kind.spf.relays}
    return next((kind for suffix, kind in relays.items() if f".{host}".endswith(suffix)), None)


def _by_suffix(known: dict[str, str], host: str) -> str | None:
    return next((found for suffix, found in known.items() if f".{host}".endswith(suffix)), None)


def _of_host(host: str) -> str:
    try:
        return f"ip{ipaddress.ip_address(host).version}:{host}"
    except ValueError:
        return f"a:{host}"
