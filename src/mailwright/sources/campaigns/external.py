"""Guests: campaigns whose content and recipients another source brings. In line they are like any other.

Nothing is walked for them: they come in as a campaign whose audience was met already, and stay READY, which keeps the
conductor from completing them, until whoever brings the recipients has brought the last.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy import insert, update

from mailwright.audience.status import ERASED_CONTACTS
from mailwright.domain.campaign import CampaignStatus
from mailwright.domain.clock import Instant
from mailwright.domain.ids import uuid7s
from mailwright.domain.lanes import lane_number
from mailwright.domain.message import Source
from mailwright.domain.states import Priority
from mailwright.ops import metrics
from mailwright.outbox.accept import INSERT_ACCEPTED_COUNTS, INSERT_CONTACTS, INSERT_DELIVERIES
from mailwright.outbox.search import newest_message_key
from mailwright.sources.campaigns.definition import CampaignDefinition, CampaignLimits, ContentDefinition
from mailwright.sources.campaigns.entries import CampaignSnapshot, CampaignVariant, find_entry, update_entry
from mailwright.storage.database import Transaction
from mailwright.storage.statements import statement
from mailwright.storage.tables import campaigns, queue_entries

INSERT_EXTERNAL_MESSAGES = statement(__package__, "insert_external_messages")

# No list can have this name, so that nobody is on it: whoever extends such a campaign finds no newcomers.
NO_LIST = "guests:"


@dataclass(frozen=True, slots=True)
class ExternalCampaign:
    """A campaign as its source brings it. The template is stored, and every recipient gets that version of it."""

    campaign_id: str
    tenant_id: int
    name: str
    subject: str
    template_id: str
    template_key: int
    planned: int
    limits: CampaignLimits


@dataclass(frozen=True, slots=True)
class ExternalRecipient:
    """`payload` is what differs from reader to reader, as the From name."""

    email: str  # in normal form
    payload: dict[str, Any]


async def enqueue_external(tx: Transaction, guest: ExternalCampaign, now: Instant) -> int:
    """Takes a place in line; answers with the campaign's key."""
    definition = CampaignDefinition(
        name=guest.name, content=ContentDefinition(template_id=guest.template_id), limits=guest.limits
    )
    version = CampaignVariant("", guest.subject, {"": guest.template_key}, 100)
    rows = await tx.execute(
        insert(campaigns)
        .values(
            campaign_id=guest.campaign_id,
            tenant_id=guest.tenant_id,
            name=guest.name,
            status=CampaignStatus.READY,
            definition=definition.model_dump_json(by_alias=True, exclude_none=True),
            created_at=now,
            updated_at=now,
            started_at=now,
            messages_after_key=await newest_message_key(tx),
        )
        .returning(campaigns.c.id)
    )
    key = int(rows[0].id)
    rows = await tx.execute(
        insert(queue_entries)
        .values(
            campaign_key=key,
            tenant_id=guest.tenant_id,
            lane=0,
            content=CampaignSnapshot((version,), {"campaign": guest.campaign_id}, (NO_LIST,), None).as_text(),
            limits=guest.limits.model_dump_json(by_alias=False),
            planned=guest.planned,
            processed=0,
            recipients=0,
            enqueued_to="",
            enqueue_ended_at=now,
            created_at=now,
        )
        .returning(queue_entries.c.id)
    )
    lane = lane_number(Priority.BULK, guest.tenant_id, int(rows[0].id))
    await update_entry(tx, key, lane=lane)
    return key


async def add_recipients(
    tx: Transaction, source: Source, campaign_key: int, guests: Sequence[ExternalRecipient], now: Instant
) -> bool:
    """These become messages, in this order. False where the campaign was cancelled: then nobody else is wanted.

    Whoever is not a contact yet becomes one, but for those who were erased: they get nothing.
    """
    entry = await find_entry(tx, campaign_key, to_change=True)
    if entry is None or entry.campaign_status is CampaignStatus.CANCELLED:
        return False
    wanted = [{"tenant_id": entry.tenant_id, "email": each.email} for each in guests]
    erased = {row.email for row in await tx.run(ERASED_CONTACTS, contacts=wanted)}
    guests = [each for each in guests if each.email not in erased]
    ids = uuid7s(now, 2 * len(guests))
    people = [
        {"contact_id": contact_id, "tenant_id": entry.tenant_id, "email": each.email, "name": None}
        for contact_id, each in zip(ids, guests, strict=False)
    ]
    await tx.count(INSERT_CONTACTS, contacts=people, now=now)
    rows = [
        {
            "outbox_id": outbox_id,
            "email": each.email,
            "payload": orjson.dumps({**entry.content.payload, **each.payload}).decode(),
            "position": position,
        }
        for position, (outbox_id, each) in enumerate(zip(ids[len(guests) :], guests, strict=True))
    ]
    [version] = entry.content.variants
    stored = await tx.count(
        INSERT_EXTERNAL_MESSAGES,
        guests=rows,
        source=source.value,
        campaign_id=entry.campaign_id,
        campaign_key=campaign_key,
        tenant_id=entry.tenant_id,
        subject=version.subject,
        template_key=version.templates[""],
        now=now,
    )
    if stored:
        due = [
            {"outbox_id": row["outbox_id"], "tenant_id": entry.tenant_id, "lane": entry.lane, "due_at": now}
            for row in rows
        ]
        await tx.count(INSERT_DELIVERIES, deliveries=due)
        batch = {"tenant_id": entry.tenant_id, "source": source.value, "accepted": stored}
        await tx.count(INSERT_ACCEPTED_COUNTS, batches=[batch], now=now)
        processed = {"processed": entry.processed + stored, "recipients": entry.recipients + stored}
        await update_entry(tx, campaign_key, **processed, enqueued_to=guests[-1].email)
        metrics.ACCEPTED.labels(source).inc(stored)
    return True


async def close_recipients(tx: Transaction, campaign_key: int, now: Instant) -> None:
    """From now on the campaign is over when its last mail is."""
    entry = await find_entry(tx, campaign_key, to_change=True)
    if entry is None:
        return
    if entry.campaign_status in (CampaignStatus.READY, CampaignStatus.SENT):
        # SENT: somebody paused and resumed it, and those who had come by then were all.
        began = {"status": CampaignStatus.SENDING, "updated_at": now, "finished_at": None}
        await tx.execute(update(campaigns).where(campaigns.c.id == campaign_key).values(**began))
    if entry.campaign_status is not CampaignStatus.CANCELLED:
        await update_entry(tx, campaign_key, planned=entry.recipients, completed_at=None)
