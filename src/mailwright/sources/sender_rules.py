"""The rules that large mailbox providers set for bulk senders.

They require SPF, DKIM and DMARC, one-click unsubscribe and a postal address. Mailwright does not send bulk email to
more than `limit` recipients before the rules are met, unless a user overrides them. The rules do not apply if the
provider that sends for the tenant and the source is the local mailbox or a server that only collects test email.
"""

from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Final

from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.message import Source
from mailwright.domain.tracking import TrackingMode
from mailwright.domain.translation import lazy_gettext, lazy_join, lazy_number

# Returns why a tenant must not send from an address (its default sender if None). Returns None if it may.
FindRefusal = Callable[[int, str | None], Awaitable[str | None]]
# Returns the tenant's default sender for email without a sender; None if the sender in the settings applies.
FindOwnSender = Callable[[int], Awaitable[str | None]]
# Returns the rules that a sender does not meet, one sentence each. None stands for the sender in the settings.
FindUnmetRules = Callable[[str | None], Awaitable[tuple[str, ...]]]

NO_POSTAL_ADDRESS: Final = (
    "The email has no postal address. Set MAILWRIGHT_POSTAL_ADDRESS and use {{ postal_address }} in the content."
)
UNUSED_POSTAL_ADDRESS: Final = "The email does not contain the postal address. Use {{ postal_address }} in the content."
CODE: Final = "SENDER_RULES"


class SenderRulesDecision(StrEnum):
    """Why bulk email to more recipients than the limit may be sent. Email to fewer recipients needs no decision."""

    MET = "met"
    OVERRIDDEN = "overridden"


@dataclass(frozen=True, slots=True)
class RouteRules:
    """What the providers that send for a tenant and a source require and can do."""

    find_unmet: FindUnmetRules | None = None  # None: the rules do not apply
    may_report: bool = True  # whether one of the providers can report opens and clicks


# Returns the rules of the providers that send the email of a source of a tenant.
FindRouteRules = Callable[[int, Source], Awaitable[RouteRules]]


@dataclass(frozen=True, slots=True)
class SenderRules:
    limit: int
    find_route: FindRouteRules | None = None  # None: the rules do not apply
    postal_address: str | None = None  # from the settings
    tracking: TrackingMode = TrackingMode.OFF  # from the settings
    find_refusal: FindRefusal | None = None  # None: every tenant may send from every domain
    find_own_sender: FindOwnSender | None = None  # None: every tenant uses the sender in the settings
    sender: str | None = None  # from the settings, for campaigns without their own

    async def route_of(self, tenant_id: int, source: Source) -> RouteRules:
        return RouteRules() if self.find_route is None else await self.find_route(tenant_id, source)

    async def unmet(
        self,
        tenant_id: int,
        source: Source,
        recipients: int,
        *,
        sender: str | None = None,
        has_postal_address: bool,
    ) -> tuple[str, ...] | None:
        """Return the unmet rules, one sentence each; None if the rules do not apply.

        They do not apply up to the limit, nor if the email stays on this machine. Without `sender`, the tenant's
        default sender is checked.
        """
        if recipients <= self.limit:
            return None
        route = await self.route_of(tenant_id, source)
        if route.find_unmet is None:
            return None
        missing = UNUSED_POSTAL_ADDRESS if self.postal_address else NO_POSTAL_ADDRESS
        unmet = await route.find_unmet(await self.sender_of(tenant_id, sender))
        return unmet if has_postal_address else (*unmet, missing)

    async def sender_of(self, tenant_id: int, given: str | None = None) -> str | None:
        """Return the given sender, or the tenant's own; None for the sender in the settings."""
        if given is not None or self.find_own_sender is None:
            return given
        return await self.find_own_sender(tenant_id)

    async def refusal(self, tenant_id: int, sender: str | None = None) -> str | None:
        """Return why the tenant must not send from this sender. Nobody can override this, unlike the rules."""
        if self.find_refusal is None:
            return None
        return await self.find_refusal(tenant_id, sender)


NO_SENDER_RULES: Final = SenderRules(0)


def refusal_text(unmet: tuple[str, ...], limit: int) -> str:
    """Return the reason why bulk email is not sent, which includes every unmet rule."""
    return lazy_gettext(
        "Bulk email to more than {limit} recipients must meet the rules of the large mailbox providers. {reasons}",
        limit=lazy_number(limit),
        reasons=lazy_join(" ", unmet),
    )
