"""Fates that a mailbox never meets: an answer that does not come, a refusal, a bounce, and what readers do."""

from typing import Any, Final

from mailwright.access.api_keys import Caller
from mailwright.app.wiring import Engine, make_worker
from mailwright.demo.campaigns import SENT
from mailwright.domain.clock import Instant
from mailwright.domain.message import Source
from mailwright.domain.outgoing import OutgoingMessage
from mailwright.domain.report import ContactVerdict, Report
from mailwright.domain.results import ErrorCategory, ResultKind, SendResult
from mailwright.domain.states import EventType, Status
from mailwright.outbox.message_records import MessageSearch, search
from mailwright.providers.protocol import ProviderCheck
from mailwright.sources.api.messages import ApiMessages, RequestContext
from mailwright.sources.campaigns.campaigns import Campaigns

DOUBTED: Final = "tim@example.com"
REFUSED: Final = "nobody@example.com"
BOUNCED: Final = "lukasz@example.com"

_MAILBOX: Final = "mailbox"
# How many of those who got the campaign did what, the keenest first; one reads it twice.
_ANSWERS: Final = ((EventType.DELIVERED, 5), (EventType.OPENED, 4), (EventType.CLICKED, 2), (EventType.OPENED, 1))


class _Unlucky:
    """Takes no mail: it refuses one, and hangs up on the other before it has answered."""

    name = _MAILBOX
    reports_events = False

    async def send(self, message: OutgoingMessage) -> SendResult:
        if REFUSED in message.recipients:
            return SendResult(
                ResultKind.FAILED,
                self.name,
                code="REFUSED",
                category=ErrorCategory.PERMANENT,
                message="550 5.1.1 There is no such user here",
                original_code="550",
                definitely_not_sent=True,
            )
        words = "The connection ended after the last byte and before the answer."
        return SendResult(
            ResultKind.IN_DOUBT, self.name, code="NO_ANSWER", category=ErrorCategory.TIMEOUT, message=words
        )

    async def check(self) -> ProviderCheck:
        return ProviderCheck(True, "it takes no mail")

    async def close(self, grace: Instant = 0) -> None:
        """It holds nothing that could be ended."""


async def load_fates(engine: Engine, caller: Caller) -> list[str]:
    """While nothing else is in line: these two are all that the unlucky provider is handed."""
    mail = ApiMessages(engine.database, engine.clock, engine.acceptor)
    wanted: list[dict[str, Any]] = [
        {"to": DOUBTED, "subject": "Your invitation", "html": "<p>Dear Tim, be our guest in May.</p>"},
        {"to": REFUSED, "subject": "Your refund", "html": "<p>It is on its way.</p>"},
    ]
    asked = [
        await mail.send(RequestContext(caller, f"demo-fate-{number}"), body) for number, body in enumerate(wanted, 1)
    ]
    await (await make_worker(engine, _Unlucky())).run(drain=True)
    return [each.outbox_id for each in asked]


async def tell_fates(engine: Engine, tenant_id: int) -> None:
    """As a provider would that reports events. Told again, nothing happens."""
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
    campaigns = await Campaigns(engine.database, engine.clock, engine.templates).some(tenant_id=tenant_id, limit=10)
    for campaign in campaigns:
        if campaign.name == SENT:
            which = MessageSearch(source=Source.CAMPAIGN, campaign_key=campaign.key, status=Status.SENT)
            mails = await search(engine.database, tenant_id, which, limit=10)
            reports += [
                Report(
                    f"demo:{number}:{each.outbox_id}",
                    _MAILBOX,
                    what,
                    now,
                    recipient=each.to_email,
                    outbox_id=each.outbox_id,
                )
                for number, (what, count) in enumerate(_ANSWERS)
                for each in mails[:count]
            ]
    await engine.reports.receive(reports)
