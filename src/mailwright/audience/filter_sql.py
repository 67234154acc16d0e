"""Filters as SQL conditions on a row of `contacts`. The result is true or false, never null."""

from collections.abc import Callable, Iterable, Mapping
from operator import ge, gt, le, lt
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, and_, false, func, not_, or_, select

from mailwright.audience import filters
from mailwright.audience.contact_events import LATE_AFTER
from mailwright.audience.eligibility import is_subscribed_to
from mailwright.audience.filters import (
    AttributeCondition,
    EventActivity,
    FilterCondition,
    MessageActivity,
    ValueComparison,
)
from mailwright.audience.responses import responded_between, settled_responses, was_not_opened
from mailwright.domain.clock import DAY, Instant
from mailwright.domain.states import EventType, Status
from mailwright.domain.unsubscribe_tokens import GENERAL
from mailwright.storage.expressions import (
    json_boolean,
    json_date,
    json_number,
    json_string,
    json_text,
    lower_ascii,
    position,
)
from mailwright.storage.tables import (
    campaigns,
    contact_events,
    contact_tags,
    contacts,
    deliveries,
    events,
    lists,
    messages,
)

_ORDER: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "greater_than": gt,
    "less_than": lt,
    "at_least": ge,
    "at_most": le,
}


def filter_clause(filter_: Mapping[str, Any] | FilterCondition, tenant_id: int, now: Instant) -> ColumnElement[bool]:
    """Return the SQL condition for a filter, which is either parsed or still JSON.

    If the filter names a list or a campaign that does not exist, nobody matches: without its subscriptions, "not on
    this list" would match everyone.
    """
    condition = filter_ if isinstance(filter_, FilterCondition) else filters.parse(filter_)
    given = condition.model_dump(by_alias=True, exclude_none=True)
    named = [_has_list(tenant_id, key) for key in sorted({*filters.values_named(given, "list")} - {GENERAL})]
    named += [_has_campaign(tenant_id, each) for each in sorted({*filters.values_named(given, "campaign")})]
    return and_(*named, _condition(condition, tenant_id, now))


def _has_list(tenant_id: int, list_key: str) -> ColumnElement[bool]:
    matching = (lists.c.tenant_id == tenant_id, lists.c.list_key == list_key)
    return select(lists.c.id).where(*matching).correlate(None).exists()


def _has_campaign(tenant_id: int, campaign_id: str) -> ColumnElement[bool]:
    matching = (campaigns.c.tenant_id == tenant_id, campaigns.c.campaign_id == campaign_id)
    return select(campaigns.c.id).where(*matching).correlate(None).exists()


def _condition(condition: FilterCondition, tenant_id: int, now: Instant) -> ColumnElement[bool]:  # noqa: PLR0911, PLR0912 - a table
    match condition:
        case filters.AllOf(all=parts):
            return and_(*(_condition(part, tenant_id, now) for part in parts))
        case filters.AnyOf(any=parts):
            return or_(*(_condition(part, tenant_id, now) for part in parts))
        case filters.Not(not_=part):
            return not_(_condition(part, tenant_id, now))
        case AttributeCondition():
            return _compare(contacts.c.attributes, condition.attribute, condition)
        case filters.HasTag(tag=tag):
            matching = (contact_tags.c.contact_key == contacts.c.id, contact_tags.c.tag == tag)
            return select(contact_tags.c.tag).where(*matching).exists()
        case filters.OnList(list=list_key):
            return is_subscribed_to(list_key)
        case filters.HasStatus(status=status):
            return contacts.c.status == status
        case filters.HasLocale(locale=locale):
            theirs = func.coalesce(lower_ascii(contacts.c.locale), "")
            wanted = locale.lower()
            return or_(theirs == wanted, func.substr(theirs, 1, len(wanted) + 1) == f"{wanted}-")
        case filters.InTimezone(timezone=timezone):
            return func.coalesce(contacts.c.timezone, "") == timezone
        case filters.AtDomain(domain=domain):
            return contacts.c.email.endswith(f"@{domain}")
        case filters.CreatedSince(created_since=time):
            return contacts.c.created_at >= time
        case filters.CreatedBefore(created_before=time):
            return contacts.c.created_at < time
        case filters.WasSent(sent=activity):
            return _occurs_often_enough(_sent_messages(activity, now), activity, tenant_id)
        case filters.HasOpened(opened=activity):
            return _occurs_often_enough(_messages_with_event(EventType.OPENED, activity, now), activity, tenant_id)
        case filters.HasClicked(clicked=activity):
            return _occurs_often_enough(_messages_with_event(EventType.CLICKED, activity, now), activity, tenant_id)
        case filters.DidNotOpen(did_not_open=reference):
            return _occurs_often_enough(_unopened_messages(), MessageActivity(campaign=reference.campaign), tenant_id)
        case filters.HasBounced(bounced=activity):
            return _occurs_often_enough(_messages_with_event(EventType.BOUNCED, activity, now), activity, tenant_id)
        case filters.HasComplained(complained=activity):
            return _occurs_often_enough(_messages_with_event(EventType.COMPLAINED, activity, now), activity, tenant_id)
        case filters.HasUnsubscribed(unsubscribed=activity):
            found = _messages_with_event(EventType.UNSUBSCRIBED, activity, now)
            return _occurs_often_enough(found, activity, tenant_id)
        case filters.HasEvent(event=activity):
            return _has_events(activity, tenant_id, now)
    raise AssertionError(condition)


