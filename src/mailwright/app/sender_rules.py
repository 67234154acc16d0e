"""Check the rules of the large mailbox providers for the configured sender."""

from typing import Final
from urllib.parse import urlsplit

from mailwright.app.destinations import destination_of
from mailwright.app.dns_lookup import Lookup
from mailwright.app.named_providers import NamedProvider, load_named
from mailwright.app.sender_dns import LOCAL, check_sender
from mailwright.domain.findings import Verdict
from mailwright.domain.message import Source
from mailwright.domain.sending_readiness import Destination
from mailwright.ops.provider_kinds import KINDS
from mailwright.ops.settings import Settings
from mailwright.outbox.sender_domains import SenderDirectory
from mailwright.providers.route import providers_of
from mailwright.providers.smtp.settings import is_loopback
from mailwright.sources.sender_rules import RouteRules, SenderRules
from mailwright.storage.database import Database

# Providers that can report opens and clicks.
_REPORTING: Final = frozenset(kind.name for kind in KINDS.values() if kind.webhook is not None)
# Providers that sign with DKIM themselves.
_SIGNING: Final = frozenset(kind.name for kind in KINDS.values() if kind.signs_dkim)


def make_sender_rules(
    settings: Settings, database: Database, directory: SenderDirectory, look_up: Lookup | None = None
) -> SenderRules:
    async def find_route(tenant_id: int, source: Source) -> RouteRules:
        # Routes are read each time, because an administrator can change them at any time.
        provider = (await load_named(database, settings)).find(tenant_id, source)
        if provider is not None and provider.problem is not None:
            return unusable_rules(provider)
        return rules_of(settings if provider is None else provider.settings, directory, look_up)

    return SenderRules(
        settings.sender_rules_limit,
        find_route,
        settings.sender_postal_address,
        settings.tracking,
        find_refusal=directory.refusal,
        find_own_sender=directory.own_sender,
        sender=settings.sender,
    )


def rules_of(settings: Settings, directory: SenderDirectory | None = None, look_up: Lookup | None = None) -> RouteRules:
    """Return the rules for email that the providers in these settings send."""

    async def find_unmet(sender: str | None) -> tuple[str, ...]:
        own = settings if sender is None else settings.model_copy(update={"sender": sender})
        has_keys = directory is not None and await directory.is_signed(own.sender)
        return (*await _dns_problems(own, look_up, has_keys=has_keys), *_unsubscribe_problems(own))

    may_report = not _REPORTING.isdisjoint(providers_of(settings))
    return RouteRules(find_unmet if destination_of(settings) is Destination.RECIPIENTS else None, may_report)


def unusable_rules(provider: NamedProvider) -> RouteRules:
    """Return rules that are never met, for a provider whose configuration cannot be used."""

    async def find_unmet(_sender: str | None) -> tuple[str, ...]:
        return (f"The provider {provider.name} cannot be used: {provider.problem}.",)

    return RouteRules(find_unmet, may_report=provider.kind in _REPORTING)


async def _dns_problems(settings: Settings, look_up: Lookup | None, *, has_keys: bool) -> tuple[str, ...]:
    """Return the DNS problems of the sender. Unknown records count as missing, except a provider's own DKIM.

    `has_keys`: the email is signed with keys of a sender domain, whose records were checked when it was verified.
    """
    is_signed = providers_of(settings).keys() <= _SIGNING
    return tuple(
        f"{finding.name.upper()}: {finding.summary}."
        for finding in [each async for each in check_sender(settings, look_up)]
        if not (finding.name == "dkim" and has_keys)
        and (
            finding.verdict is Verdict.PROBLEM
            or (finding.verdict is Verdict.WARNING and not (finding.name == "dkim" and is_signed))
        )
    )


def _unsubscribe_problems(settings: Settings) -> tuple[str, ...]:
    """Check that one-click unsubscribe has an https URL that mailbox providers can reach."""
    if is_public_https(settings.unsubscribe_url):
        return ()
    return (f"One-click unsubscribe: {settings.unsubscribe_url} is not a public https URL. Set MAILWRIGHT_BASE_URL.",)


def is_public_https(url: str) -> bool:
    """Return whether recipients and mailbox providers can reach this URL."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    return parts.scheme == "https" and not is_loopback(host) and not host.endswith(LOCAL)
