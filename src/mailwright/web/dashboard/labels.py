"""Display text for statuses, deferrals, times and numbers. Each status also has a colour and an icon."""

import re
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Final

from mailwright.audience.legal_basis import LegalBasis
from mailwright.domain.clock import Instant
from mailwright.schemas.time_text import distance

NO_TIME: Final = "–"
_WORD_START: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|_")


def spell_name(name: str) -> str:
    """Return the name of a field in words: `scheduledAt` and `scheduled_at` become `scheduled at`."""
    return _WORD_START.sub(" ", name).lower()


@dataclass(frozen=True, slots=True)
class StatusStyle:
    """How a status is shown. `tone` is a colour class of the style sheet, `icon` a name in templates/icons.html."""

    label: str
    tone: str
    icon: str


# Statuses of messages, campaigns, contacts, API keys and services. An unknown status is shown under its own name.
STATUS_STYLES: Final = {
    "PENDING": StatusStyle("Queued", "info", "ring"),
    "SENT_ATTEMPT": StatusStyle("Sending", "info", "arrow"),
    "RETRY_SCHEDULED": StatusStyle("Retrying", "warning", "loop"),
    "SENT": StatusStyle("Sent", "good", "check"),
    "FAILED": StatusStyle("Failed", "bad", "cross"),
    "IN_DOUBT": StatusStyle("Unconfirmed", "unconfirmed", "question"),
    "CLOSED_UNKNOWN": StatusStyle("Unknown", "unconfirmed", "slash"),
    "CANCELLED": StatusStyle("Cancelled", "neutral", "dash"),
    "WAITING": StatusStyle("Queued", "info", "ring"),
    "BOUNCED": StatusStyle("Bounced", "bad", "cross"),
    "SUPPRESSED": StatusStyle("Suppressed", "neutral", "slash"),
    "QUEUED": StatusStyle("Queued or retrying", "info", "ring"),
    "DRAFT": StatusStyle("Draft", "neutral", "pencil"),
    "READY": StatusStyle("Queued", "info", "ring"),
    "SENDING": StatusStyle("Sending", "info", "arrow"),
    "PAUSED": StatusStyle("Paused", "warning", "bars"),
    "HELD": StatusStyle("Deferred", "warning", "clock"),
    "RUNNING": StatusStyle("Running", "info", "arrow"),
    "COMPLETED": StatusStyle("Completed", "good", "check"),
    "active": StatusStyle("Active", "good", "check"),
    "unsubscribed": StatusStyle("Unsubscribed", "neutral", "dash"),
    "bounced": StatusStyle("Bounced", "bad", "cross"),
    "complained": StatusStyle("Complained", "bad", "cross"),
    "blocked": StatusStyle("Blocked", "bad", "slash"),
    "suppressed": StatusStyle("Suppressed", "neutral", "slash"),
    "pending": StatusStyle("Awaiting confirmation", "warning", "clock"),
    "deleted": StatusStyle("Deleted", "neutral", "dash"),
    "ok": StatusStyle("OK", "good", "check"),
    "problem": StatusStyle("Error", "bad", "cross"),
    "warning": StatusStyle("Warning", "warning", "attention"),
    "verified": StatusStyle("Verified", "good", "check"),
    "missing": StatusStyle("Missing", "bad", "cross"),
    "wrong": StatusStyle("Wrong value", "bad", "cross"),
    "unknown": StatusStyle("Unknown", "warning", "question"),
    "retired": StatusStyle("Retired", "neutral", "dash"),
    "left_alone": StatusStyle("Unavailable", "warning", "clock"),
    "unreachable": StatusStyle("Unreachable", "bad", "cross"),
    "stopped": StatusStyle("Stopped", "bad", "cross"),
    "revoked": StatusStyle("Revoked", "neutral", "dash"),
    "disabled": StatusStyle("Disabled", "neutral", "dash"),
    "delivered": StatusStyle("Delivered", "good", "check"),
    "open": StatusStyle("Opened", "good", "check"),
    "click": StatusStyle("Clicked", "good", "arrow"),
    "bounce": StatusStyle("Bounced", "bad", "cross"),
    "complaint": StatusStyle("Complaint", "bad", "cross"),
    "unsubscribe": StatusStyle("Unsubscribed", "neutral", "dash"),
    "deferred": StatusStyle("Deferred", "warning", "clock"),
    "replied": StatusStyle("Replied", "good", "arrow"),
    "published": StatusStyle("Published", "good", "check"),
    "accepted": StatusStyle("Accepted", "info", "ring"),
    "archived": StatusStyle("Archived", "neutral", "dash"),
    "draft": StatusStyle("Draft", "neutral", "pencil"),
    "not_yet": StatusStyle("Scheduled", "info", "clock"),
    "joined": StatusStyle("Subscribed", "good", "check"),
    "left": StatusStyle("Unsubscribed", "neutral", "dash"),
    "campaign.started": StatusStyle("Campaign started", "info", "arrow"),
    "campaign.held": StatusStyle("Campaign held", "warning", "clock"),
    "campaign.warned": StatusStyle("Campaign warning", "warning", "clock"),
    "campaign.resumed": StatusStyle("Campaign resumed", "info", "arrow"),
    "campaign.finished": StatusStyle("Campaign finished", "good", "check"),
    "campaign.cancelled": StatusStyle("Campaign cancelled", "neutral", "dash"),
    "sequence.entered": StatusStyle("Entered sequence", "info", "arrow"),
    "sequence.step": StatusStyle("Sequence step", "info", "check"),
    "sequence.failed": StatusStyle("Sequence step failed", "bad", "cross"),
    "sequence.ended": StatusStyle("Sequence ended", "neutral", "dash"),
    "sequence.webhook": StatusStyle("Request of a step", "info", "arrow"),
    "sequence.draft": StatusStyle("Draft", "neutral", "pencil"),
    "sequence.running": StatusStyle("Running", "good", "arrow"),
    "sequence.paused": StatusStyle("Paused", "warning", "bars"),
    "sequence.archived": StatusStyle("Archived", "neutral", "dash"),
    "failing": StatusStyle("Failing", "warning", "loop"),
    "paused": StatusStyle("Paused", "bad", "bars"),
    "off": StatusStyle("Off", "neutral", "dash"),
    "DELIVERED": StatusStyle("Delivered", "good", "check"),
    "SKIPPED": StatusStyle("Skipped", "neutral", "dash"),
    "EXPIRED": StatusStyle("Expired", "warning", "slash"),
    "REFUSED": StatusStyle("Refused", "bad", "slash"),
}


