"""Display text for statuses, deferrals, times and numbers. Each status also has a colour and an icon."""

import re
from collections.abc import Mapping
from datetime import datetime, tzinfo
from typing import Final

from mailwright.audience.legal_basis import LegalBasis
from mailwright.domain.clock import Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.translation import gettext, lazy_gettext, lazy_pgettext, number_text
from mailwright.texts.times import day_text, distance

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
    "PENDING": StatusStyle(lazy_gettext("Queued"), "info", "ring"),
    "SENT_ATTEMPT": StatusStyle(lazy_gettext("Sending"), "info", "arrow"),
    "RETRY_SCHEDULED": StatusStyle(lazy_gettext("Retrying"), "warning", "loop"),
    "SENT": StatusStyle(lazy_gettext("Sent"), "good", "check"),
    "FAILED": StatusStyle(lazy_gettext("Failed"), "bad", "cross"),
    "IN_DOUBT": StatusStyle(lazy_gettext("Unconfirmed"), "unconfirmed", "question"),
    "CLOSED_UNKNOWN": StatusStyle(lazy_gettext("Unknown"), "unconfirmed", "slash"),
    "CANCELLED": StatusStyle(lazy_gettext("Cancelled"), "neutral", "dash"),
    "WAITING": StatusStyle(lazy_gettext("Queued"), "info", "ring"),
    "BOUNCED": StatusStyle(lazy_gettext("Bounced"), "bad", "cross"),
    "SUPPRESSED": StatusStyle(lazy_gettext("Suppressed"), "neutral", "slash"),
    "QUEUED": StatusStyle(lazy_gettext("Queued or retrying"), "info", "ring"),
    "DRAFT": StatusStyle(lazy_gettext("Draft"), "neutral", "pencil"),
    "READY": StatusStyle(lazy_gettext("Queued"), "info", "ring"),
    "SENDING": StatusStyle(lazy_gettext("Sending"), "info", "arrow"),
    "PAUSED": StatusStyle(lazy_gettext("Paused"), "warning", "bars"),
    "HELD": StatusStyle(lazy_gettext("Deferred"), "warning", "clock"),
    "RUNNING": StatusStyle(lazy_gettext("Running"), "info", "arrow"),
    "COMPLETED": StatusStyle(lazy_gettext("Completed"), "good", "check"),
    "active": StatusStyle(lazy_gettext("Active"), "good", "check"),
    "unsubscribed": StatusStyle(lazy_pgettext("status", "Unsubscribed"), "neutral", "dash"),
    "bounced": StatusStyle(lazy_gettext("Bounced"), "bad", "cross"),
    "complained": StatusStyle(lazy_pgettext("status", "Complained"), "bad", "cross"),
    "blocked": StatusStyle(lazy_gettext("Blocked"), "bad", "slash"),
    "suppressed": StatusStyle(lazy_gettext("Suppressed"), "neutral", "slash"),
    "pending": StatusStyle(lazy_gettext("Awaiting confirmation"), "warning", "clock"),
    "deleted": StatusStyle(lazy_gettext("Deleted"), "neutral", "dash"),
    "ok": StatusStyle("OK", "good", "check"),
    "problem": StatusStyle(lazy_gettext("Error"), "bad", "cross"),
    "warning": StatusStyle(lazy_gettext("Warning"), "warning", "attention"),
    "verified": StatusStyle(lazy_gettext("Verified"), "good", "check"),
    "missing": StatusStyle(lazy_gettext("Missing"), "bad", "cross"),
    "wrong": StatusStyle(lazy_gettext("Wrong value"), "bad", "cross"),
    "unknown": StatusStyle(lazy_gettext("Unknown"), "warning", "question"),
    "retired": StatusStyle(lazy_gettext("Retired"), "neutral", "dash"),
    "left_alone": StatusStyle(lazy_gettext("Unavailable"), "warning", "clock"),
    "unreachable": StatusStyle(lazy_gettext("Unreachable"), "bad", "cross"),
    "stopped": StatusStyle(lazy_gettext("Stopped"), "bad", "cross"),
    "revoked": StatusStyle(lazy_gettext("Revoked"), "neutral", "dash"),
    "disabled": StatusStyle(lazy_gettext("Disabled"), "neutral", "dash"),
    "delivered": StatusStyle(lazy_gettext("Delivered"), "good", "check"),
    "open": StatusStyle(lazy_gettext("Opened"), "good", "check"),
    "click": StatusStyle(lazy_pgettext("status", "Clicked"), "good", "arrow"),
    "corrected": StatusStyle(lazy_gettext("Recognised as a machine"), "info", "dash"),
    "bounce": StatusStyle(lazy_gettext("Bounced"), "bad", "cross"),
    "complaint": StatusStyle(lazy_gettext("Complaint"), "bad", "cross"),
    "unsubscribe": StatusStyle(lazy_pgettext("status", "Unsubscribed"), "neutral", "dash"),
    "deferred": StatusStyle(lazy_gettext("Deferred"), "warning", "clock"),
    "replied": StatusStyle(lazy_pgettext("status", "Replied"), "good", "arrow"),
    "not_spam": StatusStyle(lazy_gettext("Marked as not spam"), "good", "check"),
    "published": StatusStyle(lazy_gettext("Published"), "good", "check"),
    "accepted": StatusStyle(lazy_gettext("Accepted"), "info", "ring"),
    "archived": StatusStyle(lazy_gettext("Archived"), "neutral", "dash"),
    "draft": StatusStyle(lazy_gettext("Draft"), "neutral", "pencil"),
    "not_yet": StatusStyle(lazy_gettext("Scheduled"), "info", "clock"),
    "joined": StatusStyle(lazy_gettext("Subscribed"), "good", "check"),
    "left": StatusStyle(lazy_pgettext("status", "Unsubscribed"), "neutral", "dash"),
    "campaign.started": StatusStyle(lazy_gettext("Campaign started"), "info", "arrow"),
    "campaign.held": StatusStyle(lazy_gettext("Campaign held"), "warning", "clock"),
    "campaign.warned": StatusStyle(lazy_gettext("Campaign warning"), "warning", "clock"),
    "campaign.resumed": StatusStyle(lazy_gettext("Campaign resumed"), "info", "arrow"),
    "campaign.finished": StatusStyle(lazy_gettext("Campaign finished"), "good", "check"),
    "campaign.cancelled": StatusStyle(lazy_gettext("Campaign cancelled"), "neutral", "dash"),
    "sequence.entered": StatusStyle(lazy_gettext("Entered sequence"), "info", "arrow"),
    "sequence.step": StatusStyle(lazy_gettext("Sequence step"), "info", "check"),
    "sequence.failed": StatusStyle(lazy_gettext("Sequence step failed"), "bad", "cross"),
    "sequence.ended": StatusStyle(lazy_gettext("Sequence ended"), "neutral", "dash"),
    "sequence.webhook": StatusStyle(lazy_gettext("Request of a step"), "info", "arrow"),
    "sequence.draft": StatusStyle(lazy_gettext("Draft"), "neutral", "pencil"),
    "sequence.running": StatusStyle(lazy_gettext("Running"), "good", "arrow"),
    "sequence.paused": StatusStyle(lazy_gettext("Paused"), "warning", "bars"),
    "sequence.archived": StatusStyle(lazy_gettext("Archived"), "neutral", "dash"),
    "failing": StatusStyle(lazy_gettext("Failing"), "warning", "loop"),
    "paused": StatusStyle(lazy_gettext("Paused"), "bad", "bars"),
    "off": StatusStyle(lazy_gettext("Off"), "neutral", "dash"),
    "DELIVERED": StatusStyle(lazy_gettext("Delivered"), "good", "check"),
    "SKIPPED": StatusStyle(lazy_gettext("Skipped"), "neutral", "dash"),
    "EXPIRED": StatusStyle(lazy_gettext("Expired"), "warning", "slash"),
    "REFUSED": StatusStyle(lazy_gettext("Refused"), "bad", "slash"),
}


