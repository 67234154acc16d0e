"""Which provider sends the messages of each tenant and source."""

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Final

from mailwright.domain.errors import InvalidInput
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.message import Source

# The name in a route for the provider of the installation, and the name in lists for all sources of a tenant.
INSTALLATION: Final = "installation"
ALL_SOURCES: Final = "all"
# The sources as the database has them. The source of a deleted message is not known.
_STORED: Final = (*Source, "")

# A name is part of URLs and of the names of counters.
_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,38}[a-z0-9]")


def parse_source(text: str | None) -> Source | None:
    """Return the source; None for `all`."""
    if text is None or text == ALL_SOURCES:
        return None
    try:
        return Source(text)
    except ValueError:
        known = ", ".join((ALL_SOURCES, *Source))
        raise InvalidInput("The source must be one of {known}.", field="source", known=known) from None


def check_provider_name(name: str, reserved: frozenset[str]) -> str:
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            "The name of a provider has 2 to 40 characters: a-z, 0-9 and -, beginning with a letter, for example "
            "acme-postmark.",
            field="name",
        )
    if name in reserved | {INSTALLATION}:
        raise InvalidInput(
            "{name} is a reserved name. Choose another one, for example {name}-2.", field="name", name=name
        )
    return name


@dataclass(frozen=True, slots=True)
class ProviderRoutes:
    """The routes of tenants. A route of one source comes before the route of the whole tenant.

    Each route has the name of a provider, or None for the provider of the installation, which also sends all messages
    without a route.
    """

    rules: Mapping[tuple[int, Source | None], str | None] = field(default_factory=dict)

    def provider_of(self, tenant_id: int, source: str) -> str | None:
        """Return the name of the provider; None for the provider of the installation."""
        own = (tenant_id, Source(source) if source else None)
        return self.rules[own] if own in self.rules else self.rules.get((tenant_id, None))

    @property
    def providers(self) -> frozenset[str]:
        """The providers that at least one route names."""
        return frozenset(name for name in self.rules.values() if name is not None)


NO_ROUTES: Final = ProviderRoutes()


@dataclass(frozen=True, slots=True)
class ClaimScope:
    """The messages that one provider sends, and that a worker of this provider may claim."""

    routes: ProviderRoutes
    provider: str | None  # None: the provider of the installation.

    def sources(self, tenant_id: int) -> frozenset[str]:
        return frozenset(each for each in _STORED if self.routes.provider_of(tenant_id, each) == self.provider)

    def is_whole(self, tenant_id: int) -> bool:
        """Return whether all messages of the tenant are in this scope."""
        return len(self.sources(tenant_id)) == len(_STORED)

    @property
    def is_listed(self) -> bool:
        """Whether `pairs` lists the tenants and sources in this scope. Otherwise it lists those that are not."""
        return self.provider is not None

    @property
    def pairs(self) -> list[tuple[int, str]]:
        """Tenants and sources, for statements that look at the messages of all tenants."""
        tenants = {tenant_id for tenant_id, _ in self.routes.rules}
        every = [(tenant_id, source) for tenant_id in sorted(tenants) for source in _STORED]
        return [pair for pair in every if (self.routes.provider_of(*pair) == self.provider) is self.is_listed]


# All messages, because no tenant has a route.
EVERYTHING: Final = ClaimScope(NO_ROUTES, None)
