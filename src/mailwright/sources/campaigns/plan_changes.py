"""Compare the plan of an approval request with the current plan of the campaign."""

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson

from mailwright.content.text import from_html
from mailwright.domain.clock import isoformat
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.sources.campaigns.plan import CampaignPlan

# Longer differences are cut.
MAX_DIFF_LINES: Final = 200
_MAX_VALUE: Final = 500
# These fields are compared as the content that recipients get.
_CONTENT: Final = re.compile(r"content\.(?:body|text|subject|preheader)|experiment\.variants\[\d+\]\.(?:body|subject)")
_BETWEEN_TAGS: Final = re.compile(r"(?<=>)\s*(?=<)")


@dataclass(frozen=True, slots=True)
class PlanChange:
    """A field that differs. Content has the differences of its text in the format of `diff -u` instead of values."""

    field: str
    before: str | None = None
    after: str | None = None
    diff: str | None = None

    @property
    def sentence(self) -> str:
        if self.diff is not None:
            return f"{self.field} was changed"
        return f"{self.field}: {self.before or 'none'} → {self.after or 'none'}"


def compare_plans(before: Mapping[str, Any], plan: CampaignPlan) -> list[PlanChange]:
    """Return the differences between a stored plan and a current plan, field by field."""
    after = orjson.loads(plan.as_text())
    changes = [
        PlanChange(name, old, new)
        for name, old, new in _changed(_fields(before["definition"]), _fields(after["definition"]))
        if not _CONTENT.fullmatch(name)
    ]
    for name, values in {
        "sender": (before["sender"], after["sender"]),
        "repeat": (before.get("repeat"), after.get("repeat")),
        "feed": (before.get("feed"), after.get("feed")),
        "attachments": tuple(", ".join(_files(each)) for each in (before, after)),
        "recipients": tuple(f"{each['recipients']:,}" for each in (before, after)),
    }.items():
        if values[0] != values[1]:
            changes.append(PlanChange(name, *values))
    return [*changes, *_compare_contents(before, after)]


def _files(plan: Mapping[str, Any]) -> list[str]:
    return [f"{each['filename']} ({each['attachmentId'][-6:]})" for each in plan["attachments"]]


def _fields(value: Any, path: str = "") -> dict[str, str]:
    """Return the leaves of a definition by their paths: `limits.dailyLimit`."""
    if isinstance(value, dict) and value:
        parts = [_fields(each, f"{path}.{name}" if path else name) for name, each in value.items()]
        return {name: text for part in parts for name, text in part.items()}
    if isinstance(value, list) and any(isinstance(each, dict) for each in value):
        parts = [_fields(each, f"{path}[{number}]") for number, each in enumerate(value)]
        return {name: text for part in parts for name, text in part.items()}
    if path == "scheduledAt" and isinstance(value, int):
        return {path: isoformat(value) or ""}
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return {path: text[:_MAX_VALUE]}


def _changed(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[tuple[str, str | None, str | None]]:
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name):
            yield name, before.get(name), after.get(name)


def _compare_contents(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[PlanChange]:
    old, new = ({(each["variant"], each["locale"]): each for each in plan["contents"]} for plan in (before, after))
    for key in sorted({*old, *new}):
        title = _title(*key)
        if key not in old or key not in new:
            yield PlanChange(title, *("present" if key in side else None for side in (old, new)))
            continue
        was, now = old[key], new[key]
        if was["subject"] != now["subject"]:
            yield PlanChange(f"subject of {title}", was["subject"], now["subject"])
        if (was["html"], was["text"]) != (now["html"], now["text"]):
            yield PlanChange(title, diff=_diff(was, now))


def _title(variant: str, locale: str) -> str:
    parts = [f"variant {variant}"] if variant else []
    return ", ".join(["content", *parts, *([f"language {locale}"] if locale else [])])


def _diff(was: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Compare the visible text. If it is equal, compare the plain text part, then the HTML."""
    for read in (_read_text, _read_plain_part, _read_html):
        lines = list(difflib.unified_diff(read(was), read(now), "before", "now", lineterm="", n=1))
        if lines:
            cut = ["…"] if len(lines) > MAX_DIFF_LINES else []
            return "\n".join(lines[2 : MAX_DIFF_LINES + 2] + cut)
    return ""


def _read_text(content: Mapping[str, Any]) -> list[str]:
    return from_html(content["html"]).splitlines()


def _read_plain_part(content: Mapping[str, Any]) -> list[str]:
    return (content["text"] or "").splitlines()


def _read_html(content: Mapping[str, Any]) -> list[str]:
    return _BETWEEN_TAGS.sub("\n", content["html"]).splitlines()
