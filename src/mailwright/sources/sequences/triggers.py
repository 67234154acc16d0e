"""Find who enters a sequence because of a segment, a campaign, a date, a schedule or a feed."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from sqlalchemy import ColumnElement, and_, case, delete, false, func, insert, literal, select, update

from mailwright.audience.eligibility import is_known, may_receive
from mailwright.audience.filter_sql import filter_clause
from mailwright.audience.segments import load_filters
from mailwright.content.blocks.feed import FeedUnreachable
from mailwright.domain.clock import Instant, isoformat, to_instant
from mailwright.domain.errors import InvalidInput
from mailwright.domain.schedule import OVERDUE_AFTER
from mailwright.ops.logs import logger
from mailwright.sources.api.validation import FieldError
from mailwright.sources.feeds.follow import FeedOwner, follow, take_items, unfollow
from mailwright.sources.feeds.reader import Fetch
from mailwright.sources.sequences.definition import InvalidSequence, Trigger, TriggerKind
from mailwright.sources.sequences.enrol import People, enrol_contacts, enrol_matching, wanted_people
from mailwright.sources.sequences.program import zone_of
from mailwright.sources.sequences.versions import Published
from mailwright.storage.database import Transaction
from mailwright.storage.expressions import json_text
from mailwright.storage.tables import contact_events, contacts, sequence_members, sequences

# If no worker ran for longer than this, people do not enter for the missed dates.
MAX_MISSED_DAYS: Final = 3

log = logger(__name__)

_M = sequence_members.c


def feed_owner(sequence_key: int) -> FeedOwner:
    return FeedOwner("sequence", sequence_key)


async def check_feed(fetch: Fetch, url: str) -> str | None:
    """Read the feed of a trigger once.

    Return why it cannot be reached now. Raise InvalidSequence if it is not a feed.
    """
    try:
        await fetch(url)
    except FeedUnreachable as error:
        return str(error)
    except InvalidInput as error:
        raise InvalidSequence([FieldError("trigger.rss", "FEED_INVALID", error.text)]) from error
    return None


async def reset(
    tx: Transaction, sequence_key: int, tenant_id: int, trigger: Trigger, *, now: Instant, zone: str
) -> None:
    """Begin to watch a trigger. People who match it now do not enter, and dates count from now on."""
    await tx.execute(delete(sequence_members).where(_M.sequence_key == sequence_key))
    clause = await condition_of(tx, tenant_id, trigger, now)
    if clause is not None:
        members = select(literal(sequence_key), contacts.c.id).where(is_known(tenant_id), clause)
        await tx.execute(insert(sequence_members).from_select(["sequence_key", "contact_key"], members))
    last_day: str | None = None
    if trigger.kind is TriggerKind.DATE_ATTRIBUTE:
        today = datetime.fromtimestamp(now / 1000, UTC).astimezone(zone_of(zone)).date()
        is_over = now >= starts_at(today, trigger.body.at, zone)
        last_day = (today if is_over else today - timedelta(days=1)).isoformat()
    next_entry_at: Instant | None = None
    if trigger.kind is TriggerKind.SCHEDULE:
        next_entry_at = trigger.body.schedule.recurrence.next_from(now, _schedule_zone(trigger, zone))
    if trigger.kind is TriggerKind.RSS:
        await follow(tx, tenant_id, feed_owner(sequence_key), trigger.body.rss, now)
    else:
        await unfollow(tx, feed_owner(sequence_key))
    watched = update(sequences).where(sequences.c.id == sequence_key)
    await tx.execute(watched.values(last_day=last_day, next_entry_at=next_entry_at))


async def enrol_new_members(tx: Transaction, sequence_key: int, tenant_id: int, trigger: Trigger, now: Instant) -> int:
    """Compare who matches the condition of a trigger with who matched last time, and enrol the difference."""
    entering = await remember_members(tx, sequence_key, tenant_id, trigger, now)
    return await enrol_contacts(tx, sequence_key, entering, _because(trigger), now)


async def remember_members(
    tx: Transaction, sequence_key: int, tenant_id: int, trigger: Trigger, now: Instant
) -> list[int]:
    """Store who matches the condition of a trigger now, and return the people who would enter because of the
    difference.
    """
    clause = await condition_of(tx, tenant_id, trigger, now)
    if clause is None:
        return []
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
    return left if trigger.kind is TriggerKind.LEAVES_SEGMENT else joined


async def entered_by_edit(
    tx: Transaction, tenant_id: int, trigger: Trigger, filter_: Any, now: Instant
) -> ColumnElement[bool]:
    """Match the contacts who enter only because the segment of a trigger gets a new filter."""
    old = await condition_of(tx, tenant_id, trigger, now)
    before = and_(is_known(tenant_id), false() if old is None else old)
    after = and_(is_known(tenant_id), filter_clause(filter_, tenant_id, now))
    return and_(before, ~after) if trigger.kind is TriggerKind.LEAVES_SEGMENT else and_(after, ~before)


async def enrol_by_date(
    tx: Transaction, sequence_key: int, tenant_id: int, trigger: Trigger, *, last_day: str, now: Instant, zone: str
) -> int:
    """Enrol the people whose date is reached, for each day since the last one that was handled."""
    today = datetime.fromtimestamp(now / 1000, UTC).astimezone(zone_of(zone)).date()
    last = date.fromisoformat(last_day)
    if last > today + timedelta(days=1):  # From a clock that was ahead. One day can be from another time zone.
        last = today
    day = max(last, today - timedelta(days=MAX_MISSED_DAYS)) + timedelta(days=1)
    enrolled, handled = 0, last.isoformat()
    while day <= today and now >= starts_at(day, trigger.body.at, zone):
        matching = and_(is_known(tenant_id), _has_date(trigger, day - timedelta(days=trigger.body.offset_days)))
        rows = await tx.execute(select(contacts.c.id).where(matching))
        enrolled += await enrol_contacts(tx, sequence_key, [row.id for row in rows], _because(trigger), now)
        handled, day = day.isoformat(), day + timedelta(days=1)
    if handled != last_day:
        await tx.execute(update(sequences).where(sequences.c.id == sequence_key).values(last_day=handled))
    return enrolled


async def enrol_by_schedule(tx: Transaction, sequence: Any, trigger: Trigger, *, now: Instant, zone: str) -> int:
    """Enrol everyone in the trigger's group if its schedule is due.

    If several times were missed, only the last one counts.
    """
    place = _schedule_zone(trigger, zone)
    recurrence = trigger.body.schedule.recurrence
    following = recurrence.next_from(now + 1, place)
    if now < sequence.next_entry_at:
        # After a clock was set back, nobody enters twice; after a clock was far ahead, people enter again soon.
        latest = recurrence.next_from(following + 1, place)
        if sequence.next_entry_at > latest:
            await _set_next_entry(tx, sequence.id, latest)
        return 0
    await _set_next_entry(tx, sequence.id, following)
    due_at = recurrence.latest_until(now, place)
    if now - due_at > OVERDUE_AFTER:
        log.warning("sequence_schedule_missed", sequence=sequence.sequence_id, due=isoformat(due_at))
        return 0
    return await _enrol_group(tx, sequence, trigger, f"schedule {isoformat(due_at)}", now)


async def enrol_by_feed(tx: Transaction, sequence: Any, trigger: Trigger, now: Instant) -> int:
    """Enrol everyone in the trigger's group with the oldest feed item that has not started a run yet."""
    items = await take_items(tx, feed_owner(sequence.id), now, limit=1)
    if not items:
        return 0
    because = f"rss {items[0].content['title']}"
    return await _enrol_group(tx, sequence, trigger, because, now, item_key=items[0].key)


