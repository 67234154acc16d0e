"""Load the sample data: a shop and a bakery with messages in every state."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from mailwright.access.api_keys import ApiKeys, Caller
from mailwright.app.wiring import Engine
from mailwright.audience import suppressions
from mailwright.demo.articles import load_article
from mailwright.demo.campaigns import campaigns_of, load_campaigns, load_subscribers
from mailwright.demo.contact_events import load_contact_events
from mailwright.demo.dmarc import load_dmarc_reports
from mailwright.demo.forms import load_form
from mailwright.demo.images import load_images
from mailwright.demo.mailouts import load_mailout
from mailwright.demo.newsletter import load_newsletter
from mailwright.demo.notifications import load_notifications, record_notifications
from mailwright.demo.outcomes import load_outcomes, report_outcomes
from mailwright.demo.sequences import load_sequence
from mailwright.domain.clock import DAY, HOUR, Instant, isoformat
from mailwright.domain.explanation import ExplanationState, MessageExplanation
from mailwright.domain.ids import uuid7
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.message import Source
from mailwright.outbox import tenants
from mailwright.outbox.message_records import MessageSearch, MessageSummary, search
from mailwright.outbox.operations import Operations
from mailwright.outbox.tenants import TenantExists
from mailwright.sources.api.messages import ApiMessages, RequestContext
from mailwright.sources.message_limits import explain_message

BAKERY = "bakery"
# A limit below the number of the bakery's messages, so that some of them show a deferral.
BAKERY_PER_HOUR = 3

# A message in one of these states will change within seconds.
_UNSETTLED = frozenset(
    {
        ExplanationState.SENDING,
        ExplanationState.CLAIMED,
        ExplanationState.IN_LINE,
        ExplanationState.NO_WORKER,
        ExplanationState.SUSPECT,
    }
)
_SETTLE_SECONDS = 20.0
_MOST_SHOWN = 50

_FRAME = """<!doctype html>
<html lang="en">
<body style="margin:0;padding:24px;background:#f5f5f0;font-family:Georgia,serif;color:#222">
<div style="max-width:560px;margin:0 auto;padding:32px;background:#fff;border-radius:8px">
{body}
<p style="margin-top:32px;color:#777;font-size:13px">{footer}</p>
</div>
</body>
</html>
"""

_RECEIPT = _FRAME.format(
    body="""<h1 style="font-size:22px">Thank you, {{ name }}</h1>
<p>Your order <strong>{{ order }}</strong> has shipped.</p>
<table width="100%" style="border-collapse:collapse">
{% for item in items %}<tr>
<td style="padding:6px 0;border-bottom:1px solid #eee">{{ item.name }}</td>
<td align="right" style="padding:6px 0;border-bottom:1px solid #eee">{{ item.price }}</td>
</tr>{% endfor %}
<tr><td style="padding:6px 0"><strong>Total</strong></td><td align="right"><strong>{{ total }}</strong></td></tr>
</table>""",
    footer="Analytical Engines Ltd, 12 Byron Street, London",
)
_RESET = _FRAME.format(
    body="""<h1 style="font-size:22px">Reset your password</h1>
<p>Hello {{ name }}, we received a request to reset your password.</p>
<p><a href="{{ link }}" style="color:#0a5">Choose a new password</a>. The link is valid for one hour.</p>""",
    footer="If you did not request this, you can ignore this email.",
)
_NEWSLETTER = _FRAME.format(
    body="""<h1 style="font-size:22px">This week's bread</h1>