def status_style(status: str) -> StatusStyle:
    return STATUS_STYLES.get(str(status)) or StatusStyle(str(status).replace("_", " ").capitalize(), "neutral", "ring")


# The names of checks of the installation. Others are names of providers.
_CHECKS: Final = {
    "backup": lazy_gettext("Backup"),
    "certificate": lazy_gettext("Certificate"),
    "clock": lazy_gettext("Clock"),
    "database size": lazy_gettext("Database size"),
    "delivery": lazy_gettext("Delivery"),
    "disk": lazy_gettext("Disk"),
    "domains": lazy_gettext("Domains"),
    "events": lazy_gettext("Events"),
    "https": "HTTPS",
    "pooler": lazy_gettext("Connection pooler"),
    "quarantine": lazy_gettext("Quarantine"),
    "queue": lazy_gettext("Queue"),
    "recurring campaigns": lazy_gettext("Recurring campaigns"),
    "rejections": lazy_gettext("Rejections"),
    "replica": lazy_gettext("Replica"),
    "replication": lazy_gettext("Replication"),
    "retention": lazy_gettext("Retention"),
    "sending": lazy_gettext("Sending"),
    "settings": lazy_gettext("Settings"),
    "workers": lazy_gettext("Workers"),
}


def check_name(name: str) -> str:
    if name.startswith("provider "):
        return gettext("Provider {name}", name=name.removeprefix("provider "))
    return str(_CHECKS.get(name, name.capitalize()))


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
    return lazy_gettext("{browser} on {system}", browser=browser, system=system) if browser and system else None