async def _enrol_group(
    tx: Transaction, sequence: Any, trigger: Trigger, because: str, now: Instant, *, item_key: int | None = None
) -> int:
    """Enrol everyone on the trigger's list or in its segment who may receive the emails of the sequence."""
    people = People(list_key=trigger.body.list, segment=trigger.body.segment)
    wanted, _ = await wanted_people(tx, sequence.tenant_id, people, now)
    eligible = may_receive(sequence.tenant_id, [] if sequence.list_key is None else [sequence.list_key])
    return await enrol_matching(tx, sequence.id, and_(wanted, eligible), because, now, item_key=item_key)


async def _set_next_entry(tx: Transaction, sequence_key: int, at: Instant) -> None:
    await tx.execute(update(sequences).where(sequences.c.id == sequence_key).values(next_entry_at=at))


def _schedule_zone(trigger: Trigger, zone: str) -> ZoneInfo:
    return zone_of(trigger.body.schedule.timezone or zone)


def _because(trigger: Trigger) -> str:
    return f"{trigger.kind.value} {trigger.value}"


def starts_at(day: date, clock_time: str, zone: str) -> Instant:
    return to_instant(datetime.combine(day, time.fromisoformat(clock_time), tzinfo=zone_of(zone)))


def _has_date(trigger: Trigger, day: date) -> ColumnElement[bool]:
    return date_part(trigger).in_(_date_parts(trigger, day))


