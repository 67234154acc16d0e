"""The large mailbox providers and their domains.

Domains of companies count as "other", even if a large provider hosts them.
"""

from enum import StrEnum
from typing import Final


class RecipientProvider(StrEnum):
    GMAIL = "Gmail"
    OUTLOOK = "Outlook"
    YAHOO = "Yahoo"
    ICLOUD = "Apple iCloud"
    OTHER = "Other"


_DOMAINS: Final = {
    RecipientProvider.GMAIL: ("gmail.com", "googlemail.com"),
    RecipientProvider.OUTLOOK: (
        "outlook.com", "hotmail.com", "live.com", "msn.com", "outlook.com.br", "outlook.de", "outlook.es", "outlook.fr",
        "outlook.it", "outlook.pt", "hotmail.co.uk", "hotmail.com.br", "hotmail.de", "hotmail.es", "hotmail.fr",
        "hotmail.it", "live.co.uk", "live.com.pt", "live.de", "live.fr", "live.it", "live.nl", "live.ru", "live.se",
    ),
    RecipientProvider.YAHOO: (
        "yahoo.com", "ymail.com", "rocketmail.com", "aol.com", "yahoo.ca", "yahoo.co.in", "yahoo.co.uk", "yahoo.com.ar",
        "yahoo.com.au", "yahoo.com.br", "yahoo.com.mx", "yahoo.de", "yahoo.es", "yahoo.fr", "yahoo.in", "yahoo.it",
        "yahoo.pt",
    ),
    RecipientProvider.ICLOUD: ("icloud.com", "me.com", "mac.com"),
}  # fmt: skip
_PROVIDERS: Final = {domain: provider for provider, domains in _DOMAINS.items() for domain in domains}


def provider_of(domain: str) -> RecipientProvider:
    return _PROVIDERS.get(domain, RecipientProvider.OTHER)


def domains_of(provider: RecipientProvider) -> tuple[str, ...]:
    """Return the domains of a provider.

    For `OTHER`, return the domains of all providers, because it means every other domain.
    """
    return tuple(_PROVIDERS) if provider is RecipientProvider.OTHER else _DOMAINS[provider]