def _compare(column: ColumnElement[str], key: str, condition: ValueComparison) -> ColumnElement[bool]:  # noqa: PLR0911 - a table
    """Compare the value at a key of a JSON object."""
    match condition.comparison:
        case "exists", wanted:
            found = json_text(column, key).is_not(None)
            return found if wanted else not_(found)
        case "is_", value:
            return _is_one_of(column, key, [value])
        case "is_not", value:
            return not_(_is_one_of(column, key, [value]))
        case "in_", values:
            return _is_one_of(column, key, values)
        case "contains", text:
            return func.coalesce(position(lower_ascii(json_string(column, key)), lower_ascii(text)), 0) > 0
        case name, str() as day:
            return func.coalesce(_ORDER[name](json_date(column, key), day), false())
        case name, number:
            return func.coalesce(_ORDER[name](json_number(column, key), float(number)), false())


def _is_one_of(column: ColumnElement[str], key: str, values: Iterable[Any]) -> ColumnElement[bool]:
    """Match attributes that equal one of the values. Each value is compared only with attributes of its own type."""
    flags = ["true" if value else "false" for value in values if isinstance(value, bool)]
    numbers = [float(value) for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    texts = [value for value in values if isinstance(value, str)]
    kinds = ((json_boolean, flags), (json_number, numbers), (json_string, texts))
    return or_(*(func.coalesce(read(column, key).in_(wanted), false()) for read, wanted in kinds if wanted))


def _sent_messages(activity: MessageActivity, now: Instant) -> Select[Any]:
    sent = deliveries.c.status == Status.SENT.value
    return (
        select(messages.c.id)
        .join_from(messages, deliveries, deliveries.c.message_key == messages.c.id)
        .where(sent, *_since(deliveries.c.sent_at, activity, now))
    )


def _messages_with_event(type_: EventType, activity: MessageActivity, now: Instant) -> Select[Any]:
    """Select the messages that have a response of this type. Opens and clicks by machines do not count."""
    url = activity.url if isinstance(activity, filters.ClickActivity) else None
    settled = settled_responses(type_, now, url)
    response = settled.where(*_since(events.c.created_at, activity, now)).correlate(messages).exists()
    found = select(messages.c.id).where(response)
    if isinstance(activity, filters.OpenActivity):
        after, before = activity.after_minutes, activity.before_minutes
        if after is not None or before is not None:
            joined = found.join_from(messages, deliveries, deliveries.c.message_key == messages.c.id)
            found = joined.where(responded_between(type_, url, after, before))
    return found


def _unopened_messages() -> Select[Any]:
    """Select the messages that a contact who can be tracked did not open. The contact is the row of the outer query."""
    return (
        select(messages.c.id)
        .join_from(messages, deliveries, deliveries.c.message_key == messages.c.id)
        .where(was_not_opened())
        .correlate(contacts)
    )


def _since(
    time: ColumnElement[int], activity: MessageActivity | EventActivity, now: Instant
) -> list[ColumnElement[bool]]:
    return [] if activity.within_days is None else [time >= now - activity.within_days * DAY]


def _occurs_often_enough(
    matching_messages: Select[Any], activity: MessageActivity, tenant_id: int
) -> ColumnElement[bool]:
    """Return the condition on the number of messages. It is fast, because it uses the index on a contact's messages."""
    matching = matching_messages.where(messages.c.tenant_id == tenant_id, messages.c.to_email == contacts.c.email)
    if activity.campaign is not None:
        known = select(campaigns.c.id).where(
            campaigns.c.tenant_id == tenant_id, campaigns.c.campaign_id == activity.campaign
        )
        matching = matching.where(messages.c.campaign_key == known.scalar_subquery())
    if activity.at_least == 1:
        return matching.exists()
    counted = matching.with_only_columns(func.count(messages.c.id.distinct()))
    return counted.correlate(contacts).scalar_subquery() >= activity.at_least


def reported_since(activity: EventActivity, tenant_id: int, since: ColumnElement[Any]) -> ColumnElement[bool]:
    """Return the condition that an event of the contact was reported since a time."""
    return _matching_events(activity, tenant_id).where(contact_events.c.received_at >= since).exists()


def reported_after(
    activity: EventActivity, tenant_id: int, key: ColumnElement[Any], since: ColumnElement[Any]
) -> ColumnElement[bool]:
    """Return the condition that an event of the contact was reported after another one.

    A late event counts only if it occurred since a time.
    """
    e = contact_events.c
    counts = or_(e.occurred_at >= since, e.received_at - e.occurred_at <= LATE_AFTER)
    return _matching_events(activity, tenant_id).where(e.id > key, counts).exists()


def _matching_events(activity: EventActivity, tenant_id: int) -> Select[Any]:
    e = contact_events.c
    return select(e.id).where(
        e.tenant_id == tenant_id,
        e.email == contacts.c.email,
        e.name == activity.name,
        *(_compare(e.properties, key, comparison) for key, comparison in (activity.where or {}).items()),
    )


def _has_events(activity: EventActivity, tenant_id: int, now: Instant) -> ColumnElement[bool]:
    """Return the condition on the contact's events. It uses their index on address, name and time."""
    matching = _matching_events(activity, tenant_id).where(*_since(contact_events.c.occurred_at, activity, now))
    if activity.at_least == 1:
        return matching.exists()
    return matching.with_only_columns(func.count()).correlate(contacts).scalar_subquery() >= activity.at_least