def format_clock(instant: Instant, now: Instant, zone: tzinfo, *, with_seconds: bool = False) -> str:
    """Format as `3 Mar 2027, 15:00`, and as `15:00` today."""
    then = _local(instant, zone)
    time = f"{then:%H:%M:%S}" if with_seconds else f"{then:%H:%M}"
    return time if then.date() == _local(now, zone).date() else f"{format_day(instant, zone)}, {time}"


def format_day(instant: Instant, zone: tzinfo) -> str:
    """Format as `3 Mar 2027`."""
    return day_text(_local(instant, zone))


def format_full(instant: Instant, now: Instant, zone: tzinfo) -> str:
    """Format for tooltips: `3 Mar 2027, 15:00:12 WET (in 12 minutes)`."""
    then = _local(instant, zone)
    return f"{format_day(instant, zone)}, {then:%H:%M:%S} {then.tzname()} ({distance(instant, now)})"


def format_number(value: float) -> str:
    """Format as `12,345`, and with one decimal place if it is not whole."""
    return number_text(value, 1 if isinstance(value, float) and not value.is_integer() else 0)


def format_percent(part: float, whole: float) -> str:
    if not whole:
        return NO_TIME
    return format_rate(part / whole)


def format_rate(rate: float | None) -> str:
    """Format a share of one as `12.5 %`, and as a dash if it was not measured."""
    return NO_TIME if rate is None else f"{number_text(100 * rate, int(round(100 * rate, 1) % 1 != 0))} %"


LEGAL_BASES: Final[Mapping[LegalBasis, str]] = {
    LegalBasis.CONSENT: lazy_gettext("Consent"),
    LegalBasis.CONTRACT: lazy_gettext("Contract"),
    LegalBasis.LEGAL_OBLIGATION: lazy_gettext("Legal obligation"),
    LegalBasis.VITAL_INTERESTS: lazy_gettext("Vital interests"),
    LegalBasis.PUBLIC_TASK: lazy_gettext("Public task"),
    LegalBasis.LEGITIMATE_INTEREST: lazy_gettext("Legitimate interest"),
}


def legal_basis_options() -> list[tuple[str, str]]:
    """Return the legal bases as options of a form."""
    return [(each.value, str(text)) for each, text in LEGAL_BASES.items()]


def _local(instant: Instant, zone: tzinfo) -> datetime:
    return datetime.fromtimestamp(instant / 1000, zone)
