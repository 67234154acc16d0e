"""Create the messages of a campaign's audience, batch by batch, in the order of addresses.

Each batch is one transaction that also advances `enqueued_to`, so an interrupted pass continues where it stopped:
nobody is skipped and nobody gets two messages. A later pass, for example for new subscribers, skips recipients with a
message; a unique index of the database guarantees one message for each address.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from sqlalchemy import BigInteger, ColumnElement, Select, Text, and_, case, func, literal, select, true, update

from mailwright.audience.segments import audience, membership
from mailwright.domain.campaign import CampaignStatus
from mailwright.domain.clock import Clock, Instant
from mailwright.domain.message import Source
from mailwright.domain.states import OnDoubt
from mailwright.domain.unsubscribe_tokens import GENERAL
from mailwright.outbox.accept import accept_select, count_accepted
from mailwright.sources.campaigns import approval_gate
from mailwright.sources.campaigns.approval_gate import AwaitsApproval
from mailwright.sources.campaigns.entries import CampaignSnapshot, CampaignVariant, QueueEntry, find_entry
from mailwright.storage.database import Database, Transaction
from mailwright.storage.expressions import random_uuid7
from mailwright.storage.tables import campaigns, contacts, messages, queue_entries

# Large enough that commits cost little, small enough that other writers do not wait long.
BATCH_SIZE = 10_000
STANDARD_POLICY = "standard"
# A wave takes recipient number n if (n times this) modulo 100 is below the wave's share. This factor and 100 have no
# common divisor, so each wave takes exactly its share of every hundred recipients, spread evenly, and includes all
# earlier waves.
WAVE_STEP = 61
ENQUEUED_STATUSES = (CampaignStatus.READY, CampaignStatus.SENDING)


async def enqueue_batch(database: Database, clock: Clock, campaign_key: int) -> QueueEntry | None:
    """Create one batch of messages. Return the entry afterwards, or None if there is nothing to enqueue."""
    now = clock.now()
    try:
        async with database.write() as tx:
            entry = await _entry_to_enqueue(tx, campaign_key)
            if entry is None:
                return None
            if entry.campaign_status is CampaignStatus.READY:
                started = {"status": CampaignStatus.SENDING, "updated_at": now}
                await tx.execute(update(campaigns).where(campaigns.c.id == campaign_key).values(**started))
            stored = await _enqueue_approved(tx, entry, now)
            after = await find_entry(tx, campaign_key)
    except AwaitsApproval as refused:
        async with database.write() as tx:
            entry = await _entry_to_enqueue(tx, campaign_key)
            if entry is not None:
                await approval_gate.hold(tx, entry, refused, now)
        return None
    count_accepted(Source.CAMPAIGN, stored)
    return after


async def _entry_to_enqueue(tx: Transaction, campaign_key: int) -> QueueEntry | None:
    """Lock the campaign, and return its entry if there is something to enqueue."""
    entry = await find_entry(tx, campaign_key, to_change=True)
    if entry is None or entry.enqueue_ended_at is not None or entry.campaign_status not in ENQUEUED_STATUSES:
        return None
    return None if await approval_gate.is_held(tx, entry.lane) else entry


async def _enqueue_approved(tx: Transaction, entry: QueueEntry, now: Instant) -> int:
    """Create a batch, or raise if the campaign would have more messages than it may have without an approval."""
    gate = await approval_gate.load_gate(tx, entry.tenant_id, entry.campaign_key)
    if gate.is_open:
        return await _enqueue(tx, entry, now)
    digests = await approval_gate.digests_of(tx, entry, entry.content.filter)
    if entry.enqueued_to == "":  # Before a pass, so that nobody gets a campaign that is not sent to the others.
        gate.require(digests, entry.recipients + await count_new_recipients(tx, entry, now))
    stored = await _enqueue(tx, entry, now)
    gate.require(digests, entry.recipients + stored)  # The audience may grow during a pass.
    return stored


async def count_members(tx: Transaction, tenant_id: int, content: CampaignSnapshot, now: Instant) -> int:
    """Count the audience of a campaign."""
    return await _count(tx, audience(tenant_id, content.lists, content.filter, now))


async def count_new_recipients(tx: Transaction, entry: QueueEntry, now: Instant) -> int:
    """Count the contacts in the audience who have no message of the campaign yet."""
    members = audience(entry.tenant_id, entry.content.lists, entry.content.filter, now)
    without_message = and_(members, ~_message_to(entry, contacts.c.email).exists())
    rows = await tx.execute(select(func.count()).select_from(contacts).where(without_message))
    return int(rows[0][0])


def size_of_waves(recipients: int, percent: int) -> int:
    """Return how many recipients have a message after the wave that ends at this share."""
    hundreds, rest = divmod(recipients, 100)
    return hundreds * percent + sum(number * WAVE_STEP % 100 < percent for number in range(rest))


def size_of_test_group(recipients: int, percent: int) -> int:
    """Return how many recipients receive a variant of an A/B test: the share that a pass takes, rounded up."""
    return -(-recipients * percent // 100)


async def _enqueue(tx: Transaction, entry: QueueEntry, now: Instant) -> int:
    remaining = and_(contacts.c.tenant_id == entry.tenant_id, contacts.c.email > entry.enqueued_to)
    last = select(contacts.c.email).where(remaining).order_by(contacts.c.email).offset(BATCH_SIZE - 1).limit(1)
    rows = await tx.execute(last)
    until = contacts.c.email <= rows[0][0] if rows else true()
    members = and_(audience(entry.tenant_id, entry.content.lists, entry.content.filter, now), remaining, until)
    stored = await _store(tx, entry, members, now)
    is_whole = sum(variant.share for variant in entry.content.variants) == 100 and entry.wave is None
    passed = stored if is_whole else await _count(tx, members)
    await tx.execute(
        update(queue_entries)
        .where(queue_entries.c.id == entry.id)
        .values(
            processed=queue_entries.c.processed + passed,
            recipients=queue_entries.c.recipients + stored,
            enqueued_to=rows[0][0] if rows else entry.enqueued_to,
            enqueue_ended_at=None if rows else now,
        )
    )
    return stored


async def _count(tx: Transaction, members: ColumnElement[bool]) -> int:
    return int((await tx.execute(select(func.count()).select_from(contacts).where(members)))[0][0])


async def _store(tx: Transaction, entry: QueueEntry, members: ColumnElement[bool], now: Instant) -> int:
    values, rows = _messages(entry, members, now)
    campaign = {"tenant_id": entry.tenant_id, "campaign_key": entry.campaign_key, "lane": entry.lane}
    return await accept_select(tx, values, rows, **campaign, now=now)


def _messages(
    entry: QueueEntry, members: ColumnElement[bool], now: Instant
) -> tuple[dict[str, ColumnElement[Any]], Select[Any]]:
    """Select the new messages from the contacts, so that the database creates them without a round trip."""
    variants = entry.content.variants
    total_share = sum(variant.share for variant in variants)
    # One variant needs no numbering, and without numbering the database can read in index order.
    numbering = func.row_number(type_=BigInteger).over(order_by=contacts.c.email) - 1 + entry.processed
    number = numbering if len(variants) > 1 or entry.wave is not None else literal(0)
    members_of = membership(entry.tenant_id, entry.content.segments, now)
    chosen = (
        select(
            contacts.c.id,
            contacts.c.contact_id,
            contacts.c.email,
            contacts.c.locale,
            _list_of(entry, now).label("list_key"),
            number.label("number"),
            *(case((clause, "true"), else_="false").label(f"in_{key}") for key, clause in members_of.items()),
        )
        .where(members)
        .subquery("chosen")
    )
    # The test group is spread evenly over the audience, and its members are numbered from 0.
    turn = chosen.c.number * total_share // 100 % len(variants)
    values: dict[str, ColumnElement[Any]] = {
        "outbox_id": random_uuid7(now),
        "tenant_id": literal(entry.tenant_id),
        "source": literal(Source.CAMPAIGN.value),
        "request_id": literal(entry.campaign_id),
        "to_email": chosen.c.email,
        "contact_key": chosen.c.id,
        "recipient_id": chosen.c.contact_id,
        "subject": _in_turn(turn, [literal(variant.subject) for variant in variants]),
        "template_key": _in_turn(turn, [_template_for(variant, chosen.c.locale) for variant in variants]),
        "payload": _payload(entry, {key: chosen.c[f"in_{key}"] for key in members_of}),
        "retry_policy": literal(STANDARD_POLICY),
        "on_doubt": literal(OnDoubt.HOLD.value),
        "is_bulk": literal(True),
        "list_key": chosen.c.list_key,
        "campaign_key": literal(entry.campaign_key),
        "created_at": literal(now),
    }
    wanted = true() if total_share == 100 else chosen.c.number * total_share % 100 < total_share
    if entry.wave is not None:
        wanted = chosen.c.number * WAVE_STEP % 100 < entry.wave_percent
    if not _is_first_pass(entry):
        wanted = and_(wanted, ~_message_to(entry, chosen.c.email).exists())
    return values, select(*values.values()).where(wanted).order_by(chosen.c.email)


def _payload(entry: QueueEntry, members_of: Mapping[str, ColumnElement[str]]) -> ColumnElement[str]:
    """Return the payload as JSON, with the membership of the recipient if the content depends on it."""
    shared = orjson.dumps(entry.content.payload).decode()
    if not members_of:
        return literal(shared)
    text: ColumnElement[str] = literal(f'{shared[:-1]},"inSegments":{{', Text)
    for number, (key, is_member) in enumerate(members_of.items()):
        text = text + literal(f"{',' if number else ''}{orjson.dumps(key).decode()}:", Text) + is_member
    return text + literal("}}", Text)


def _is_first_pass(entry: QueueEntry) -> bool:
    """Return whether no recipient has a message yet. A later pass counts `processed` from 0 again."""
    if entry.content.waves is not None:
        return entry.wave == 1
    return entry.recipients <= entry.processed


def _message_to(entry: QueueEntry, email: ColumnElement[str]) -> Select[Any]:
    own = and_(messages.c.campaign_key == entry.campaign_key, messages.c.to_email == email)
    return select(messages.c.id).where(own)


def _list_of(entry: QueueEntry, now: Instant) -> ColumnElement[str]:
    """Return the list of the unsubscribe link: the first of the campaign's lists that reaches the contact."""
    lists = entry.content.lists
    if len(lists) < 2:
        return literal(lists[0] if lists else GENERAL)
    return case(
        *((audience(entry.tenant_id, (list_key,), None, now), literal(list_key)) for list_key in lists[:-1]),
        else_=literal(lists[-1]),
    )


def _in_turn(turn: ColumnElement[int], values: Sequence[ColumnElement[Any]]) -> ColumnElement[Any]:
    """Assign the values in rotation, so that the variants differ by at most one recipient."""
    if len(values) == 1:
        return values[0]
    return case(*((turn == index, value) for index, value in enumerate(values[:-1])), else_=values[-1])


def _template_for(variant: CampaignVariant, locale: ColumnElement[str]) -> ColumnElement[int]:
    """Return the template for the locale: `pt-BR` falls back to `pt`, and both to the default."""
    others = {name: key for name, key in variant.templates.items() if name}
    default = literal(variant.templates[""])
    if not others:
        return default
    exact = [(func.lower(locale) == name.lower(), literal(key)) for name, key in others.items()]
    similar = [(func.lower(locale).like(f"{name.lower()}-%"), literal(key)) for name, key in others.items()]
    return case(*exact, *similar, else_=default)
