"""Display text for statuses, deferrals, times and numbers. Each status also has a colour and an icon."""

from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Final

from mailwright.audience.legal_basis import LegalBasis
from mailwright.domain.clock import DAY, Instant
from mailwright.schemas.time_text import distance

NO_TIME: Final = "–"


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
    if not agent:
        return NO_TIME
    browser = next((name for token, name in _BROWSERS if f"{token}/" in agent), None)
    system = next((name for token, name in _SYSTEMS if token in agent), None)
    return f"{browser} on {system}" if browser and system else agent[:60]


def format_clock(instant: Instant, now: Instant, zone: tzinfo, *, with_seconds: bool = False) -> str:
    """Format as `15:00` today, `Mon 15:00` within six days, else `3 Mar 15:00`, with the year if it is not this one."""
    then, today = _local(instant, zone), _local(now, zone)
    time = f"{then:%H:%M:%S}" if with_seconds else f"{then:%H:%M}"
    if then.date() == today.date():
        return time
    if abs(instant - now) < 6 * DAY:
        return f"{then:%a} {time}"
    return f"{format_day(instant, now, zone)} {time}"


def format_day(instant: Instant, now: Instant, zone: tzinfo) -> str:
    then = _local(instant, zone)
    year = "" if then.year == _local(now, zone).year else f" {then.year}"
    return f"{then.day} {then:%b}{year}"


def format_full(instant: Instant, now: Instant, zone: tzinfo) -> str:
    """Format for tooltips: `3 March 2027, 15:00:12 WET (in 12 minutes)`."""
    then = _local(instant, zone)
    return f"{then.day} {then:%B %Y, %H:%M:%S} {then.tzname()} ({distance(instant, now)})"


def format_number(value: float) -> str:
    """Format as `12 345`, with narrow no-break spaces."""
    if isinstance(value, float) and not value.is_integer():
        return f"{value:,.1f}".replace(",", "\u202f")
    return f"{int(value):,}".replace(",", "\u202f")


def format_percent(part: float, whole: float) -> str:
    if not whole:
        return NO_TIME
    percent = 100 * part / whole
    return f"{percent:.0f} %" if percent >= 10 or percent == 0 else f"{percent:.1f} %"


def legal_basis_options() -> list[tuple[str, str]]:
    """Return the legal bases as options of a form."""
    return [(each.value, each.value.replace("_", " ").capitalize()) for each in LegalBasis]


def _local(instant: Instant, zone: tzinfo) -> datetime:
    return datetime.fromtimestamp(instant / 1000, zone)
