"""The tables of a queue. Another program owns them, so they are inspected before use and never altered."""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from sqlalchemy import Column, Integer, MetaData, Table, Text, UniqueConstraint, column, inspect, table
from sqlalchemy.sql.expression import TableClause

from mailwright.domain.errors import ConfigurationInvalid
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.storage.database import Database
from mailwright.storage.postgresql_url import shown
from mailwright.storage.statements import Statement, statement

NOTIFICATIONS = "open_event_notifications"
EVENTS = "open_events"
SUBSCRIPTIONS = "subscriptions"
TIMELINE = "subscription_events"
SECTIONS = "sections"
COURSES = "courses"
MEETINGS = "section_meetings"

# Required to serve notifications.
REQUIRED_COLUMNS: Mapping[str, tuple[str, ...]] = {
    NOTIFICATIONS: (
        "notification_id",
        "open_event_id",
        "subscription_id",
        "dedupe_key",
        "fanout_status",
        "fanout_attempts",
        "last_attempt_at",
        "locked_by",
        "locked_at",
        "error",
    ),
    EVENTS: ("open_event_id", "term_id", "campus_code", "index_number", "status_after", "event_at"),
    SUBSCRIPTIONS: ("subscription_id", "contact_type", "contact_value", "status"),
    TIMELINE: ("subscription_id", "event_type", "section_status_snapshot", "payload", "created_at"),
}
# Also required to write events.
PRODUCER_COLUMNS: Mapping[str, tuple[str, ...]] = {
    EVENTS: ("dedupe_key", "payload", "status_before"),
    SUBSCRIPTIONS: ("term_id", "campus_code", "index_number"),
}
# Optional: used if they exist.
OPTIONAL_COLUMNS: Mapping[str, tuple[str, ...]] = {
    NOTIFICATIONS: ("created_at",),  # Without it, the age of a row is that of its event.
    EVENTS: (
        "section_id",
        "status_before",
        "detected_by",
        "snapshot_id",
        "dedupe_key",
        "trace_id",
        "payload",
        "created_at",
    ),
    SUBSCRIPTIONS: (
        "section_id",
        "term_id",
        "campus_code",
        "index_number",
        "contact_hash",
        "locale",
        "last_known_section_status",
        "unsubscribe_token",
        "metadata",
    ),
    SECTIONS: ("section_id", "course_id", "section_number", "subject_code", "open_status", "meeting_mode_summary"),
    COURSES: ("course_id", "course_string", "title"),
    MEETINGS: (
        "section_id",
        "meeting_day",
        "start_minutes",
        "end_minutes",
        "campus_abbrev",
        "building_code",
        "room_number",
    ),
}
_KEYS = {SECTIONS: "section_id", COURSES: "course_id", MEETINGS: "section_id"}

_SCHEMA = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}", re.ASCII)


@dataclass(frozen=True, slots=True)
class QueueStatements:
    """The statements that change a queue, bound to its schema."""

    lock_rows: Statement
    renew_rows: Statement
    unlock_rows: Statement
    note_rows: Statement
    record_results: Statement
    append_sent: Statement
    set_notified: Statement
    requeue_rows: Statement


@dataclass(frozen=True, slots=True)
class QueueTables:
    """The tables of a queue, each with the columns that exist."""

    notifications: TableClause
    events: TableClause
    subscriptions: TableClause
    timeline: TableClause
    sections: TableClause | None
    courses: TableClause | None
    meetings: TableClause | None
    missing_for_producer: tuple[str, ...]  # tables and columns required to write events that do not exist


@cache
def statements_of(schema: str | None) -> QueueStatements:
    prefix = f'"{check_schema(schema)}".' if schema else ""

    def bound(name: str) -> Statement:
        return Statement(name, statement(__package__, name).text.replace("queue.", prefix))

    return QueueStatements(
        bound("lock_rows"),
        bound("renew_rows"),
        bound("unlock_rows"),
        bound("note_rows"),
        bound("record_results"),
        bound("append_sent"),
        bound("set_notified"),
        bound("requeue_rows"),
    )


def check_schema(schema: str) -> str:
    if not _SCHEMA.fullmatch(schema):
        raise ConfigurationInvalid("MAILWRIGHT_NOTIFY_SCHEMA: may contain only letters, digits and underscores")
    return schema


