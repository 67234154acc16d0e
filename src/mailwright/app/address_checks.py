"""Check whether an address of a sign-up form can receive email: its domain's DNS, and disposable domains."""

from collections.abc import Collection
from typing import Final

from mailwright.app.dns_lookup import DnsUnavailable, Lookup, make_lookup
from mailwright.domain import address
from mailwright.ops.settings import Settings

# The server name in a null MX record, which means that the domain receives no email.
NO_SERVER: Final = ("", ".")


class AddressChecks:
    """Fails open: if DNS does not answer, the address is accepted and the confirmation email decides."""

    def __init__(self, look_up: Lookup, disposable: Collection[str]) -> None:
        """`disposable` are further domains that are refused."""
        self._look_up = look_up
        self._disposable = frozenset(each.lower() for each in disposable)

    async def can_receive(self, email: str) -> bool:
        """Return whether people can receive email at this address for longer than a few minutes."""
        domain = address.domain_of(email).lower()
        return not self.is_disposable(domain) and await self._has_mail_server(domain)

    def is_disposable(self, domain: str) -> bool:
        from disposable_email_domains import blocklist  # noqa: PLC0415 - large, and only forms need it

        labels = domain.split(".")
        parents = {".".join(labels[start:]) for start in range(len(labels) - 1)}
        return not parents.isdisjoint(blocklist) or not parents.isdisjoint(self._disposable)

    async def _has_mail_server(self, domain: str) -> bool:
        """Return whether the domain has a mail server. Without an MX record, its address is the server."""
        try:
            if servers := await self._look_up(domain, "MX"):
                return any(each.partition(" ")[2] not in NO_SERVER for each in servers)
            return bool(await self._look_up(domain, "A") or await self._look_up(domain, "AAAA"))
        except DnsUnavailable:
            return True


def make_address_checks(settings: Settings) -> AddressChecks:
    look_up = _answer_nothing if settings.demo else make_lookup(settings.dns_servers)
    return AddressChecks(look_up, settings.disposable_domains)


async def _answer_nothing(_name: str, _kind: str) -> list[str]:
    """Answer no lookup. The demo uses this function, because its sample addresses do not exist."""
    raise DnsUnavailable("a demo does not use DNS")
