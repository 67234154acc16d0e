"""Preferences of a subscriber: what they want to hear of, how often and when. Pure, and every no has its reason."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from mailwright.domain.clock import Instant, to_instant
from mailwright.sources.notifications import times
from mailwright.sources.notifications.statuses import WaitReason

DAY_MINUTES = 24 * 60


@dataclass(frozen=True, slots=True)
class WaitDecision:
    """The row stays as it is. `until` is None where nobody knows when it ends."""

    reason: WaitReason
    until: Instant | None
    detail: str


@dataclass(frozen=True, slots=True)
class NotWanted:
    """The subscriber does not want this one, now or ever."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class InvalidPreferences:
    """The preferences cannot be understood; `path` is where, in the words of the job's schema."""

    path: str
    message: str


@dataclass(frozen=True, slots=True)
class DeliveryWindow:
    """Minutes of the day, the end not included. It may go over midnight; one without length is the whole day."""

    start: int
    end: int

    def contains(self, minute: int) -> bool:
        if self.start == self.end:
            return True
        if self.start < self.end:
            return self.start <= minute < self.end
        return minute >= self.start or minute < self.end

    def __str__(self) -> str:
        return f"{_clock(self.start)}–{_clock(self.end)}"


@dataclass(frozen=True, slots=True)
class SubscriberPreferences:
    notify_on: frozenset[str] = frozenset()  # in small letters; empty is everything
    most: int | None = None
    window: DeliveryWindow | None = None
    snooze_until: Instant | None = None
    zone: str = "UTC"


@dataclass(frozen=True, slots=True)
class PreferenceFacts:
    """What is so at the moment of asking."""

    now: Instant
    happened: frozenset[str]  # the names under which `notifyOn` may want this event, in small letters
    sent: int = 0  # to this subscription before
    under_way: int = 0  # may be sent any moment


def parse_preferences(given: Any, zone: str) -> SubscriberPreferences | InvalidPreferences:
    """From the JSON that the subscription carries. Times of the day are in its zone, where it names one."""
    if given is None:
        return SubscriberPreferences(zone=zone)
    if not isinstance(given, Mapping):
        return InvalidPreferences("/subscription/preferences", "must be an object")
    wanted, snooze = given.get("notifyOn") or [], times.parse(given.get("snoozeUntil"))
    most, own_zone = given.get("maxNotifications"), given.get("timezone") or zone
    window = _window(given.get("deliveryWindow"))
    rules = (
        ("notifyOn", isinstance(wanted, list) and all(isinstance(each, str) for each in wanted), "a list of text"),
        ("maxNotifications", most is None or _is_number(most), "a whole number"),
        ("snoozeUntil", given.get("snoozeUntil") is None or snooze is not None, "a time, as 2027-01-15T08:00:00Z"),
        ("timezone", _is_zone(own_zone), "an IANA time zone, as Europe/Lisbon"),
    )
    for name, is_kept, what in rules:
        if not is_kept:
            return InvalidPreferences(f"/subscription/preferences/{name}", f"must be {what}")
    if isinstance(window, InvalidPreferences):
        return window
    return SubscriberPreferences(frozenset(each.lower() for each in wanted), most, window, snooze, own_zone)


def check_preferences(preferences: SubscriberPreferences, facts: PreferenceFacts) -> WaitDecision | NotWanted | None:
    """The first that objects: what was never wanted, what was enough, what is asleep, what is out of hours."""
    if preferences.notify_on and not preferences.notify_on & facts.happened:
        wanted = ", ".join(sorted(preferences.notify_on))
        return NotWanted("NOT_WANTED", f"The subscriber wants to hear of {wanted} only.")
    if preferences.most is not None and facts.sent >= preferences.most:
        return NotWanted("MAX_NOTIFICATIONS_REACHED", f"The subscriber wants {preferences.most} and has had them.")
    if preferences.most is not None and facts.sent + facts.under_way >= preferences.most:
        detail = f"{facts.sent} of {preferences.most} were sent and {facts.under_way} are under way"
        return WaitDecision(WaitReason.MAXIMUM, None, detail)
    if preferences.snooze_until is not None and facts.now < preferences.snooze_until:
        return WaitDecision(WaitReason.SNOOZED, preferences.snooze_until, "the subscriber asked for silence")
    return _out_of_hours(preferences, facts.now)


def _out_of_hours(preferences: SubscriberPreferences, now: Instant) -> WaitDecision | None:
    window = preferences.window
    if window is None:
        return None
    zone = ZoneInfo(preferences.zone)
    local = datetime.fromtimestamp(now / 1000, zone)
    if window.contains(local.hour * 60 + local.minute):
        return None
    opens = _at(local, window.start, zone)
    if opens <= local:
        opens = _at(local + timedelta(days=1), window.start, zone)
    return WaitDecision(
        WaitReason.WINDOW, to_instant(opens), f"the subscriber's hours are {window} ({preferences.zone})"
    )


def _at(day: datetime, minute: int, zone: ZoneInfo) -> datetime:
    return datetime.combine(day.date(), time(minute // 60, minute % 60), zone)


def _window(given: Any) -> DeliveryWindow | InvalidPreferences | None:
    if given is None:
        return None
    path = "/subscription/preferences/deliveryWindow"
    if not isinstance(given, Mapping):
        return InvalidPreferences(path, "must be an object with startMinutes and endMinutes")
    edges = []
    for name, default in (("startMinutes", 0), ("endMinutes", DAY_MINUTES)):
        value = given.get(name, default)
        if not _is_number(value) or not 0 <= value <= DAY_MINUTES:
            return InvalidPreferences(f"{path}/{name}", f"must be a minute of the day, 0 to {DAY_MINUTES}")
        edges.append(value)
    start, end = edges
    if (start, end) == (0, DAY_MINUTES):
        return None
    return DeliveryWindow(start % DAY_MINUTES, end if end != DAY_MINUTES else 0)


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_zone(name: Any) -> bool:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, TypeError, OSError):
        return False
    return True


def _clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"
