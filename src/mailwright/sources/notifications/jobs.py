"""Build the job of a notification row and validate it against the JSON schema of the queue contract."""

import copy
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import orjson

from mailwright.domain import address
from mailwright.domain.clock import Instant
from mailwright.domain.foreign_json import load_json
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.sources.notifications import times
from mailwright.sources.notifications.event_kinds import LINKS, OPEN_SEAT, EventKind

if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator

# Fields of the event payload that are not variables.
_RESERVED = frozenset({"version", "eventType", "variables", "snapshotHash"})
VERSION = "1.0"
MAJOR = "1"
_VERSION = re.compile(r"(\d+)\.(\d+)")
_WEEK = {"MONDAY": "M", "TUESDAY": "T", "WEDNESDAY": "W", "THURSDAY": "TH", "FRIDAY": "F", "SATURDAY": "S"}


@dataclass(frozen=True, slots=True)
class RowError:
    """Why a row cannot become a message; `path` is the JSON pointer of the offending field in the job."""

    code: str
    message: str
    path: str | None = None


@dataclass(frozen=True, slots=True)
class SectionDetails:
    """Details of the section that an event is about, from the optional tables of the queue."""

    section: Mapping[str, Any] = field(default_factory=dict)
    course: Mapping[str, Any] = field(default_factory=dict)
    meetings: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True)
class NotificationRow:
    """One row of the queue with its event and its subscription, which are None if they do not exist."""

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
        """Identify this row, even if the queue is recreated and its ids are reused."""
        since = self.created_at if self.created_at is not None else (self.event or {}).get("event_at")
        facts = f"{self.open_event_id}|{self.subscription_id}|{self.dedupe_key}|{since}"
        return f"{self.notification_id}-{hashlib.blake2b(facts.encode(), digest_size=8).hexdigest()}"

    @property
    def age_from(self) -> Instant | None:
        """When the row was created, or else when its event happened."""
        return times.parse(self.created_at) or times.parse((self.event or {}).get("event_at"))


def parse_json_column(text: Any) -> Any:
    """Parse a JSON column: None if it is blank, a `RowError` if it is not JSON."""
    if text is None or (isinstance(text, str | bytes) and not text.strip()):
        return None
    if not isinstance(text, str | bytes):
        return _without_nulls(text)  # PostgreSQL's json type arrives parsed
    try:
        return _without_nulls(load_json(text))
    except orjson.JSONDecodeError:
        return RowError("INVALID_PAYLOAD", "is not JSON")


def _without_nulls(value: Any) -> Any:
    """Remove null fields, because many programs write every field of a form even if it was not filled in."""
    if isinstance(value, Mapping):
        return {name: _without_nulls(each) for name, each in value.items() if each is not None}
    if isinstance(value, list):
        return [_without_nulls(each) for each in value if each is not None]
    return value


def word(value: Any) -> str:
    """Return a status word for comparison: trimmed and in lower case."""
    return "" if value is None else str(value).strip().lower()


def trimmed_text(value: Any) -> str | None:
    """Return a text without spaces around it, or None if it is blank."""
    return None if value is None else str(value).strip() or None


def event_kind_name(payload: Any) -> Any:
    """Return the kind that the payload specifies, or the default kind if it is missing or blank."""
    name = payload.get("eventType") if isinstance(payload, Mapping) else None
    return OPEN_SEAT if name is None or (isinstance(name, str) and not name.strip()) else name


