"""Whether email leaves this machine, for pages: the state, and where administrators change it."""

from collections.abc import Mapping
from typing import Final

from mailwright.app.sending_readiness import load_readiness
from mailwright.app.wiring import Engine
from mailwright.domain.message import Source
from mailwright.domain.sending_readiness import ReadinessReason, SendingReadiness
from mailwright.sources.campaigns.records import Campaign
from mailwright.texts.sending_readiness import readiness_text
from mailwright.web.session import Visitor

FIX_PATHS: Final[Mapping[ReadinessReason, str]] = {
    ReadinessReason.SETTINGS_UNUSABLE: "/settings/health",
    ReadinessReason.PROVIDER_UNUSABLE: "/settings/providers",
    ReadinessReason.SENDING_ON_HOLD: "/",
    ReadinessReason.SENDER_REFUSED: "/settings/domains",
    ReadinessReason.LOCAL_MAILBOX: "/settings/providers",
    ReadinessReason.TEST_SERVER: "/settings/providers",
    ReadinessReason.PARTLY_LOCAL: "/settings/providers",
    ReadinessReason.SENDER_MISSING: "/settings/sender",
    ReadinessReason.PUBLIC_ADDRESS_LOCAL: "/settings/sender",
    ReadinessReason.POSTAL_ADDRESS_MISSING: "/settings/sender",
    ReadinessReason.SENDER_DOMAIN_UNCHECKED: "/set-up/domain",
}


async def readiness_of(
    engine: Engine,
    visitor: Visitor,
    campaign: Campaign | None = None,
    *,
    source: Source = Source.CAMPAIGN,
    counts_consent: bool = False,
) -> SendingReadiness:
    return await load_readiness(
        engine.settings,
        engine.database,
        engine.clock,
        visitor.tenant_id,
        source=source,
        sender=campaign.definition.sender if campaign is not None else None,
        counts_consent=counts_consent,
    )


def with_readiness(words: str, found: SendingReadiness) -> str:
    """Add to the message about a started campaign that nobody receives it, or that nothing is sent."""
    return f"{words} {readiness_text(found)}" if found.destination.reaches_nobody else words
