"""Find who enters a sequence because of a segment, a campaign or a date, and remember who matched before."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final

from sqlalchemy import ColumnElement, and_, delete, func, insert, literal, or_, select, update

from mailwright.audience.eligibility import is_known
from mailwright.audience.filter_sql import filter_clause
from mailwright.audience.segments import load_filters
from mailwright.domain.clock import Instant, to_instant
from mailwright.sources.sequences.definition import Trigger, TriggerKind
from mailwright.sources.sequences.enrol import enrol_contacts
from mailwright.sources.sequences.program import zone_of
from mailwright.sources.sequences.versions import Published
from mailwright.storage.database import Transaction
from mailwright.storage.expressions import json_text
from mailwright.storage.tables import contact_events, contacts, sequence_members, sequences

# A date that was missed for longer than this, because no worker ran, is not made up for.
MAX_MISSED_DAYS: Final = 3

_M = sequence_members.c


async def reset(
    tx: Transaction, sequence_key: int, tenant_id: int, trigger: Trigger, *, now: Instant, zone: str
) -> None:
    """Begin to watch a trigger: people who match it now do not enter, and today's date counts from now on."""
    await tx.execute(delete(sequence_members).where(_M.sequence_key == sequence_key))
    clause = await _condition(tx, tenant_id, trigger, now)
    if clause is not None:
        members = select(literal(sequence_key), contacts.c.id).where(is_known(tenant_id), clause)
        await tx.execute(insert(sequence_members).from_select(["sequence_key", "contact_key"], members))
    last_day: str | None = None
    if trigger.kind is TriggerKind.DATE_ATTRIBUTE:
        today = datetime.fromtimestamp(now / 1000, UTC).astimezone(zone_of(zone)).date()
        is_over = now >= _starts_at(today, trigger.body.at, zone)
        last_day = (today if is_over else today - timedelta(days=1)).isoformat()
    await tx.execute(update(sequences).where(sequences.c.id == sequence_key).values(last_day=last_day))


async def enrol_new_members(tx: Transaction, sequence_key: int, tenant_id: int, trigger: Trigger, now: Instant) -> int:
    """Compare who matches the condition of a trigger with who matched last time, and enrol the difference."""
    clause = await _condition(tx, tenant_id, trigger, now)
    if clause is None:
        return 0
    member = select(_M.contact_key).where(_M.sequence_key == sequence_key, _M.contact_key == contacts.c.id).exists()
    matches = and_(is_known(tenant_id), clause)
    joined = [row.id for row in await tx.execute(select(contacts.c.id).where(matches, ~member))]
    still = select(contacts.c.id).where(contacts.c.id == _M.contact_key, matches).exists()
    gone = and_(_M.sequence_key == sequence_key, ~still)
    left = [row.contact_key for row in await tx.execute(select(_M.contact_key).where(gone))]
    if left:
        await tx.execute(delete(sequence_members).where(gone))
    if joined:
        added = select(literal(sequence_key), contacts.c.id).where(matches, ~member)
        await tx.execute(insert(sequence_members).from_select(["sequence_key", "contact_key"], added))
    entering = left if trigger.kind is TriggerKind.LEAVES_SEGMENT else joined
    return await enrol_contacts(tx, sequence_key, entering, _because(trigger), now)


async def enrol_by_date(
    tx: Transaction, sequence_key: int, tenant_id: int, trigger: Trigger, *, last_day: str, now: Instant, zone: str
) -> int:
    """Enrol the people whose date is reached, for each day since the last one that was handled."""
    today = datetime.fromtimestamp(now / 1000, UTC).astimezone(zone_of(zone)).date()
    day = max(date.fromisoformat(last_day), today - timedelta(days=MAX_MISSED_DAYS)) + timedelta(days=1)
    enrolled, handled = 0, last_day
    while day <= today and now >= _starts_at(day, trigger.body.at, zone):
        matching = and_(is_known(tenant_id), _has_date(trigger, day - timedelta(days=trigger.body.offset_days)))
        rows = await tx.execute(select(contacts.c.id).where(matching))
        enrolled += await enrol_contacts(tx, sequence_key, [row.id for row in rows], _because(trigger), now)
        handled, day = day.isoformat(), day + timedelta(days=1)
    if handled != last_day:
        await tx.execute(update(sequences).where(sequences.c.id == sequence_key).values(last_day=handled))
    return enrolled


def _because(trigger: Trigger) -> str:
    return f"{trigger.kind.value} {trigger.value}"


def _starts_at(day: date, clock_time: str, zone: str) -> Instant:
    return to_instant(datetime.combine(day, time.fromisoformat(clock_time), tzinfo=zone_of(zone)))


def _has_date(trigger: Trigger, day: date) -> ColumnElement[bool]:
    """Match contacts whose attribute is this date. In other years, a leap day is celebrated the day before."""
    value = json_text(contacts.c.attributes, trigger.value or "")
    if not trigger.body.yearly:
        return func.substr(value, 1, 10) == day.isoformat()
    days = [f"{day:%m-%d}"]
    if days == ["02-28"] and (day + timedelta(days=1)).month == 3:
        days.append("02-29")
    is_date = func.length(value) >= 10
    return and_(is_date, or_(*(func.substr(value, 6, 5) == each for each in days)))


async def _condition(tx: Transaction, tenant_id: int, trigger: Trigger, now: Instant) -> ColumnElement[bool] | None:
    """Return the condition of a trigger for a row of `contacts`; None if it has none or its segment was deleted."""
    key = trigger.value or ""
    filter_: Any = None
    match trigger.kind:
        case TriggerKind.ENTERS_SEGMENT | TriggerKind.LEAVES_SEGMENT:
            filter_ = (await load_filters(tx, tenant_id, [key])).get(key)
        case TriggerKind.OPENS:
            filter_ = {"opened": {"campaign": key}}
        case TriggerKind.CLICKS:
            url = {} if trigger.body.url is None else {"url": trigger.body.url}
            filter_ = {"clicked": {"campaign": key, **url}}
        case _:
            pass
    return None if filter_ is None else filter_clause(filter_, tenant_id, now)


async def follow_events(tx: Transaction, sequence_key: int, published: Published, *, restarts: bool) -> None:
    """Begin, continue or cease to read contact events. Events from before the beginning start nothing."""
    needs_events = published.definition.trigger.kind is TriggerKind.EVENT or published.program.awaited_events
    newest = select(func.coalesce(func.max(contact_events.c.id), 0)).scalar_subquery()
    after = newest if restarts else func.coalesce(sequences.c.events_after, newest)
    values = {"events_after": after if needs_events else None}
    await tx.execute(update(sequences).where(sequences.c.id == sequence_key).values(**values))