def build_job(
    row: NotificationRow,
    kind: EventKind,
    payload: Any,
    preferences: Any,
    details: SectionDetails,
    *,
    base_url: str,
    locale: str,
) -> dict[str, Any]:
    """Build the job of the contract; unknown fields are omitted."""
    event, subscription = row.event or {}, row.subscription or {}
    event_payload = payload if isinstance(payload, Mapping) else {}
    links = build_links(row, kind, base_url)
    recipient = _recipient_address(subscription.get("contact_value"))
    event_fields = _without_none(
        sectionId=section_of(row),
        termId=trimmed_text(event.get("term_id")),
        campusCode=trimmed_text(event.get("campus_code")),
        indexNumber=trimmed_text(event.get("index_number")),
        sectionNumber=trimmed_text(event_payload.get("sectionNumber"))
        or trimmed_text(details.section.get("section_number")),
        subjectCode=trimmed_text(event_payload.get("subjectCode")) or trimmed_text(details.section.get("subject_code")),
        courseTitle=trimmed_text(event_payload.get("courseTitle")) or trimmed_text(details.course.get("title")),
        statusBefore=trimmed_text(event.get("status_before")),
        statusAfter=trimmed_text(event.get("status_after")),
        eventAt=_normal_time(event.get("event_at")),
        detectedBy=trimmed_text(event.get("detected_by")),
        snapshotHash=trimmed_text(event_payload.get("snapshotHash")),
    )
    return _without_none(
        version=event_payload.get("version", VERSION),
        notificationId=row.notification_id,
        openEventId=row.open_event_id,
        subscriptionId=row.subscription_id,
        dedupeKey=row.dedupe_key,
        traceId=trimmed_text(event.get("trace_id")),
        locale=trimmed_text(subscription.get("locale")) or locale,
        recipient=_without_none(email=recipient, name=_recipient_name(subscription)),
        template={
            "id": kind.template,
            "version": kind.template_version,
            "variables": _variables(kind, event_fields, event_payload, details, links),
        },
        event=event_fields,
        subscription=_without_none(
            status=word(subscription.get("status")) or None,
            contactType=word(subscription.get("contact_type")) or None,
            contactValue=recipient,
            contactHash=trimmed_text(subscription.get("contact_hash")),
            lastKnownSectionStatus=trimmed_text(subscription.get("last_known_section_status")),
            preferences=preferences,
        ),
        links=links,
        deliveryPolicy=_without_none(
            maxAttempts=kind.max_attempts,
            lockTtlSeconds=kind.lock_ttl_seconds,
            retryScheduleMs=list(kind.retry_schedule_ms),
        ),
    )


def validate_job(job: Mapping[str, Any], kind: EventKind) -> RowError | None:
    """Return the first violation of the contract. Newer minor versions may add fields; other majors are rejected."""
    version = job.get("version")
    parsed = _VERSION.fullmatch(version) if isinstance(version, str) else None
    if parsed is not None and parsed[1] != MAJOR:
        return RowError("UNSUPPORTED_VERSION", f"/version: {version} is not supported, only {MAJOR}.x", "/version")
    is_newer = parsed is not None and int(parsed[2]) > 0
    for error in _validator(kind, is_newer).iter_errors(job):
        path = "/" + "/".join(str(step) for step in error.instance_path)
        if path.startswith("/template/variables") and error.instance_path[-1:] == ["variables"]:
            return _missing_variable(error.message)
        code = "INVALID_RECIPIENT" if path.startswith("/recipient") else "INVALID_PAYLOAD"
        is_address = path == "/recipient/email" and isinstance(error.instance, str)
        reason = "the value is not an email address" if is_address else _without_value(error)
        return RowError(code, f"{path}: {reason}", path)
    return None


def section_of(row: NotificationRow) -> Any:
    """Return the section of the event, or else of the subscription."""
    own = (row.event or {}).get("section_id")
    return own if own is not None else (row.subscription or {}).get("section_id")


def build_links(row: NotificationRow, kind: EventKind, base_url: str) -> dict[str, str]:
    """Build the links of a message. Without an unsubscribe token, both point to the management page."""
    token = trimmed_text((row.subscription or {}).get("unsubscribe_token"))
    placeholders = {"base": base_url, "id": row.subscription_id, "token": quote(token or "", safe="")}
    manage = kind.manage_url.format(**placeholders)
    return {"manageUrl": manage, "unsubscribeUrl": kind.unsubscribe_url.format(**placeholders) if token else manage}


def meeting_summary(meetings: Sequence[Mapping[str, Any]]) -> str:
    """Return the known day, time and place of each meeting: `M 09:00–10:00 TIL 124, TH 13:00–14:20 LSB`."""
    return ", ".join(text for meeting in meetings if (text := _format_meeting(meeting)))


def _variables(
    kind: EventKind,
    event_fields: Mapping[str, Any],
    event_payload: Mapping[str, Any],
    details: SectionDetails,
    links: Mapping[str, str],
) -> dict[str, Any]:
    """Merge the variables; later ones win.

    These are: undeclared fields of the event payload, known facts, declared fields, explicit variables, and the links.
    """
    explicit = event_payload.get("variables")
    others = {
        name: value
        for name, value in event_payload.items()
        if name not in _RESERVED and isinstance(value, str | int | float)
    }
    named = {
        name: event_payload[name] for name in kind.variables if isinstance(event_payload.get(name), str | int | float)
    }
    seat: dict[str, Any] = {}
    if kind.name == OPEN_SEAT:
        # The contract allows only strings, but a producer may write a section number as a number.
        named = {name: text for name, value in named.items() if (text := trimmed_text(value)) is not None}
        seat = _seat_variables(event_fields, event_payload, details)
    # An invalid time is reported for the event itself, not for this variable.
    detected_at = event_fields.get("eventAt")
    detected = {"eventDetectedAt": detected_at} if times.parse(detected_at) is not None else {}
    return {**others, **detected, **seat, **named, **(explicit if isinstance(explicit, Mapping) else {}), **links}


