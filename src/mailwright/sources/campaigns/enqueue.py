"""The walk: a campaign's audience becomes messages, portion by portion, in the order of addresses.

Each portion is one transaction that also moves `enqueued_to`, so a walk that was cut off goes on where it ended:
nobody is left out and nobody is met twice. Whoever is met again all the same, as in a second walk for latecomers, is
known by the address: a campaign has one message for each, and the database holds it to that.
"""

from collections.abc import Sequence
from typing import Any

import orjson
from sqlalchemy import BigInteger, ColumnElement, Select, and_, case, func, insert, literal, select, true, update

from mailwright.audience.segments import audience
from mailwright.domain.campaign import CampaignStatus
from mailwright.domain.clock import Clock, Instant
from mailwright.domain.message import Source
from mailwright.domain.states import OnDoubt, Status
from mailwright.domain.unsubscribe_tokens import GENERAL
from mailwright.ops import metrics
from mailwright.sources.campaigns.entries import CampaignVariant, QueueEntry, find_entry
from mailwright.storage.database import Database, Transaction
from mailwright.storage.expressions import random_uuid7
from mailwright.storage.tables import accepted_counts, campaigns, contacts, deliveries, messages, queue_entries

# Large enough that the commit is not what costs, small enough that other writers do not wait for long.
BATCH_SIZE = 10_000
STANDARD_POLICY = "standard"
ENQUEUED_STATUSES = (CampaignStatus.READY, CampaignStatus.SENDING)


async def enqueue_batch(database: Database, clock: Clock, campaign_key: int) -> QueueEntry | None:
    """One portion. The entry as it is afterwards; None when there is nothing to walk."""
    now = clock.now()
    async with database.write() as tx:
        entry = await find_entry(tx, campaign_key, to_change=True)
        if entry is None or entry.enqueue_ended_at is not None or entry.campaign_status not in ENQUEUED_STATUSES:
            return None
        if entry.campaign_status is CampaignStatus.READY:
            began = {"status": CampaignStatus.SENDING, "updated_at": now}
            await tx.execute(update(campaigns).where(campaigns.c.id == campaign_key).values(**began))
        stored = await _portion(tx, entry, now)
        after = await find_entry(tx, campaign_key)
    metrics.ACCEPTED.labels(Source.CAMPAIGN).inc(stored)
    return after


async def count_new_recipients(tx: Transaction, entry: QueueEntry, now: Instant) -> int:
    """How many people another walk would write to: whoever is in the audience now and has no message yet."""
    people = audience(entry.tenant_id, entry.content.lists, entry.content.filter, now)
    fresh = and_(people, ~_known(entry, contacts.c.email).exists())
    rows = await tx.execute(select(func.count()).select_from(contacts).where(fresh))
    return int(rows[0][0])


async def _portion(tx: Transaction, entry: QueueEntry, now: Instant) -> int:
    mine = and_(contacts.c.tenant_id == entry.tenant_id, contacts.c.email > entry.enqueued_to)
    end = select(contacts.c.email).where(mine).order_by(contacts.c.email).offset(BATCH_SIZE - 1).limit(1)
    found = await tx.execute(end)
    until = contacts.c.email <= found[0][0] if found else true()
    people = and_(audience(entry.tenant_id, entry.content.lists, entry.content.filter, now), mine, until)
    stored = await _store(tx, entry, people, now)
    is_whole = sum(version.share for version in entry.content.variants) == 100
    met = stored if is_whole else (await tx.execute(select(func.count()).select_from(contacts).where(people)))[0][0]
    await tx.execute(
        update(queue_entries)
        .where(queue_entries.c.id == entry.id)
        .values(
            processed=queue_entries.c.processed + met,
            recipients=queue_entries.c.recipients + stored,
            enqueued_to=found[0][0] if found else entry.enqueued_to,
            enqueue_ended_at=None if found else now,
        )
    )
    return stored


async def _store(tx: Transaction, entry: QueueEntry, people: ColumnElement[bool], now: Instant) -> int:
    before = (await tx.execute(select(func.coalesce(func.max(messages.c.id), 0))))[0][0]
    columns, rows = _messages(entry, people, now)
    await tx.execute(insert(messages).from_select(columns, rows))
    # In the order of keys from here on: along the campaign's own index each portion would pass all that came before.
    mine = and_(messages.c.id > before, func.coalesce(messages.c.campaign_key, 0) == entry.campaign_key)
    fresh = select(
        messages.c.id,
        messages.c.tenant_id,
        *(literal(value) for value in (entry.lane, Status.PENDING.value, now, now, 0, 0, 0)),
    ).where(mine)
    columns = ["message_key", "tenant_id", "lane", "status", "claimable_at", "next_attempt_at"]
    await tx.execute(insert(deliveries).from_select([*columns, "attempts", "claims", "resends"], fresh.order_by("id")))
    stored = int((await tx.execute(select(func.count()).select_from(messages).where(mine)))[0][0])
    if stored:
        await tx.execute(
            insert(accepted_counts).values(
                tenant_id=entry.tenant_id, source=Source.CAMPAIGN.value, accepted=stored, created_at=now
            )
        )
    return stored


