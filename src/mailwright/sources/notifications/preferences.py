"""Check a notification against the preferences of its subscriber: which events, how many and at what times."""

from collections.abc import Mapping
from datetime import datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from mailwright.domain.clock import Instant, to_instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.sources.notifications import times
from mailwright.sources.notifications.statuses import WaitReason

_NUMBERS = frozenset({"maxNotifications", "startMinutes", "endMinutes"})

DAY_MINUTES = 24 * 60


@dataclass(frozen=True, slots=True)
class WaitDecision:
    """The row stays pending. `until` is None if the end of the wait is unknown."""

    reason: WaitReason
    until: Instant | None
    detail: str


@dataclass(frozen=True, slots=True)
class NotWanted:
    """The subscriber does not want this notification."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class InvalidPreferences:
    """The preferences are invalid; `path` is the JSON pointer of the offending field in the job."""

    path: str
    message: str


@dataclass(frozen=True, slots=True)
class DeliveryWindow:
    """Minutes of the day, end exclusive. It may cross midnight; if start and end are equal, it is the whole day."""

    start: int
    end: int

    def contains(self, minute: int) -> bool:
        if self.start == self.end:
            return True
        if self.start < self.end:
            return self.start <= minute < self.end
        return minute >= self.start or minute < self.end

    def __str__(self) -> str:
        return f"{_format_minutes(self.start)}–{_format_minutes(self.end)}"


@dataclass(frozen=True, slots=True)
class SubscriberPreferences:
    notify_on: frozenset[str] = frozenset()  # lower case; empty means all events
    max_notifications: int | None = None
    window: DeliveryWindow | None = None
    snooze_until: Instant | None = None
    zone: str = "UTC"


@dataclass(frozen=True, slots=True)
class PreferenceFacts:
    """The facts that preferences are checked against."""

    now: Instant
    event_names: frozenset[str]  # the names of this event that `notifyOn` may list, lower case
    sent: int = 0  # notifications already sent to this subscription
    in_progress: int = 0  # messages of this subscription without a recorded result


def normalise(given: Any) -> Any:
    """Return preferences as the schema expects them.

    Strings are trimmed, blank ones are removed, 3.0 and "3" become 3, and times get a zone.
    """
    match given:
        case Mapping():
            fields = {name: normalise(value) for name, value in given.items()}
            if (snooze := times.parse(fields.get("snoozeUntil"))) is not None:
                fields["snoozeUntil"] = times.format_time(snooze)
            for name in _NUMBERS & fields.keys():
                fields[name] = _to_number(fields[name])
            return {name: value for name, value in fields.items() if value is not None}
        case list():
            return [value for each in given if (value := normalise(each)) is not None]
        case str():
            return given.strip() or None
        case float() if given.is_integer():
            return int(given)
        case _:
            return given


def parse_preferences(given: Any, zone: str) -> SubscriberPreferences | InvalidPreferences:
    """Parse the JSON of a subscription. Times of day are in its own time zone, or else in `zone`."""
    if given is None:
        return SubscriberPreferences(zone=zone)
    if not isinstance(given, Mapping):
        return InvalidPreferences("/subscription/preferences", "must be an object")
    wanted, snooze = given.get("notifyOn") or [], times.parse(given.get("snoozeUntil"))
    max_notifications, own_zone = given.get("maxNotifications"), given.get("timezone") or zone
    window = _parse_window(given.get("deliveryWindow"))
    rules = (
        ("notifyOn", isinstance(wanted, list) and all(isinstance(name, str) for name in wanted), "a list of strings"),
        ("maxNotifications", max_notifications is None or _is_whole_number(max_notifications), "a whole number"),
        ("snoozeUntil", given.get("snoozeUntil") is None or snooze is not None, "a time such as 2027-01-15T08:00:00Z"),
        ("timezone", _is_zone(own_zone), "an IANA time zone such as Europe/Lisbon"),
    )
    for name, is_valid, what in rules:
        if not is_valid:
            return InvalidPreferences(f"/subscription/preferences/{name}", f"must be {what}")
    if isinstance(window, InvalidPreferences):
        return window
    return SubscriberPreferences(
        frozenset(name.lower() for name in wanted), max_notifications, window, snooze, own_zone
    )


def check_preferences(preferences: SubscriberPreferences, facts: PreferenceFacts) -> WaitDecision | NotWanted | None:
    """Return the first preference that prevents sending now: event type, maximum, snooze, delivery window."""
    if preferences.notify_on and not preferences.notify_on & facts.event_names:
        wanted = ", ".join(sorted(preferences.notify_on))
        return NotWanted("NOT_WANTED", f"The subscriber wants notifications about {wanted} only.")
    if preferences.max_notifications is not None and facts.sent >= preferences.max_notifications:
        return NotWanted(
            "MAX_NOTIFICATIONS_REACHED",
            f"The subscriber's maximum of {preferences.max_notifications} notifications is reached.",
        )
    if preferences.max_notifications is not None and facts.sent + facts.in_progress >= preferences.max_notifications:
        detail = f"{facts.sent} of {preferences.max_notifications} were sent and {facts.in_progress} are in progress"
        return WaitDecision(WaitReason.MAXIMUM, None, detail)
    if preferences.snooze_until is not None and facts.now < preferences.snooze_until:
        return WaitDecision(WaitReason.SNOOZED, preferences.snooze_until, "the subscriber has snoozed notifications")
    return _outside_window(preferences, facts.now)


def _outside_window(preferences: SubscriberPreferences, now: Instant) -> WaitDecision | None:
    window = preferences.window
    if window is None:
        return None
    zone = ZoneInfo(preferences.zone)
    local = datetime.fromtimestamp(now / 1000, zone)
    if window.contains(local.hour * 60 + local.minute):
        return None
    opens = _time_on_day(local, window.start, zone)
    if opens <= local:
        opens = _time_on_day(local + timedelta(days=1), window.start, zone)
    return WaitDecision(
        WaitReason.WINDOW, to_instant(opens), f"the subscriber's delivery window is {window} ({preferences.zone})"
    )


def _time_on_day(day: datetime, minute: int, zone: ZoneInfo) -> datetime:
    return datetime.combine(day.date(), time(minute // 60, minute % 60), zone)


def _parse_window(given: Any) -> DeliveryWindow | InvalidPreferences | None:
    if given is None:
        return None
    path = "/subscription/preferences/deliveryWindow"
    if not isinstance(given, Mapping):
        return InvalidPreferences(path, "must be an object with startMinutes and endMinutes")
    edges = []
    for name, default in (("startMinutes", 0), ("endMinutes", DAY_MINUTES)):
        value = given.get(name, default)
        if not _is_whole_number(value) or not 0 <= value <= DAY_MINUTES:
            return InvalidPreferences(f"{path}/{name}", f"must be a minute of the day, 0 to {DAY_MINUTES}")
        edges.append(value)
    start, end = edges
    if (start, end) == (0, DAY_MINUTES):
        return None
    return DeliveryWindow(start % DAY_MINUTES, end if end != DAY_MINUTES else 0)


def _to_number(value: Any) -> Any:
    """Return a number that is written as text; leave other values unchanged for validation to reject."""
    return int(value) if isinstance(value, str) and value.isascii() and value.isdecimal() else value


def _is_whole_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_zone(name: Any) -> bool:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, TypeError, OSError):
        return False
    return True


def _format_minutes(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"