def status_style(status: str) -> StatusStyle:
    return STATUS_STYLES.get(str(status)) or StatusStyle(str(status).replace("_", " ").capitalize(), "neutral", "ring")


# The order matters, because the user agents of most browsers also contain the names of other browsers.
_BROWSERS: Final = (
    ("Edg", "Edge"),
    ("OPR", "Opera"),
    ("Firefox", "Firefox"),
    ("Chrome", "Chrome"),
    ("Safari", "Safari"),
)
_SYSTEMS: Final = (
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("Linux", "Linux"),
)


def browser_name(agent: str | None) -> str:
    """Name a browser as `Firefox on Windows`; show other user agents as they are."""
    return known_browser(agent) or agent[:60] if agent else NO_TIME


def known_browser(agent: str) -> str | None:
    browser = next((name for token, name in _BROWSERS if f"{token}/" in agent), None)
    system = next((name for token, name in _SYSTEMS if token in agent), None)
    return f"{browser} on {system}" if browser and system else None


def format_clock(instant: Instant, now: Instant, zone: tzinfo, *, with_seconds: bool = False) -> str:
    """Format as `3 Mar 2027, 15:00`, and as `15:00` today."""
    then = _local(instant, zone)
    time = f"{then:%H:%M:%S}" if with_seconds else f"{then:%H:%M}"
    return time if then.date() == _local(now, zone).date() else f"{format_day(instant, zone)}, {time}"


def format_day(instant: Instant, zone: tzinfo) -> str:
    """Format as `3 Mar 2027`."""
    then = _local(instant, zone)
    return f"{then.day} {then:%b %Y}"


def format_full(instant: Instant, now: Instant, zone: tzinfo) -> str:
    """Format for tooltips: `3 Mar 2027, 15:00:12 WET (in 12 minutes)`."""
    then = _local(instant, zone)
    return f"{format_day(instant, zone)}, {then:%H:%M:%S} {then.tzname()} ({distance(instant, now)})"


def format_number(value: float) -> str:
    """Format as `12,345`, and with one decimal place if it is not whole."""
    return f"{value:,.1f}" if isinstance(value, float) and not value.is_integer() else f"{int(value):,}"


def format_percent(part: float, whole: float) -> str:
    if not whole:
        return NO_TIME
    return format_rate(part / whole)


def format_rate(rate: float | None) -> str:
    """Format a share of one as `12.5 %`, and as a dash if it was not measured."""
    return NO_TIME if rate is None else f"{100 * rate:.1f} %".replace(".0 %", " %")


def legal_basis_options() -> list[tuple[str, str]]:
    """Return the legal bases as options of a form."""
    return [(each.value, each.value.replace("_", " ").capitalize()) for each in LegalBasis]


def _local(instant: Instant, zone: tzinfo) -> datetime:
    return datetime.fromtimestamp(instant / 1000, zone)