def _messages(entry: QueueEntry, people: ColumnElement[bool], now: Instant) -> tuple[list[str], Select[Any]]:
    """What an accepted request would have brought, made by the database itself from its contacts."""
    versions = entry.content.variants
    shared = sum(version.share for version in versions)
    # Where all get the same, the numbers would only keep the database from going straight along its index.
    place = func.row_number(type_=BigInteger).over(order_by=contacts.c.email) - 1 + entry.processed
    number = place if len(versions) > 1 else literal(0)
    chosen = (
        select(
            contacts.c.id,
            contacts.c.contact_id,
            contacts.c.email,
            contacts.c.locale,
            _list_of(entry, now).label("list_key"),
            number.label("number"),
        )
        .where(people)
        .subquery("chosen")
    )
    # As many of any row of people as their share, from the first on; those who are tried are numbered by themselves.
    turn = chosen.c.number * shared // 100 % len(versions)
    values: dict[str, ColumnElement[Any]] = {
        "outbox_id": random_uuid7(now),
        "tenant_id": literal(entry.tenant_id),
        "source": literal(Source.CAMPAIGN.value),
        "request_id": literal(entry.campaign_id),
        "to_email": chosen.c.email,
        "contact_key": chosen.c.id,
        "recipient_id": chosen.c.contact_id,
        "subject": _in_turn(turn, [literal(each.subject) for each in versions]),
        "template_key": _in_turn(turn, [_by_locale(each, chosen.c.locale) for each in versions]),
        "payload": literal(orjson.dumps(entry.content.payload).decode()),
        "retry_policy": literal(STANDARD_POLICY),
        "on_doubt": literal(OnDoubt.HOLD.value),
        "is_bulk": literal(True),
        "list_key": chosen.c.list_key,
        "campaign_key": literal(entry.campaign_key),
        "created_at": literal(now),
    }
    wanted = true() if shared == 100 else chosen.c.number * shared % 100 < shared
    if not _is_first(entry):
        wanted = and_(wanted, ~_known(entry, chosen.c.email).exists())
    return list(values), select(*values.values()).where(wanted).order_by(chosen.c.email)


def _is_first(entry: QueueEntry) -> bool:
    """In its first walk a campaign meets nobody who has a message; in a later one it counts from nothing again."""
    return entry.recipients <= entry.processed


def _known(entry: QueueEntry, email: ColumnElement[str]) -> Select[Any]:
    mine = and_(messages.c.campaign_key == entry.campaign_key, messages.c.to_email == email)
    return select(messages.c.id).where(mine)


def _list_of(entry: QueueEntry, now: Instant) -> ColumnElement[str]:
    """The list that a reader can leave: the first of the campaign's lists over which they may be written to."""
    lists = entry.content.lists
    if len(lists) < 2:
        return literal(lists[0] if lists else GENERAL)
    return case(
        *((audience(entry.tenant_id, (list_key,), None, now), literal(list_key)) for list_key in lists[:-1]),
        else_=literal(lists[-1]),
    )


def size_of_test_group(people: int, percent: int) -> int:
    """How many of them get a version while the others wait: the share that a walk takes, rounded up."""
    return -(-people * percent // 100)


def _in_turn(turn: ColumnElement[int], values: Sequence[ColumnElement[Any]]) -> ColumnElement[Any]:
    """Versions take turns among those who are tried: none gets more than one reader more than another."""
    if len(values) == 1:
        return values[0]
    return case(*((turn == place, value) for place, value in enumerate(values[:-1])), else_=values[-1])


def _by_locale(version: CampaignVariant, locale: ColumnElement[str]) -> ColumnElement[int]:
    """`pt-BR` falls back on `pt`, and both on the version for everyone."""
    others = {name: key for name, key in version.templates.items() if name}
    everyone = literal(version.templates[""])
    if not others:
        return everyone
    exact = [(func.lower(locale) == name.lower(), literal(key)) for name, key in others.items()]
    near = [(func.lower(locale).like(f"{name.lower()}-%"), literal(key)) for name, key in others.items()]
    return case(*exact, *near, else_=everyone)
