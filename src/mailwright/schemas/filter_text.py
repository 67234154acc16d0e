"""Wording: a filter as one English sentence, so that people see whom they are about to write to."""

from collections.abc import Mapping
from typing import Any, Final

from mailwright.audience import filters
from mailwright.audience.contact_fields import as_text
from mailwright.audience.filters import AttributeCondition, FilterCondition, MessageActivity
from mailwright.domain.clock import isoformat

# What the same comparison is called for numbers and for days, and when it does not hold.
_ORDER: Final[Mapping[str, tuple[str, str, str]]] = {
    "greater_than": ("more than", "after", "at_most"),
    "less_than": ("less than", "before", "at_least"),
    "at_least": ("at least", "on or after", "less_than"),
    "at_most": ("at most", "on or before", "greater_than"),
}


def describe(asked: Mapping[str, Any] | FilterCondition) -> str:
    """`People who are on the list news and whose plan is “pro”.`"""
    question = asked if isinstance(asked, FilterCondition) else filters.parse(asked)
    return f"People {_words(question, yes=True, inner=False)}."


def _words(question: FilterCondition, *, yes: bool, inner: bool) -> str:  # noqa: PLR0911, PLR0912 - a table
    match question:
        case filters.AllOf(all=parts):
            return _joined(parts, "and" if yes else "or", yes=yes, inner=inner)
        case filters.AnyOf(any=parts):
            return _joined(parts, "or" if yes else "and", yes=yes, inner=inner)
        case filters.Not(not_=part):
            return _words(part, yes=not yes, inner=inner)
        case AttributeCondition():
            return _attribute(question, yes=yes)
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
        case filters.CreatedSince(created_since=moment):
            return f"who were added {'since' if yes else 'before'} {(isoformat(moment) or '')[:16]} UTC"
        case filters.CreatedBefore(created_before=moment):
            return f"who were added {'before' if yes else 'since'} {(isoformat(moment) or '')[:16]} UTC"
        case filters.WasSent(sent=deeds):
            return _deeds("were sent", "were not sent", deeds, yes=yes)
        case filters.HasOpened(opened=deeds):
            return _deeds("opened", "did not open", deeds, yes=yes)
        case filters.HasClicked(clicked=deeds):
            return _deeds("clicked in", "did not click in", deeds, yes=yes)
        case filters.HasBounced(bounced=deeds):
            return _deeds("bounced", "did not bounce", deeds, yes=yes)
    raise AssertionError(question)


def _joined(parts: tuple[FilterCondition, ...], word: str, *, yes: bool, inner: bool) -> str:
    if len(parts) == 1:
        return _words(parts[0], yes=yes, inner=inner)
    text = f" {word} ".join(_words(part, yes=yes, inner=True) for part in parts)
    return f"({text})" if inner else text


def _are(yes: bool) -> str:
    return "are" if yes else "are not"


def _attribute(question: AttributeCondition, *, yes: bool) -> str:
    whose = f"whose {question.attribute}"
    match question.comparison:
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
                # Whoever has no such attribute answers to no comparison, and so to its opposite.
                return f"whose {question.attribute} is unknown or {_ordered(_ORDER[name][2], bound)}"
            return f"{whose} is {_ordered(name, bound)}"


def _ordered(name: str, bound: Any) -> str:
    number, day, _ = _ORDER[name]
    return f"{day} {bound}" if isinstance(bound, str) else f"{number} {as_text(bound)}"


def _quoted(value: Any) -> str:
    return f"“{value}”" if isinstance(value, str) else as_text(value)


def _deeds(done: str, not_done: str, deeds: MessageActivity, *, yes: bool) -> str:
    match yes, deeds.at_least:
        case True, 1:
            what = f"who {done} a mail"
        case False, 1:
            what = f"who {not_done} a mail"
        case True, times:
            what = f"who {done} at least {times} mails"
        case False, times:
            what = f"who {done} fewer than {times} mails"
    campaign = f" of the campaign {deeds.campaign}" if deeds.campaign else ""
    within = f" within the last {deeds.within_days} days" if deeds.within_days else ""
    return f"{what}{campaign}{within}"
