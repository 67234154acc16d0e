"""Jobs: a row, its event and its subscription become the payload that the queue's contract describes, and it is held
against the contract's own schema before anything is sent."""

import copy
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

import orjson

from mailwright.domain.clock import SECOND, Instant
from mailwright.sources.notifications import times
from mailwright.sources.notifications.event_kinds import LINKS, OPEN_SEAT, EventKind

if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator

VERSION = "1.0"
MAJOR = "1"
_VERSION = re.compile(r"(\d+)\.(\d+)")
SHORTEST_LOCK_TTL: Instant = 30 * SECOND  # that the schema allows to be told
_WEEK = {"MONDAY": "M", "TUESDAY": "T", "WEDNESDAY": "W", "THURSDAY": "TH", "FRIDAY": "F", "SATURDAY": "S"}


@dataclass(frozen=True, slots=True)
class RowError:
    """Why a row can never become a mail; `path` says where, in the words of the job's schema."""

    code: str
    message: str
    path: str | None = None


@dataclass(frozen=True, slots=True)
class SectionDetails:
    """What the queue's other tables say of the section that an event is about, where they say anything."""

    section: Mapping[str, Any] = field(default_factory=dict)
    course: Mapping[str, Any] = field(default_factory=dict)
    meetings: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True)
class NotificationRow:
    """A notification of the queue, with its event and its subscription as far as they are there."""

    notification_id: int
    open_event_id: int
    subscription_id: int
    dedupe_key: str
    status: str
    attempts: int
    last_attempt_at: str | None
    locked_by: str | None
    locked_at: str | None
    error: str | None
    created_at: str | None
    event: Mapping[str, Any] | None
    subscription: Mapping[str, Any] | None

    @property
    def key(self) -> str:
        """Names this row, and no other that may get its number in a queue that was made anew."""
        facts = f"{self.open_event_id}|{self.subscription_id}|{self.dedupe_key}|{self.created_at}"
        return f"{self.notification_id}-{hashlib.blake2b(facts.encode(), digest_size=8).hexdigest()}"

    @property
    def age_from(self) -> Instant | None:
        """When it came to be, as far as anybody wrote it down."""
        return times.parse(self.created_at) or times.parse((self.event or {}).get("event_at"))


def parse_json_column(text: Any) -> Any:
    """What a column of JSON text holds; None where nothing is, an `RowError` where it is no JSON."""
    if text is None or text == "":
        return None
    if not isinstance(text, str | bytes):
        return text  # PostgreSQL has a type of its own for it
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return RowError("INVALID_PAYLOAD", "is not JSON")


def event_kind_name(payload: Any) -> Any:
    return payload.get("eventType", OPEN_SEAT) if isinstance(payload, Mapping) else OPEN_SEAT


def build_job(
    row: NotificationRow,
    kind: EventKind,
    payload: Any,
    preferences: Any,
    surroundings: SectionDetails,
    *,
    base_url: str,
    locale: str,
) -> dict[str, Any]:
    """The payload, with everything that is known and nothing that is not."""
    event, subscription = row.event or {}, row.subscription or {}
    told = payload if isinstance(payload, Mapping) else {}
    links = links_of(row, kind, base_url)
    own = _known(
        sectionId=event.get("section_id"),
        termId=_text(event.get("term_id")),
        campusCode=_text(event.get("campus_code")),
        indexNumber=_text(event.get("index_number")),
        sectionNumber=_text(told.get("sectionNumber")) or _text(surroundings.section.get("section_number")),
        subjectCode=_text(told.get("subjectCode")) or _text(surroundings.section.get("subject_code")),
        courseTitle=_text(told.get("courseTitle")) or _text(surroundings.course.get("title")),
        statusBefore=_text(event.get("status_before")),
        statusAfter=_text(event.get("status_after")),
        eventAt=_moment(event.get("event_at")),
        detectedBy=_text(event.get("detected_by")),
        snapshotHash=_text(told.get("snapshotHash")),
    )
    return _known(
        version=told.get("version", VERSION),
        notificationId=row.notification_id,
        openEventId=row.open_event_id,
        subscriptionId=row.subscription_id,
        dedupeKey=row.dedupe_key,
        traceId=_text(event.get("trace_id")),
        locale=_text(subscription.get("locale")) or locale,
        recipient=_known(email=subscription.get("contact_value"), name=_name(subscription)),
        template={
            "id": kind.template,
            "version": kind.template_version,
            "variables": _variables(kind, own, told, surroundings, links),
        },
        event=own,
        subscription=_known(
            status=subscription.get("status"),
            contactType=subscription.get("contact_type"),
            contactValue=subscription.get("contact_value"),
            contactHash=_text(subscription.get("contact_hash")),
            lastKnownSectionStatus=_text(subscription.get("last_known_section_status")),
            preferences=preferences,
        ),
        links=links,
        deliveryPolicy=_known(
            maxAttempts=kind.max_attempts,
            lockTtlSeconds=kind.lock_ttl_seconds,
            retryScheduleMs=list(kind.retry_schedule_ms),
        ),
    )


def validate_job(job: Mapping[str, Any], kind: EventKind) -> RowError | None:
    """The first thing that breaks the contract. A newer minor version may say more; another major is refused."""
    version = job.get("version")
    found = _VERSION.fullmatch(version) if isinstance(version, str) else None
    if found is not None and found[1] != MAJOR:
        return RowError(
            "UNSUPPORTED_VERSION", f"/version: {version} is not understood here, only {MAJOR}.x", "/version"
        )
    is_newer = found is not None and int(found[2]) > 0
    # The schema is looked at for each row: what it is compiled to is kept.
    for error in _validator(kind, is_newer).iter_errors(job):
        path = "/" + "/".join(str(step) for step in error.instance_path)
        if path.startswith("/template/variables") and error.instance_path[-1:] == ["variables"]:
            return _variable_missing(error.message)
        code = "INVALID_RECIPIENT" if path.startswith("/recipient") else "INVALID_PAYLOAD"
        return RowError(code, f"{path}: {_without_value(error)}", path)
    return None


