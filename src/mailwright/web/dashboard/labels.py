"""Labels of statuses, times and numbers. A status has a shape and a tone besides its word."""

from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

from mailwright.domain.clock import DAY, Instant
from mailwright.schemas.time_text import distance

NO_TIME: Final = "–"


@dataclass(frozen=True, slots=True)
class StatusStyle:
    """`tone` is a colour of the style sheet, `shape` a drawing of templates/icons.html."""

    word: str
    tone: str
    shape: str


# Messages, campaigns, people, keys and parts of the installation. What is not here is shown as it is called.
STATUS_STYLES: Final = {
    "PENDING": StatusStyle("waiting", "info", "ring"),
    "SENT_ATTEMPT": StatusStyle("being sent", "info", "arrow"),
    "RETRY_SCHEDULED": StatusStyle("tried again", "warning", "loop"),
    "SENT": StatusStyle("sent", "good", "check"),
    "FAILED": StatusStyle("failed", "bad", "cross"),
    "IN_DOUBT": StatusStyle("in doubt", "unconfirmed", "question"),
    "CLOSED_UNKNOWN": StatusStyle("never known", "unconfirmed", "slash"),
    "CANCELLED": StatusStyle("cancelled", "neutral", "dash"),
    "DRAFT": StatusStyle("draft", "neutral", "pencil"),
    "READY": StatusStyle("in line", "info", "ring"),
    "SENDING": StatusStyle("sending", "info", "arrow"),
    "PAUSED": StatusStyle("paused", "warning", "bars"),
    "HELD": StatusStyle("held", "warning", "clock"),
    "RUNNING": StatusStyle("running", "info", "arrow"),
    "COMPLETED": StatusStyle("done", "good", "check"),
    "active": StatusStyle("active", "good", "check"),
    "unsubscribed": StatusStyle("left", "neutral", "dash"),
    "bounced": StatusStyle("bounces", "bad", "cross"),
    "complained": StatusStyle("complained", "bad", "cross"),
    "blocked": StatusStyle("blocked", "bad", "slash"),
    "suppressed": StatusStyle("suppressed", "neutral", "slash"),
    "pending": StatusStyle("to confirm", "warning", "clock"),
    "deleted": StatusStyle("deleted", "neutral", "dash"),
    "ok": StatusStyle("fine", "good", "check"),
    "problem": StatusStyle("problem", "bad", "cross"),
    "warning": StatusStyle("look here", "warning", "attention"),
    "left_alone": StatusStyle("left alone", "warning", "clock"),
    "unreachable": StatusStyle("out of reach", "bad", "cross"),
    "stopped": StatusStyle("stopped", "bad", "cross"),
    "revoked": StatusStyle("revoked", "neutral", "dash"),
    "disabled": StatusStyle("disabled", "neutral", "dash"),
    "delivered": StatusStyle("delivered", "good", "check"),
    "open": StatusStyle("opened", "good", "check"),
    "click": StatusStyle("clicked", "good", "arrow"),
    "bounce": StatusStyle("bounced", "bad", "cross"),
    "complaint": StatusStyle("complaint", "bad", "cross"),
    "unsubscribe": StatusStyle("left", "neutral", "dash"),
    "deferred": StatusStyle("put off", "warning", "clock"),
    "published": StatusStyle("published", "good", "check"),
    "accepted": StatusStyle("accepted", "info", "ring"),
    "archived": StatusStyle("archived", "neutral", "dash"),
    "draft": StatusStyle("draft", "neutral", "pencil"),
    "not_yet": StatusStyle("later", "info", "clock"),
    "failing": StatusStyle("failing", "warning", "loop"),
    "paused": StatusStyle("paused", "bad", "bars"),
    "off": StatusStyle("off", "neutral", "dash"),
    "DELIVERED": StatusStyle("taken", "good", "check"),
    "SKIPPED": StatusStyle("skipped", "neutral", "dash"),
    "EXPIRED": StatusStyle("expired", "warning", "slash"),
    "REFUSED": StatusStyle("refused", "bad", "slash"),
}


def status_style(status: str) -> StatusStyle:
    return STATUS_STYLES.get(str(status)) or StatusStyle(str(status).replace("_", " ").lower(), "neutral", "ring")


# The first that is named counts: each names those that it wants to be taken for, too.
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
    """A browser as people call it, `Firefox on Windows`; a program by its own words."""
    if not agent:
        return NO_TIME
    browser = next((words for mark, words in _BROWSERS if f"{mark}/" in agent), None)
    system = next((words for mark, words in _SYSTEMS if mark in agent), None)
    return f"{browser} on {system}" if browser and system else agent[:60]


def zone_of(name: str | None) -> tzinfo:
    """The zone that the viewer's browser told; UTC before it has, and for names that are none."""
    if (
        not name
        or len(name) > 60
        or not name.replace("/", "").replace("_", "").replace("-", "").replace("+", "").isalnum()
    ):
        return UTC
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        return UTC


def format_clock(instant: Instant, now: Instant, zone: tzinfo, *, with_seconds: bool = False) -> str:
    """`15:00` today, `Mon 15:00` this week, `3 Mar 15:00` else, with the year where it is another."""
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
    """Everything, for whoever points at a time: `3 March 2027, 15:00:12 WET (in 12 minutes)`."""
    then = _local(instant, zone)
    return f"{then.day} {then:%B %Y, %H:%M:%S} {then.tzname()} ({distance(instant, now)})"


def format_number(value: float) -> str:
    """`12 345`, with thin spaces; figures stand under each other."""
    if isinstance(value, float) and not value.is_integer():
        return f"{value:,.1f}".replace(",", "\u202f")
    return f"{int(value):,}".replace(",", "\u202f")


def format_percent(part: float, whole: float) -> str:
    if not whole:
        return NO_TIME
    percent = 100 * part / whole
    return f"{percent:.0f} %" if percent >= 10 or percent == 0 else f"{percent:.1f} %"


def _local(instant: Instant, zone: tzinfo) -> datetime:
    return datetime.fromtimestamp(instant / 1000, zone)
