"""Words: statuses, waits and times as people read them. A status has a shape and a tone besides its word."""

from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

from mailwright.domain.campaign import AWAITING_WINNER, CANCELLED, INDEFINITELY, PAUSED, SCHEDULED
from mailwright.domain.clock import DAY, Instant
from mailwright.domain.permits import QUOTA_EXHAUSTED, DeferReason
from mailwright.outbox.explain import RULES, distance
from mailwright.policies.pacing import INTERVAL

NO_TIME: Final = "–"


@dataclass(frozen=True, slots=True)
class Look:
    """`tone` is a colour of the style sheet, `shape` a drawing of templates/icons.html."""

    word: str
    tone: str
    shape: str


# Messages, campaigns, people, keys and parts of the installation. What is not here is shown as it is called.
LOOKS: Final = {
    "PENDING": Look("waiting", "calm", "ring"),
    "SENT_ATTEMPT": Look("being sent", "calm", "arrow"),
    "RETRY_SCHEDULED": Look("tried again", "care", "loop"),
    "SENT": Look("sent", "good", "check"),
    "FAILED": Look("failed", "bad", "cross"),
    "IN_DOUBT": Look("in doubt", "doubt", "question"),
    "CLOSED_UNKNOWN": Look("never known", "doubt", "slash"),
    "CANCELLED": Look("cancelled", "quiet", "dash"),
    "DRAFT": Look("draft", "quiet", "pencil"),
    "READY": Look("in line", "calm", "ring"),
    "SENDING": Look("sending", "calm", "arrow"),
    "PAUSED": Look("paused", "care", "bars"),
    "HELD": Look("held", "care", "clock"),
    "RUNNING": Look("running", "calm", "arrow"),
    "COMPLETED": Look("done", "good", "check"),
    "active": Look("active", "good", "check"),
    "unsubscribed": Look("left", "quiet", "dash"),
    "bounced": Look("bounces", "bad", "cross"),
    "complained": Look("complained", "bad", "cross"),
    "blocked": Look("blocked", "bad", "slash"),
    "suppressed": Look("suppressed", "quiet", "slash"),
    "pending": Look("to confirm", "care", "clock"),
    "deleted": Look("deleted", "quiet", "dash"),
    "ok": Look("fine", "good", "check"),
    "problem": Look("problem", "bad", "cross"),
    "warning": Look("look here", "care", "attention"),
    "left_alone": Look("left alone", "care", "clock"),
    "unreachable": Look("out of reach", "bad", "cross"),
    "stopped": Look("stopped", "bad", "cross"),
    "revoked": Look("revoked", "quiet", "dash"),
    "disabled": Look("disabled", "quiet", "dash"),
    "delivered": Look("delivered", "good", "check"),
    "open": Look("opened", "good", "check"),
    "click": Look("clicked", "good", "arrow"),
    "bounce": Look("bounced", "bad", "cross"),
    "complaint": Look("complaint", "bad", "cross"),
    "unsubscribe": Look("left", "quiet", "dash"),
    "deferred": Look("put off", "care", "clock"),
    "published": Look("published", "good", "check"),
    "accepted": Look("accepted", "calm", "ring"),
    "archived": Look("archived", "quiet", "dash"),
    "draft": Look("draft", "quiet", "pencil"),
    "not_yet": Look("later", "calm", "clock"),
    "failing": Look("failing", "care", "loop"),
    "paused": Look("paused", "bad", "bars"),
    "off": Look("off", "quiet", "dash"),
    "DELIVERED": Look("taken", "good", "check"),
    "SKIPPED": Look("skipped", "quiet", "dash"),
    "EXPIRED": Look("expired", "care", "slash"),
    "REFUSED": Look("refused", "bad", "slash"),
}

# Waits that no limit makes, with a place for the time at which they end.
_OTHER_WAITS: Final = {
    PAUSED: "paused",
    CANCELLED: "cancelled",
    SCHEDULED: "scheduled for {}",
    AWAITING_WINNER: "its versions are tried until {}",
    QUOTA_EXHAUSTED: "the providers’ quota is used up, at least until {}",
    # A pace is no hold: it moves, one mail after the other.
    INTERVAL: "evenly paced, the next mail at {}",
    "retry_scheduled": "tried again at {}",
    DeferReason.PROVIDER_UNAVAILABLE: "no provider takes mail; tried again at {}",
    DeferReason.PROVIDER_THROTTLED: "the provider asks us to slow down, until {}",
}


def look(status: str) -> Look:
    return LOOKS.get(str(status)) or Look(str(status).replace("_", " ").lower(), "quiet", "ring")


def rule(reason: str) -> str:
    """`hourly limit`, for a heading or a legend."""
    return RULES.get(reason, reason.replace("_", " ")).removeprefix("the ")


def wait_words(reason: str) -> tuple[str, str]:
    """What stands before and after the end of a wait: `held by the hourly limit until `, and nothing."""
    words = _OTHER_WAITS.get(reason, f"held by {RULES.get(reason, reason.replace('_', ' '))} until {{}}")
    before, _, after = words.partition("{}")
    return before, after


def is_until_told(until: Instant | None) -> bool:
    return until is None or until >= INDEFINITELY


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


def browser_words(agent: str | None) -> str:
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


def clock_words(instant: Instant, now: Instant, zone: tzinfo, *, with_seconds: bool = False) -> str:
    """`15:00` today, `Mon 15:00` this week, `3 Mar 15:00` else, with the year where it is another."""
    then, today = _local(instant, zone), _local(now, zone)
    time = f"{then:%H:%M:%S}" if with_seconds else f"{then:%H:%M}"
    if then.date() == today.date():
        return time
    if abs(instant - now) < 6 * DAY:
        return f"{then:%a} {time}"
    return f"{day_words(instant, now, zone)} {time}"


def day_words(instant: Instant, now: Instant, zone: tzinfo) -> str:
    then = _local(instant, zone)
    year = "" if then.year == _local(now, zone).year else f" {then.year}"
    return f"{then.day} {then:%b}{year}"


def full_words(instant: Instant, now: Instant, zone: tzinfo) -> str:
    """Everything, for whoever points at a time: `3 March 2027, 15:00:12 WET (in 12 minutes)`."""
    then = _local(instant, zone)
    return f"{then.day} {then:%B %Y, %H:%M:%S} {then.tzname()} ({distance(instant, now)})"


def number_words(value: float) -> str:
    """`12 345`, with thin spaces; figures stand under each other."""
    if isinstance(value, float) and not value.is_integer():
        return f"{value:,.1f}".replace(",", "\u202f")
    return f"{int(value):,}".replace(",", "\u202f")


def share_words(part: float, whole: float) -> str:
    if not whole:
        return NO_TIME
    percent = 100 * part / whole
    return f"{percent:.0f} %" if percent >= 10 or percent == 0 else f"{percent:.1f} %"


def _local(instant: Instant, zone: tzinfo) -> datetime:
    return datetime.fromtimestamp(instant / 1000, zone)
