"""Describe a filter in one English sentence, so that users see who will receive their email."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from mailwright.audience import filters
from mailwright.audience.contact_fields import as_text
from mailwright.audience.filters import (
    AttributeCondition,
    EventActivity,
    FilterCondition,
    MessageActivity,
    ValueComparison,
)
from mailwright.domain.clock import Instant, isoformat
from mailwright.domain.translation import gettext, lazy_gettext, lazy_pgettext

# The wording of a comparison for numbers and for dates, and the opposite comparison.
_ORDER: Final[Mapping[str, tuple[str, str, str]]] = {
    "greater_than": (lazy_gettext("more than {bound}"), lazy_gettext("after {bound}"), "at_most"),
    "less_than": (lazy_gettext("less than {bound}"), lazy_gettext("before {bound}"), "at_least"),
    "at_least": (lazy_gettext("at least {bound}"), lazy_gettext("on or after {bound}"), "less_than"),
    "at_most": (lazy_gettext("at most {bound}"), lazy_gettext("on or before {bound}"), "greater_than"),
}


_STATUSES: Final[Mapping[str, str]] = {
    "active": lazy_pgettext("contact", "active"),
    "unsubscribed": lazy_pgettext("contact", "unsubscribed"),
    "bounced": lazy_pgettext("contact", "bounced"),
}


class _ActivityTexts(NamedTuple):
    once: str
    never: str
    at_least: str
    fewer: str


_SENT: Final = _ActivityTexts(
    lazy_gettext("who were sent an email"),
    lazy_gettext("who were not sent an email"),
    lazy_gettext("who were sent at least {times} emails"),
    lazy_gettext("who were sent fewer than {times} emails"),
)
_OPENED: Final = _ActivityTexts(
    lazy_gettext("who opened an email"),
    lazy_gettext("who did not open an email"),
    lazy_gettext("who opened at least {times} emails"),
    lazy_gettext("who opened fewer than {times} emails"),
)
_CLICKED: Final = _ActivityTexts(
    lazy_gettext("who clicked in an email"),
    lazy_gettext("who did not click in an email"),
    lazy_gettext("who clicked in at least {times} emails"),
    lazy_gettext("who clicked in fewer than {times} emails"),
)
_BOUNCED: Final = _ActivityTexts(
    lazy_gettext("who bounced an email"),
    lazy_gettext("who did not bounce an email"),
    lazy_gettext("who bounced at least {times} emails"),
    lazy_gettext("who bounced fewer than {times} emails"),
)
_COMPLAINED: Final = _ActivityTexts(
    lazy_gettext("who complained about an email"),
    lazy_gettext("who did not complain about an email"),
    lazy_gettext("who complained about at least {times} emails"),
    lazy_gettext("who complained about fewer than {times} emails"),
)
_UNSUBSCRIBED: Final = _ActivityTexts(
    lazy_gettext("who unsubscribed through an email"),
    lazy_gettext("who did not unsubscribe through an email"),
    lazy_gettext("who unsubscribed through at least {times} emails"),
    lazy_gettext("who unsubscribed through fewer than {times} emails"),
)


def describe(filter_: Mapping[str, Any] | FilterCondition) -> str:
    """Return, for example, `Contacts who are on the list news and whose attribute plan is “pro”.`"""
    condition = filter_ if isinstance(filter_, FilterCondition) else filters.parse(filter_)
    return gettext("Contacts {condition}.", condition=_describe(condition, yes=True, inner=False))


def describe_property(name: str, condition: ValueComparison) -> str:
    """Return, for example, `total is at least 100`."""
    return _comparison(name, condition, yes=True)


def _describe(condition: FilterCondition, *, yes: bool, inner: bool) -> str:  # noqa: PLR0911, PLR0912 - a table
    match condition:
        case filters.AllOf(all=parts):
            return _join_conditions(parts, gettext("and") if yes else gettext("or"), yes=yes, inner=inner)
        case filters.AnyOf(any=parts):
            return _join_conditions(parts, gettext("or") if yes else gettext("and"), yes=yes, inner=inner)
        case filters.Not(not_=part):
            return _describe(part, yes=not yes, inner=inner)
        case AttributeCondition():
            about = _comparison(condition.attribute, condition, yes=yes)
            return gettext("whose attribute {comparison}", comparison=about)
        case filters.HasTag(tag=tag):
            return gettext("who are tagged {tag}", tag=tag) if yes else gettext("who are not tagged {tag}", tag=tag)
        case filters.OnList(list=list_key):
            text = gettext("who are on the list {list_key}") if yes else gettext("who are not on the list {list_key}")
            return text.format(list_key=list_key)
        case filters.HasStatus(status=status):
            text = gettext("who are {status}") if yes else gettext("who are not {status}")
            return text.format(status=_STATUSES.get(status, status))
        case filters.HasLocale(locale=locale):
            return (
                gettext("whose language is {locale}", locale=locale)
                if yes
                else gettext("whose language is not {locale}", locale=locale)
            )
        case filters.InTimezone(timezone=timezone):
            return (
                gettext("whose time zone is {timezone}", timezone=timezone)
                if yes
                else gettext("whose time zone is not {timezone}", timezone=timezone)
            )
        case filters.AtDomain(domain=domain):
            text = gettext("whose address is at {domain}") if yes else gettext("whose address is not at {domain}")
            return text.format(domain=domain)
        case filters.CreatedSince(created_since=time):
            return _describe_creation(time, since=yes)
        case filters.CreatedBefore(created_before=time):
            return _describe_creation(time, since=not yes)
        case filters.WasSent(sent=activity):
            return _describe_activity(_SENT, activity, yes=yes)
        case filters.HasOpened(opened=activity):
            return _describe_activity(_OPENED, activity, yes=yes)
        case filters.HasClicked(clicked=activity):
            return _describe_activity(_CLICKED, activity, yes=yes)
        case filters.HasBounced(bounced=activity):
            return _describe_activity(_BOUNCED, activity, yes=yes)
        case filters.HasComplained(complained=activity):
            return _describe_activity(_COMPLAINED, activity, yes=yes)
        case filters.HasUnsubscribed(unsubscribed=activity):
            return _describe_activity(_UNSUBSCRIBED, activity, yes=yes)
        case filters.DidNotOpen(did_not_open=reference):
            which = gettext("the campaign {campaign}", campaign=reference.campaign)
            return (
                gettext("who received {which} and did not open it", which=which)
                if yes
                else gettext("who may have opened {which} or did not receive it", which=which)
            )
        case filters.HasEvent(event=activity):
            return _describe_events(activity, yes=yes)
    raise AssertionError(condition)


def _describe_creation(time: Instant, *, since: bool) -> str:
    text = gettext("who were added since {time} UTC") if since else gettext("who were added before {time} UTC")
    return text.format(time=(isoformat(time) or "")[:16])


def _describe_events(activity: EventActivity, *, yes: bool) -> str:
    event = gettext("the event “{name}”", name=activity.name)
    match yes, activity.at_least:
        case True, 1:
            what = gettext("who have {event}", event=event)
        case False, 1:
            what = gettext("who do not have {event}", event=event)
        case True, times:
            what = gettext("who have {event} at least {times} times", event=event, times=times)
        case False, times:
            what = gettext("who have {event} fewer than {times} times", event=event, times=times)
    within = (
        (" " + gettext("within the last {within_days} days", within_days=activity.within_days))
        if activity.within_days
        else ""
    )
    properties = [describe_property(name, condition) for name, condition in (activity.where or {}).items()]
    return f"{what}{within}" + (f" ({_and().join(properties)})" if properties else "")


def _join_conditions(parts: tuple[FilterCondition, ...], word: str, *, yes: bool, inner: bool) -> str:
    if len(parts) == 1:
        return _describe(parts[0], yes=yes, inner=inner)
    text = f" {word} ".join(_describe(part, yes=yes, inner=True) for part in parts)
    return f"({text})" if inner else text


def _and() -> str:
    return f" {gettext('and')} "


def _comparison(attribute: str, condition: ValueComparison, *, yes: bool) -> str:
    match condition.comparison:
        case "exists", wanted:
            text = gettext("{name} is known") if wanted == yes else gettext("{name} is not known")
            return text.format(name=attribute)
        case ("is_" | "is_not") as name, value:
            text = gettext("{name} is {value}") if (name == "is_") == yes else gettext("{name} is not {value}")
            return text.format(name=attribute, value=_quoted(value))
        case "in_", values:
            text = gettext("{name} is one of {values}") if yes else gettext("{name} is none of {values}")
            return text.format(name=attribute, values=", ".join(map(_quoted, values)))
        case "contains", words:
            text = gettext("{name} contains {value}") if yes else gettext("{name} does not contain {value}")
            return text.format(name=attribute, value=_quoted(words))
        case name, bound:
            if not yes:
                # A contact without the attribute matches no comparison, and therefore every negated comparison.
                order = _ordered(_ORDER[name][2], bound)
                return gettext("{name} is unknown or {order}", name=attribute, order=order)
            return gettext("{name} is {order}", name=attribute, order=_ordered(name, bound))


def _ordered(name: str, bound: Any) -> str:
    number, day, _ = _ORDER[name]
    return day.format(bound=bound) if isinstance(bound, str) else number.format(bound=as_text(bound))


def _quoted(value: Any) -> str:
    return gettext("“{value}”", value=value) if isinstance(value, str) else as_text(value)


def _describe_activity(texts: _ActivityTexts, activity: MessageActivity, *, yes: bool) -> str:
    times = activity.at_least
    if times == 1:
        what = str(texts.once if yes else texts.never)
    else:
        what = (texts.at_least if yes else texts.fewer).format(times=times)
    campaign = (" " + gettext("of the campaign {campaign}", campaign=activity.campaign)) if activity.campaign else ""
    within = (
        (" " + gettext("within the last {within_days} days", within_days=activity.within_days))
        if activity.within_days
        else ""
    )
    return f"{what}{_describe_link(activity)}{campaign}{within}{_describe_delay(activity)}"


def _describe_link(activity: MessageActivity) -> str:
    url = activity.url if isinstance(activity, filters.ClickActivity) else None
    return (" " + gettext("with a click on {url}", url=url)) if url else ""


def _describe_delay(activity: MessageActivity) -> str:
    if not isinstance(activity, filters.OpenActivity):
        return ""
    match activity.after_minutes, activity.before_minutes:
        case None, None:
            return ""
        case ((None | 0), before):
            return " " + gettext("less than {before} minutes after it was sent", before=before)
        case after, None:
            return " " + gettext("at least {after} minutes after it was sent", after=after)
        case after, before:
            return " " + gettext("{after} to {before} minutes after it was sent", after=after, before=before)
