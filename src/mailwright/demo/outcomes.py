"""Outcomes that the mailbox provider cannot produce: in doubt, rejected, bounced, opened, clicked."""

from typing import Any, Final

from mailwright.access.api_keys import Caller
from mailwright.app.wiring import Engine, make_worker
from mailwright.demo.campaigns import LINK, SENT
from mailwright.domain.clock import Instant
from mailwright.domain.machines import TOO_SOON
from mailwright.domain.message import Source
from mailwright.domain.outgoing import OutgoingMessage
from mailwright.domain.report import ContactVerdict, Report
from mailwright.domain.results import ErrorCategory, ResultKind, SendResult
from mailwright.domain.states import EventType, Status
from mailwright.outbox.message_records import MessageSearch, search
from mailwright.providers.protocol import ProviderCheck
from mailwright.sources.api.messages import ApiMessages, RequestContext
from mailwright.sources.campaigns.campaigns import Campaigns

IN_DOUBT: Final = "tim@example.com"
REJECTED: Final = "nobody@example.com"
BOUNCED: Final = "lukasz@example.com"

_MAILBOX: Final = "mailbox"
# Event type and number of recipients; one of them opens the email twice.
_ENGAGEMENT: Final = ((EventType.DELIVERED, 5), (EventType.OPENED, 4), (EventType.CLICKED, 2), (EventType.OPENED, 1))


class _FailingProvider:
    """A provider that rejects one message and disconnects before it responds to the other."""

    name = _MAILBOX
    reports_events = False
    capacity = bulk_capacity = 2

    async def send(self, message: OutgoingMessage) -> SendResult:
        if REJECTED in message.recipients:
            return SendResult(
                ResultKind.FAILED,
                self.name,
                code="REFUSED",
                category=ErrorCategory.PERMANENT,
                message="550 5.1.1 There is no such user here",
                original_code="550",
                definitely_not_sent=True,
            )
        message_text = "The connection closed after the last byte was sent, before a response arrived."
        return SendResult(
            ResultKind.IN_DOUBT, self.name, code="NO_ANSWER", category=ErrorCategory.TIMEOUT, message=message_text
        )

    async def check(self) -> ProviderCheck:
        return ProviderCheck(True, "accepts no messages")

    async def close(self, grace: Instant = 0) -> None:
        """Do nothing."""


async def load_outcomes(engine: Engine, caller: Caller) -> list[str]:
    """Send two messages through the failing provider while nothing else is queued."""
    messages = ApiMessages(engine.database, engine.clock, engine.acceptor)
    bodies: list[dict[str, Any]] = [
        {"to": IN_DOUBT, "subject": "Your invitation", "html": "<p>Dear Tim, please join us in May.</p>"},
        {"to": REJECTED, "subject": "Your refund", "html": "<p>Your refund has been sent.</p>"},
    ]
    accepted = [
        await messages.send(RequestContext(caller, f"demo-outcome-{number}"), body)
        for number, body in enumerate(bodies, 1)
    ]
    await (await make_worker(engine, _FailingProvider())).run(drain=True)
    return [each.outbox_id for each in accepted]


async def report_outcomes(engine: Engine, tenant_id: int) -> None:
    """Report events as a provider would. Reporting them again changes nothing."""
    now = engine.clock.now()
    reports = []
    bounced = await search(engine.database, tenant_id, MessageSearch(to_email=BOUNCED, status=Status.SENT), limit=1)
    for each in bounced:
        reports.append(
            Report(
                f"demo:bounce:{each.outbox_id}",
                _MAILBOX,
                EventType.BOUNCED,
                now,
                recipient=BOUNCED,
                outbox_id=each.outbox_id,
                verdict=ContactVerdict.HARD_BOUNCE,
                bounce_type="Permanent",
                bounce_subtype="General",
                metadata={"diagnostic": "550 5.1.1 mailbox unavailable"},
            )
        )
    campaigns = await Campaigns(engine.database, engine.clock, engine.templates).list_page(
        tenant_id=tenant_id, limit=10
    )
    for campaign in campaigns:
        if campaign.name == SENT:
            query = MessageSearch(source=Source.CAMPAIGN, campaign_key=campaign.key, status=Status.SENT)
            sent = await search(engine.database, tenant_id, query, limit=10)
            reports += [
                Report(
                    f"demo:{number}:{each.outbox_id}",
                    _MAILBOX,
                    event_type,
                    now if event_type is EventType.DELIVERED else now + 2 * TOO_SOON,  # At the pace of a person.
                    recipient=each.to_email,
                    outbox_id=each.outbox_id,
                    metadata={"url": LINK} if event_type is EventType.CLICKED else {},
                )
                for number, (event_type, count) in enumerate(_ENGAGEMENT)
                for each in sent[:count]
            ]
    await engine.reports.receive(reports)
