"""The rules of the large mailbox providers for senders of much bulk email.

They ask for SPF, DKIM and DMARC, one-click unsubscribe and a postal address. Mailwright does not send bulk email to
more than `limit` recipients before the rules are met, unless a user overrides them. They apply only where email really
leaves: the local mailbox and servers on this machine need no DNS.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from mailwright.domain.tracking import TrackingMode

# Returns what is missing for a sender, a sentence each. None is the sender of the settings.
FindUnmetRules = Callable[[str | None], Awaitable[tuple[str, ...]]]

NO_POSTAL_ADDRESS: Final = "The email has no postal address. Set MAILWRIGHT_POSTAL_ADDRESS and use it in the content."
CODE: Final = "SENDER_RULES"


class SenderRulesDecision(StrEnum):
    """Why bulk email to many recipients may be sent. Before the limit is exceeded there is no decision."""

    MET = "met"
    OVERRIDDEN = "overridden"


@dataclass(frozen=True, slots=True)
class SenderRules:
    limit: int
    find_unmet: FindUnmetRules | None = None  # None: no email leaves this machine
    postal_address: str | None = None  # of the settings
    tracking: TrackingMode = TrackingMode.OFF  # of the settings
    provider_may_report: bool = True  # a provider of the route can report opens and clicks

    def apply_to(self, recipients: int) -> bool:
        return self.find_unmet is not None and recipients > self.limit

    async def unmet(self, recipients: int, *, sender: str | None = None, has_postal_address: bool) -> tuple[str, ...]:
        """Return the rules that are not met, a sentence each; none if there are too few recipients."""
        if self.find_unmet is None or not self.apply_to(recipients):
            return ()
        postal = () if has_postal_address else (NO_POSTAL_ADDRESS,)
        return (*await self.find_unmet(sender), *postal)


NO_SENDER_RULES: Final = SenderRules(0)


def refusal_text(unmet: tuple[str, ...], limit: int) -> str:
    """Return why bulk email is not sent, with every rule that is not met."""
    reasons = " ".join(unmet)
    return f"Bulk email to more than {limit:,} recipients must meet the rules of the large mailbox providers. {reasons}"
