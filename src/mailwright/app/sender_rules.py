"""Check the rules of the large mailbox providers for the configured sender."""

from typing import Final
from urllib.parse import urlsplit

from mailwright.app.findings import Verdict
from mailwright.app.providers import providers_of
from mailwright.app.sender_dns import LOCAL, TxtLookup, check_sender, look_up_txt
from mailwright.ops.settings import Settings
from mailwright.providers.smtp.settings import is_loopback
from mailwright.sources.sender_rules import SenderRules

# Providers that can report opens and clicks.
_REPORTING: Final = frozenset(["ses", "sendgrid"])
# Providers that sign with DKIM themselves.
_SIGNING: Final = frozenset(["ses", "sendgrid", "smtpbz"])


def make_sender_rules(settings: Settings, look_up: TxtLookup = look_up_txt) -> SenderRules:
    async def find_unmet(sender: str | None) -> tuple[str, ...]:
        own = settings if sender is None else settings.model_copy(update={"sender": sender})
        return (*await _dns_problems(own, look_up), *_unsubscribe_problems(own))

    return SenderRules(
        settings.sender_rules_limit,
        find_unmet if leaves_this_machine(settings) else None,
        settings.postal_address,
        settings.tracking,
        provider_may_report=not _REPORTING.isdisjoint(providers_of(settings)),
    )


def leaves_this_machine(settings: Settings) -> bool:
    """Return whether a provider of the route is neither the local mailbox nor a server on this machine."""
    return any(not _is_local(name, settings) for name in providers_of(settings))


def _is_local(name: str, settings: Settings) -> bool:
    if name == "mailbox":
        return True
    url = {
        "smtp": settings.smtp_url.get_secret_value() if settings.smtp_url is not None else None,
        "ses": settings.ses_url,
        "sendgrid": settings.sendgrid_url,
        "smtpbz": settings.smtpbz_smtp_url.get_secret_value() if settings.smtpbz_smtp_url is not None else None,
    }[name]
    return url is not None and is_loopback(urlsplit(url).hostname or "")


async def _dns_problems(settings: Settings, look_up: TxtLookup) -> tuple[str, ...]:
    """Return the DNS problems of the sender. Unknown records count as missing, except a provider's own DKIM."""
    is_signed = providers_of(settings).keys() <= _SIGNING
    return tuple(
        f"{finding.name.upper()}: {finding.summary}."
        for finding in [each async for each in check_sender(settings, look_up)]
        if finding.verdict is Verdict.PROBLEM
        or (finding.verdict is Verdict.WARNING and not (finding.name == "dkim" and is_signed))
    )


def _unsubscribe_problems(settings: Settings) -> tuple[str, ...]:
    """Check that one-click unsubscribe has an https URL that mailbox providers can reach."""
    parts = urlsplit(settings.unsubscribe_url)
    host = parts.hostname or ""
    if parts.scheme == "https" and not is_loopback(host) and not host.endswith(LOCAL):
        return ()
    return (f"One-click unsubscribe: {settings.unsubscribe_url} is not a public https URL. Set MAILWRIGHT_BASE_URL.",)