def links_of(row: NotificationRow, kind: EventKind, base_url: str) -> dict[str, str]:
    """Both in every mail. Whoever has no token of their own leaves on the page where the subscription is managed."""
    token = (row.subscription or {}).get("unsubscribe_token")
    words = {"base": base_url, "id": row.subscription_id, "token": token}
    manage = kind.manage_url.format(**words)
    return {"manageUrl": manage, "unsubscribeUrl": kind.unsubscribe_url.format(**words) if token else manage}


def meeting_summary(meetings: Sequence[Mapping[str, Any]]) -> str:
    """`M 09:00–10:00 TIL 124, TH 13:00–14:20 LSB`: day, time and place of each meeting, as far as they are known."""
    return ", ".join(text for meeting in meetings if (text := _meeting(meeting)))


def _variables(
    kind: EventKind, own: Mapping[str, Any], told: Mapping[str, Any], around: SectionDetails, links: Mapping[str, str]
) -> dict[str, Any]:
    """What the queue knows by itself, then what the event's author says, then the links, which nobody changes."""
    said = told.get("variables")
    named = {name: told[name] for name in kind.variables if isinstance(told.get(name), str | int | float)}
    seat = _seat_variables(own, told, around) if kind.name == OPEN_SEAT else {}
    # One that is no time is told of where it stands in the event.
    detected_at = own.get("eventAt")
    moment = {"eventDetectedAt": detected_at} if times.parse(detected_at) is not None else {}
    return {**moment, **seat, **named, **(said if isinstance(said, Mapping) else {}), **links}


def _seat_variables(own: Mapping[str, Any], told: Mapping[str, Any], around: SectionDetails) -> dict[str, Any]:
    return _known(
        courseTitle=own.get("courseTitle"),
        # A course without a name of its own is known by the number that people register with.
        courseString=_text(told.get("courseString"))
        or _text(around.course.get("course_string"))
        or own.get("indexNumber"),
        sectionIndex=own.get("indexNumber"),
        sectionNumber=own.get("sectionNumber"),
        meetingSummary=_text(told.get("meetingSummary"))
        or meeting_summary(around.meetings)
        or _text(around.section.get("meeting_mode_summary"))
        or "",
        campus=own.get("campusCode"),
        notes=_text(told.get("notes")),
    )


def _meeting(meeting: Mapping[str, Any]) -> str:
    day = _text(meeting.get("meeting_day")) or ""
    start, end = meeting.get("start_minutes"), meeting.get("end_minutes")
    hours = f"{_clock(start)}–{_clock(end)}" if isinstance(start, int) and isinstance(end, int) else ""
    place = (meeting.get("building_code") or meeting.get("campus_abbrev"), meeting.get("room_number"))
    return " ".join(str(part) for part in (_WEEK.get(day.upper(), day), hours, *place) if part)


def _clock(minutes: int) -> str:
    return f"{minutes // 60:02}:{minutes % 60:02}"


def _name(subscription: Mapping[str, Any]) -> str | None:
    metadata = parse_json_column(subscription.get("metadata"))
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    return name if isinstance(name, str) and name.strip() else None


def _known(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _text(value: Any) -> str | None:
    return None if value is None or value == "" else str(value)


def _moment(text: Any) -> Any:
    """In the one spelling that the schema takes; what is no time is left as it is, for the schema to say so."""
    found = times.parse(text)
    return text if found is None else times.format_time(found)


def _variable_missing(message: str) -> RowError:
    name = message.partition('"')[2].partition('"')[0]
    path = f"/template/variables/{name}" if name else "/template/variables"
    return RowError("MISSING_VARIABLE", f"{path}: the event gives no value for it", path)


def _without_value(error: Any) -> str:
    """What is wrong, without the value itself: an address has no place in a queue's error column."""
    value = orjson.dumps(error.instance).decode() if isinstance(error.instance, str) else None
    message = str(error.message)
    return message.replace(value, "the value") if value else message


@cache
def schema() -> dict[str, Any]:
    """The contract's own, word for word."""
    found: dict[str, Any] = orjson.loads(resources.files(__package__).joinpath("mail_job.schema.json").read_bytes())
    return found


_validators: dict[tuple[EventKind, bool], "Draft202012Validator"] = {}


def _validator(kind: EventKind, is_newer: bool) -> "Draft202012Validator":
    import jsonschema_rs  # noqa: PLC0415 - ten megabytes, which whoever serves no queue need not have

    key = (kind, is_newer)
    if key not in _validators:
        _validators[key] = jsonschema_rs.Draft202012Validator(_schema_of(kind, is_newer), validate_formats=True)
    return _validators[key]


def _schema_of(kind: EventKind, is_newer: bool) -> dict[str, Any]:
    """The contract's, with the template and the variables of another kind in place of the built-in one's."""
    made = copy.deepcopy(schema())
    template = made["properties"]["template"]["properties"]
    if kind.template != OPEN_SEAT:
        template["id"]["const"] = kind.template
    template["variables"]["required"] = [*kind.variables, *LINKS]
    if is_newer:
        made["properties"]["version"] = {"type": "string"}
        _open(made)
    return made


def _open(schema_part: Any) -> None:
    """A newer minor version has fields that are not known here, anywhere."""
    if isinstance(schema_part, dict):
        schema_part.pop("additionalProperties", None)
        for each in schema_part.values():
            _open(each)