async def inspect_tables(database: Database, schema: str | None) -> QueueTables:
    """Inspect the queue. Raises `ConfigurationInvalid` with everything that is missing."""
    found: dict[str, tuple[str, ...]] = {}

    def inspect_schema(connection: Any) -> None:
        inspector = inspect(connection)
        names = set(inspector.get_table_names(schema=schema)) | set(inspector.get_view_names(schema=schema))
        for name in {*REQUIRED_COLUMNS, *OPTIONAL_COLUMNS} & names:
            found[name] = tuple(column["name"] for column in inspector.get_columns(name, schema=schema))

    await database.run_sync_ddl(inspect_schema, read_only=True)
    if problems := _missing(REQUIRED_COLUMNS, found):
        raise ConfigurationInvalid(*(f"the queue at {redacted_url(database)} has no {problem}" for problem in problems))
    return QueueTables(
        notifications=_table(NOTIFICATIONS, found, schema),
        events=_table(EVENTS, found, schema),
        subscriptions=_table(SUBSCRIPTIONS, found, schema),
        timeline=_table(TIMELINE, found, schema),
        sections=_optional_table(SECTIONS, found, schema),
        courses=_optional_table(COURSES, found, schema),
        meetings=_optional_table(MEETINGS, found, schema),
        missing_for_producer=tuple(_missing(PRODUCER_COLUMNS, found)),
    )


def redacted_url(database: Database) -> str:
    """Return the database URL without its password."""
    return shown(database.url)


def _missing(needed: Mapping[str, tuple[str, ...]], found: Mapping[str, tuple[str, ...]]) -> list[str]:
    missing = []
    for name, columns in needed.items():
        if name not in found:
            missing.append(f"table {name}")
        else:
            missing += [f"column {name}.{each}" for each in columns if each not in found[name]]
    return missing


def _table(name: str, found: Mapping[str, tuple[str, ...]], schema: str | None) -> TableClause:
    return table(name, *(column(each) for each in found[name]), schema=schema)


def _optional_table(name: str, found: Mapping[str, tuple[str, ...]], schema: str | None) -> TableClause | None:
    return _table(name, found, schema) if _KEYS[name] in found.get(name, ()) else None


def contract_tables(schema: str | None = None) -> MetaData:
    """Return all tables of the queue contract, to create a new queue."""
    metadata = MetaData(schema=schema)

    def text(*names: str) -> list[Column[Any]]:
        return [Column(name, Text) for name in names]

    Table(
        NOTIFICATIONS,
        metadata,
        Column("notification_id", Integer, primary_key=True),
        Column("open_event_id", Integer, nullable=False),
        Column("subscription_id", Integer, nullable=False),
        Column("dedupe_key", Text, nullable=False, index=True),
        Column("fanout_status", Text, nullable=False, server_default="pending", index=True),
        Column("fanout_attempts", Integer, nullable=False, server_default="0"),
        *text("last_attempt_at", "locked_by", "locked_at", "error"),
        Column("created_at", Text, nullable=False),
        UniqueConstraint("open_event_id", "subscription_id"),
    )
    Table(
        EVENTS,
        metadata,
        Column("open_event_id", Integer, primary_key=True),
        Column("section_id", Integer),
        *text("term_id", "campus_code", "index_number", "status_before", "status_after"),
        Column("seat_delta", Integer),
        *text("event_at", "detected_by"),
        Column("snapshot_id", Integer),
        Column("dedupe_key", Text, index=True),
        *text("trace_id", "payload", "created_at"),
    )
    Table(
        SUBSCRIPTIONS,
        metadata,
        Column("subscription_id", Integer, primary_key=True),
        Column("section_id", Integer),
        Column("term_id", Text),
        Column("campus_code", Text),
        Column("index_number", Text, index=True),
        *text("contact_type", "contact_value", "contact_hash", "locale", "status"),
        Column("is_verified", Integer),
        *text("created_at", "updated_at", "last_notified_at", "last_known_section_status", "unsubscribe_token"),
        Column("metadata", Text),
    )
    Table(
        TIMELINE,
        metadata,
        Column("event_id", Integer, primary_key=True),
        Column("subscription_id", Integer, nullable=False, index=True),
        Column("event_type", Text, nullable=False),
        *text("section_status_snapshot", "payload", "created_at"),
    )
    return metadata