<p>Dear {{ name }}, rye with caraway on Tuesday, cardamom buns on Friday.</p>
<p>Come before nine for the first batch.</p>""",
    footer="The Corner Bakery, 3 Mill Lane",
)


@dataclass(slots=True)
class Sample:
    """The loaded sample: an API key and the message ids in the order of acceptance."""

    key: str
    shop: int  # the tenant that owns the campaigns
    outbox_ids: list[str] = field(default_factory=list)


async def load_sample(engine: Engine, *, moves: bool = True) -> Sample:
    """Load everything through the public services. `moves` adds a campaign that keeps sending slowly."""
    shop = await tenants.find(engine.database, tenants.DEFAULT)
    sample = Sample(await ApiKeys(engine.database, engine.clock).create(shop.id, "demo"), shop.id)
    try:
        bakery = await tenants.create(engine.database, engine.clock, BAKERY, rate_per_hour=BAKERY_PER_HOUR)
    except TenantExists:  # The sample data of an earlier demo still exists.
        sample.outbox_ids = await _known_messages(engine)
        return sample
    await _templates(engine, shop.id, bakery.id)
    await suppressions.add(
        engine.database, engine.clock, shop.id, "charles@example.com", reason="complaint", source="demo"
    )
    sample.outbox_ids += await load_outcomes(engine, Caller(shop.id, shop.name))
    messages, now = ApiMessages(engine.database, engine.clock, engine.acceptor), engine.clock.now()
    for tenant, bodies in ((bakery, _bakery_messages()), (shop, _shop_messages(now))):
        for body in bodies:
            context = RequestContext(Caller(tenant.id, tenant.name), f"demo-{len(sample.outbox_ids) + 1}")
            sample.outbox_ids.append((await messages.send(context, body)).outbox_id)
    # The last message is the reservation that is cancelled.
    await Operations(engine.database, engine.clock).cancel(sample.outbox_ids[-1], tenant_id=shop.id)
    await load_contact_events(engine, Caller(shop.id, shop.name))
    await load_subscribers(engine, shop.id)
    await load_sequence(engine, shop.id)  # Before the campaigns, because it would send their emails too.
    await load_campaigns(engine, shop.id, moves=moves)
    await load_images(engine, shop.id)
    await load_newsletter(engine, shop.id)
    await load_article(engine, shop.id)
    await load_notifications(engine)
    await load_mailout(engine, shop.id)
    await load_dmarc_reports(engine, shop.id)
    await load_form(engine, shop.id)
    return sample


async def settle(engine: Engine, sample: Sample) -> list[MessageExplanation]:
    """Wait until every message is sent, failed, or deferred by a limit or a send time."""
    deadline = asyncio.get_running_loop().time() + _SETTLE_SECONDS
    unsettled = sample.outbox_ids
    while asyncio.get_running_loop().time() < deadline:
        explanations = await _explain_all(engine, unsettled)
        unsettled = [each.outbox_id for each in explanations if each.state in _UNSETTLED]
        if not unsettled and all(campaign.is_settled for campaign in await campaigns_of(engine, sample.shop)):
            break
        await asyncio.sleep(0.05)
    explanations = await _explain_all(engine, sample.outbox_ids)
    await record_notifications(engine)
    await report_outcomes(engine, sample.shop)
    return explanations


async def _explain_all(engine: Engine, outbox_ids: Sequence[str]) -> list[MessageExplanation]:
    return [
        await explain_message(engine.database, engine.clock, engine.defaults, outbox_id, tenant_id=None)
        for outbox_id in outbox_ids
    ]


async def _known_messages(engine: Engine) -> list[str]:
    found: list[MessageSummary] = []
    for tenant in await tenants.list_all(engine.database):
        found += await search(engine.database, tenant.id, MessageSearch(source=Source.API), limit=_MOST_SHOWN)
    return [message.outbox_id for message in sorted(found, key=lambda message: message.message_key)]


async def _templates(engine: Engine, shop: int, bakery: int) -> None:
    for tenant, template_id, subject, html in (
        (shop, "receipt", "Your order has shipped", _RECEIPT),
        (shop, "password-reset", "Reset your password", _RESET),
        (bakery, "newsletter", "This week: cardamom buns", _NEWSLETTER),
    ):
        await engine.templates.put(tenant, template_id, subject=subject, html=html, text=None)


def _shop_messages(now: Instant) -> list[dict[str, Any]]:
    return [
        _receipt("ada@example.com", "Ada Lovelace", "A-1815", {"Punched cards, 1,000": "€ 24.00"}, "€ 24.00"),
        _receipt(
            "grace@example.com", "Grace Hopper", "A-1906", {"Moth trap": "€ 9.50", "Logbook": "€ 12.00"}, "€ 21.50"
        ),
        _receipt("lukasz@example.com", "Łukasz Żółć", "A-2044", {"Zegar, mosiężny": "€ 7.00"}, "€ 7.00"),
        _reset("alan@example.com", "Alan Turing"),
        _reset("hedy@example.com", "Hedy Lamarr"),
        {
            "to": "margaret@example.com",
            "subject": "Your invoice for March",
            "html": "<p>Dear Margaret,</p><p>your invoice is attached. It is paid already.</p>",
            "attachments": [
                {"filename": "invoice.txt", "contentType": "text/plain", "content": "TWFyY2g6IOKCrCAyNC4wMAo="}
            ],
            "tags": ["invoice"],
        },
        {
            "to": "katherine@example.com",
            "subject": "How was your order?",
            "html": "<p>Dear Katherine, tell us how you like it.</p>",
            "scheduledAt": isoformat(now + 7 * DAY),
        },
        {
            "to": "barbara@example.com",
            "subject": "Welcome",
            "html": "<p>Hello Barbara</p><script>alert('never')</script>",
        },
        {
            "to": "edsger@example.com",
            "subject": "Your account",
            "html": "<p>Hello Edsger</p>",
            "recipient": {"recipientId": uuid7(now)},
        },
        _reset("charles@example.com", "Charles Babbage"),
        {
            "to": "joan@example.com",
            "subject": "Your table for tonight",
            "html": "<p>Dear Joan, see you at eight.</p>",
            "scheduledAt": isoformat(now + 4 * HOUR),
        },
    ]


def _bakery_messages() -> list[dict[str, Any]]:
    names = ("Annie Easley", "Mary Jackson", "Radia Perlman", "Sophie Wilson", "Frances Allen")
    return [
        {
            "to": f"{name.split()[0].lower()}@example.com",
            "templateId": "newsletter",
            "variables": {"name": name.split()[0]},
            "recipient": {"name": name, "externalId": f"subscriber-{number}"},
            "tags": ["newsletter"],
        }
        for number, name in enumerate(names, 1)
    ]


def _receipt(to: str, name: str, order: str, items: Mapping[str, str], total: str) -> dict[str, Any]:
    lines = [{"name": item, "price": price} for item, price in items.items()]
    return {
        "to": to,
        "templateId": "receipt",
        "variables": {"name": name, "order": order, "items": lines, "total": total},
        "recipient": {"name": name, "externalId": f"customer-{order}"},
        "tags": ["receipt"],
    }


def _reset(to: str, name: str) -> dict[str, Any]:
    return {
        "to": to,
        "templateId": "password-reset",
        "variables": {"name": name, "link": "https://shop.example/reset/3f9c"},
        "recipient": {"name": name, "externalId": to},
    }
