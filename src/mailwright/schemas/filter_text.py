"""Describe a filter in one English sentence, so that users see who will receive their email."""

from collections.abc import Mapping
from typing import Any, Final

from mailwright.audience import filters
from mailwright.audience.contact_fields import as_text
from mailwright.audience.filters import (
    AttributeCondition,
    EventActivity,
    FilterCondition,
    MessageActivity,
    ValueComparison,
)
from mailwright.domain.clock import isoformat

# The wording of a comparison for numbers and for dates, and the opposite comparison.
_ORDER: Final[Mapping[str, tuple[str, str, str]]] = {
    "greater_than": ("more than", "after", "at_most"),
    "less_than": ("less than", "before", "at_least"),
    "at_least": ("at least", "on or after", "less_than"),
    "at_most": ("at most", "on or before", "greater_than"),
}


def describe(filter_: Mapping[str, Any] | FilterCondition) -> str:
    """Return, for example, `Contacts who are on the list news and whose plan is “pro”.`"""
    condition = filter_ if isinstance(filter_, FilterCondition) else filters.parse(filter_)
    return f"Contacts {_describe(condition, yes=True, inner=False)}."


def describe_property(name: str, condition: ValueComparison) -> str:
    """Return, for example, `total is at least 100`."""
    return _comparison(name, condition, yes=True).removeprefix("whose ")


def _describe(condition: FilterCondition, *, yes: bool, inner: bool) -> str:  # noqa: PLR0911, PLR0912 - a table
    match condition:
        case filters.AllOf(all=parts):
            return _join_conditions(parts, "and" if yes else "or", yes=yes, inner=inner)
        case filters.AnyOf(any=parts):
            return _join_conditions(parts, "or" if yes else "and", yes=yes, inner=inner)
        case filters.Not(not_=part):
            return _describe(part, yes=not yes, inner=inner)
        case AttributeCondition():
            return _comparison(condition.attribute, condition, yes=yes)
        case filters.HasTag(tag=tag):
            return f"who {_are(yes)} tagged {tag}"
        case filters.OnList(list=list_key):
            return f"who {_are(yes)} on the list {list_key}"
        case filters.HasStatus(status=status):
            return f"who {_are(yes)} {status}"
        case filters.HasLocale(locale=locale):
            return f"whose language is {locale}" if yes else f"whose language is not {locale}"
        case filters.InTimezone(timezone=timezone):
            return f"whose time zone is {timezone}" if yes else f"whose time zone is not {timezone}"
        case filters.AtDomain(domain=domain):
            return f"whose address {'is' if yes else 'is not'} at {domain}"
        case filters.CreatedSince(created_since=time):
            return f"who were added {'since' if yes else 'before'} {(isoformat(time) or '')[:16]} UTC"
        case filters.CreatedBefore(created_before=time):
            return f"who were added {'before' if yes else 'since'} {(isoformat(time) or '')[:16]} UTC"
        case filters.WasSent(sent=activity):
            return _describe_activity("were sent", "were not sent", activity, yes=yes)
        case filters.HasOpened(opened=activity):
            return _describe_activity("opened", "did not open", activity, yes=yes)
        case filters.HasClicked(clicked=activity):
            return _describe_activity("clicked in", "did not click in", activity, yes=yes)
        case filters.HasBounced(bounced=activity):
            return _describe_activity("bounced", "did not bounce", activity, yes=yes)
        case filters.HasComplained(complained=activity):
            return _describe_activity("complained about", "did not complain about", activity, yes=yes)
        case filters.HasUnsubscribed(unsubscribed=activity):
            return _describe_activity("unsubscribed through", "did not unsubscribe through", activity, yes=yes)
        case filters.DidNotOpen(did_not_open=reference):
            which = f"the campaign {reference.campaign}"
            return (
                f"who received {which} and did not open it"
                if yes
                else f"who may have opened {which} or did not receive it"
            )
        case filters.HasEvent(event=activity):
            return _describe_events(activity, yes=yes)
    raise AssertionError(condition)


def _describe_events(activity: EventActivity, *, yes: bool) -> str:
    event = f"the event “{activity.name}”"
    match yes, activity.at_least:
        case True, 1:
            what = f"who have {event}"
        case False, 1:
            what = f"who do not have {event}"
        case True, times:
            what = f"who have {event} at least {times} times"
        case False, times:
            what = f"who have {event} fewer than {times} times"
    within = f" within the last {activity.within_days} days" if activity.within_days else ""
    properties = [describe_property(name, condition) for name, condition in (activity.where or {}).items()]
    return f"{what}{within}" + (f" ({' and '.join(properties)})" if properties else "")


def _join_conditions(parts: tuple[FilterCondition, ...], word: str, *, yes: bool, inner: bool) -> str:
    if len(parts) == 1:
        return _describe(parts[0], yes=yes, inner=inner)
    text = f" {word} ".join(_describe(part, yes=yes, inner=True) for part in parts)
    return f"({text})" if inner else text


def _are(yes: bool) -> str:
    return "are" if yes else "are not"


def _comparison(name_: str, condition: ValueComparison, *, yes: bool) -> str:
    whose = f"whose {name_}"
    match condition.comparison:
        case "exists", wanted:
            return f"{whose} is known" if wanted == yes else f"{whose} is not known"
        case ("is_" | "is_not") as name, value:
            return f"{whose} {'is' if (name == 'is_') == yes else 'is not'} {_quoted(value)}"
        case "in_", values:
            return f"{whose} is {'one' if yes else 'none'} of {', '.join(map(_quoted, values))}"
        case "contains", words:
            return f"{whose} {'contains' if yes else 'does not contain'} {_quoted(words)}"
        case name, bound:
            if not yes:
                # A contact without the attribute matches no comparison, and therefore every negated comparison.
                return f"{whose} is unknown or {_ordered(_ORDER[name][2], bound)}"
            return f"{whose} is {_ordered(name, bound)}"


def _ordered(name: str, bound: Any) -> str:
    number, day, _ = _ORDER[name]
    return f"{day} {bound}" if isinstance(bound, str) else f"{number} {as_text(bound)}"


def _quoted(value: Any) -> str:
    return f"“{value}”" if isinstance(value, str) else as_text(value)


def _describe_activity(done: str, not_done: str, activity: MessageActivity, *, yes: bool) -> str:
    match yes, activity.at_least:
        case True, 1:
            what = f"who {done} an email"
        case False, 1:
            what = f"who {not_done} an email"
        case True, times:
            what = f"who {done} at least {times} emails"
        case False, times:
            what = f"who {done} fewer than {times} emails"
    campaign = f" of the campaign {activity.campaign}" if activity.campaign else ""
    within = f" within the last {activity.within_days} days" if activity.within_days else ""
    return f"{what}{_describe_link(activity)}{campaign}{within}{_describe_delay(activity)}"


def _describe_link(activity: MessageActivity) -> str:
    url = activity.url if isinstance(activity, filters.ClickActivity) else None
    return f" with a click on {url}" if url else ""


def _describe_delay(activity: MessageActivity) -> str:
    if not isinstance(activity, filters.OpenActivity):
        return ""
    match activity.after_minutes, activity.before_minutes:
        case None, None:
            return ""
        case ((None | 0), before):
            return f" less than {before} minutes after it was sent"
        case after, None:
            return f" at least {after} minutes after it was sent"
        case after, before:
            return f" {after} to {before} minutes after it was sent"