def _seat_variables(
    event_fields: Mapping[str, Any], event_payload: Mapping[str, Any], details: SectionDetails
) -> dict[str, Any]:
    return _without_none(
        courseTitle=event_fields.get("courseTitle"),
        # Without a course string, the registration number identifies the course.
        courseString=trimmed_text(event_payload.get("courseString"))
        or trimmed_text(details.course.get("course_string"))
        or event_fields.get("indexNumber"),
        sectionIndex=event_fields.get("indexNumber"),
        sectionNumber=event_fields.get("sectionNumber"),
        meetingSummary=trimmed_text(event_payload.get("meetingSummary"))
        or meeting_summary(details.meetings)
        or trimmed_text(details.section.get("meeting_mode_summary"))
        or "",
        campus=event_fields.get("campusCode"),
        notes=trimmed_text(event_payload.get("notes")),
    )


def _format_meeting(meeting: Mapping[str, Any]) -> str:
    day = trimmed_text(meeting.get("meeting_day")) or ""
    start, end = meeting.get("start_minutes"), meeting.get("end_minutes")
    hours = (
        f"{_format_minutes(start)}–{_format_minutes(end)}" if isinstance(start, int) and isinstance(end, int) else ""
    )
    place = (meeting.get("building_code") or meeting.get("campus_abbrev"), meeting.get("room_number"))
    return " ".join(str(part) for part in (_WEEK.get(day.upper(), day), hours, *place) if part)


def _format_minutes(minutes: int) -> str:
    return f"{minutes // 60:02}:{minutes % 60:02}"


def _recipient_address(value: Any) -> Any:
    """Return the address trimmed and with an ASCII domain; leave other values unchanged for validation to reject."""
    if not isinstance(value, str):
        return value
    try:
        return address.deliverable(value.strip())
    except address.InvalidAddress:
        return value.strip()


def _recipient_name(subscription: Mapping[str, Any]) -> str | None:
    metadata = parse_json_column(subscription.get("metadata"))
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    return name if isinstance(name, str) and name.strip() else None


def _without_none(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _normal_time(text: Any) -> Any:
    """Normalize a time to the format of the schema; leave other text unchanged so that validation rejects it."""
    instant = times.parse(text)
    return text if instant is None else times.format_time(instant)


def _missing_variable(message: str) -> RowError:
    name = message.partition('"')[2].partition('"')[0]
    path = f"/template/variables/{name}" if name else "/template/variables"
    return RowError("MISSING_VARIABLE", f"{path}: the event provides no value", path)


def _without_value(error: Any) -> str:
    """Return the message without the value: an address must not appear in the queue's error column."""
    value = orjson.dumps(error.instance).decode() if isinstance(error.instance, str) else None
    message = str(error.message)
    return message.replace(value, "the value") if value else message


@cache
def schema() -> dict[str, Any]:
    """Return the unmodified schema of the queue contract."""
    contract: dict[str, Any] = orjson.loads(resources.files(__package__).joinpath("mail_job.schema.json").read_bytes())
    return contract


_validators: dict[tuple[EventKind, bool], "Draft202012Validator"] = {}


def _validator(kind: EventKind, is_newer: bool) -> "Draft202012Validator":
    import jsonschema_rs  # noqa: PLC0415 - ten megabytes, needed only to serve a queue

    key = (kind, is_newer)
    if key not in _validators:
        _validators[key] = jsonschema_rs.Draft202012Validator(_adapted_schema(kind, is_newer), validate_formats=True)
    return _validators[key]


def _adapted_schema(kind: EventKind, is_newer: bool) -> dict[str, Any]:
    """Return the schema with the template and the required variables of this event kind."""
    adapted = copy.deepcopy(schema())
    template = adapted["properties"]["template"]["properties"]
    if kind.template != OPEN_SEAT:
        template["id"]["const"] = kind.template
    template["variables"]["required"] = [*kind.variables, *LINKS]
    if is_newer:
        adapted["properties"]["version"] = {"type": "string"}
        _allow_unknown_fields(adapted)
    return adapted


def _allow_unknown_fields(schema_part: Any) -> None:
    """Allow unknown fields everywhere, as a newer minor version may have them."""
    if isinstance(schema_part, dict):
        schema_part.pop("additionalProperties", None)
        for child in schema_part.values():
            _allow_unknown_fields(child)