def date_part(trigger: Trigger) -> ColumnElement[str]:
    """Return the part of a contact's attribute that decides: `2026-01-20`, or `01-20` every year."""
    value = json_text(contacts.c.attributes, trigger.value or "")
    if not trigger.body.yearly:
        return func.substr(value, 1, 10)
    return case((func.length(value) >= 10, func.substr(value, 6, 5)), else_="")


def _date_parts(trigger: Trigger, day: date) -> list[str]:
    """Return the values of the attribute that match a day. In other years, a leap day is celebrated the day before."""
    if not trigger.body.yearly:
        return [day.isoformat()]
    is_eve = f"{day:%m-%d}" == "02-28" and (day + timedelta(days=1)).month == 3
    return [f"{day:%m-%d}", *(["02-29"] if is_eve else [])]


def date_times(trigger: Trigger, *, now: Instant, until: Instant, zone: str) -> dict[str, list[Instant]]:
    """Return when people enter after now and until a time, by the date in their attribute."""
    found: dict[str, list[Instant]] = {}
    day = datetime.fromtimestamp(now / 1000, UTC).astimezone(zone_of(zone)).date()
    while (at := starts_at(day, trigger.body.at, zone)) <= until:
        if at > now:
            for part in _date_parts(trigger, day - timedelta(days=trigger.body.offset_days)):
                found.setdefault(part, []).append(at)
        day += timedelta(days=1)
    return found


def schedule_times(trigger: Trigger, *, now: Instant, until: Instant, zone: str) -> list[Instant]:
    """Return when people enter after now and until a time."""
    found: list[Instant] = []
    recurrence, place = trigger.body.schedule.recurrence, _schedule_zone(trigger, zone)
    at = recurrence.next_from(now + 1, place)
    while at <= until:
        found.append(at)
        at = recurrence.next_from(at + 1, place)
    return found


async def condition_of(tx: Transaction, tenant_id: int, trigger: Trigger, now: Instant) -> ColumnElement[bool] | None:
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
    program = published.program
    is_started = published.definition.trigger.kind is TriggerKind.EVENT
    needs_events = is_started or program.awaited_events or program.stop_events
    newest = select(func.coalesce(func.max(contact_events.c.id), 0)).scalar_subquery()
    after = newest if restarts else func.coalesce(sequences.c.events_after, newest)
    values = {"events_after": after if needs_events else None}
    await tx.execute(update(sequences).where(sequences.c.id == sequence_key).values(**values))
