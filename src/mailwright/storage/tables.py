"""The tables, once, for both engines. Times are integers: milliseconds since 1970, UTC.

`messages` holds what was asked and never changes; `deliveries` holds where each message stands and changes often. The
row that changes is narrow and has few indexes, so that a claim costs the same with ten thousand messages or ten
million.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Identity,
    Index,
    Integer,
    MetaData,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    text,
)

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(column_0_N_label)s",
    }
)

# SQLite gives out rowids only to INTEGER keys; PostgreSQL wants bigint.
Key = BigInteger().with_variant(Integer, "sqlite")
Moment = BigInteger


def key_column(name: str = "id") -> Column[int]:
    return Column(name, Key, Identity(), primary_key=True)


tenants = Table(
    "tenants",
    metadata,
    key_column(),
    Column("name", Text, nullable=False, unique=True),
    Column("weight", Integer, nullable=False, server_default=text("1")),
    Column("max_in_flight", Integer),
    Column("rate_per_second", Integer),
    Column("rate_per_hour", Integer),
    Column("daily_limit", Integer),
    Column("working_hours", Text),
    Column("timezone", Text),
    Column("created_at", Moment, nullable=False),
)

api_keys = Table(
    "api_keys",
    metadata,
    key_column(),
    Column("tenant_id", BigInteger, nullable=False),
    Column("name", Text, nullable=False),
    Column("hint", Text, nullable=False),
    Column("digest", Text, nullable=False, unique=True),
    Column("created_at", Moment, nullable=False),
    Column("revoked_at", Moment),
)

contacts = Table(
    "contacts",
    metadata,
    key_column(),
    Column("contact_id", Text, nullable=False, unique=True),
    Column("tenant_id", BigInteger, nullable=False),
    Column("email", Text, nullable=False),
    Column("name", Text),
    Column("status", Text, nullable=False, server_default=text("'active'")),
    Column("created_at", Moment, nullable=False),
    Column("deleted_at", Moment),
    UniqueConstraint("tenant_id", "email"),
)

suppressions = Table(
    "suppressions",
    metadata,
    key_column(),
    Column("tenant_id", BigInteger, nullable=False),
    Column("email", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
    UniqueConstraint("tenant_id", "email"),
)

templates = Table(
    "templates",
    metadata,
    key_column(),
    Column("tenant_id", BigInteger, nullable=False),
    Column("template_id", Text, nullable=False),
    Column("version", Integer, nullable=False),
    Column("subject", Text, nullable=False),
    Column("html", Text, nullable=False),
    Column("text", Text),
    Column("created_at", Moment, nullable=False),
    UniqueConstraint("tenant_id", "template_id", "version"),
)

messages = Table(
    "messages",
    metadata,
    key_column(),
    Column("outbox_id", Text, nullable=False, unique=True),
    Column("tenant_id", BigInteger, nullable=False),
    Column("source", Text, nullable=False),
    Column("request_id", Text, nullable=False),
    Column("dedupe_key", Text),
    Column("body_digest", Text),
    Column("to_email", Text, nullable=False),
    Column("contact_key", BigInteger),
    Column("recipient_id", Text),
    Column("external_id", Text),
    Column("subject", Text, nullable=False),
    Column("template_key", BigInteger),
    Column("payload", Text, nullable=False),
    Column("retry_policy", Text, nullable=False),
    Column("on_doubt", Text, nullable=False),
    Column("is_bulk", Boolean, nullable=False),
    Column("expires_at", Moment),
    Column("scheduled_at", Moment),
    Column("created_at", Moment, nullable=False),
    Index(
        "uq_messages_tenant_id_dedupe_key",
        "tenant_id",
        "dedupe_key",
        unique=True,
        sqlite_where=text("dedupe_key IS NOT NULL"),
        postgresql_where=text("dedupe_key IS NOT NULL"),
    ),
    Index("ix_messages_tenant_id_to_email", "tenant_id", "to_email", "id"),
    Index("ix_messages_tenant_id_id", "tenant_id", "id"),
)

_WAITING = text("locked_by IS NULL AND status IN ('PENDING', 'RETRY_SCHEDULED')")
_LOCKED = text("locked_by IS NOT NULL")
_RARE = text("status IN ('FAILED', 'IN_DOUBT', 'CLOSED_UNKNOWN', 'CANCELLED')")
_IN_DOUBT = text("status = 'IN_DOUBT'")

deliveries = Table(
    "deliveries",
    metadata,
    Column("message_key", Key, primary_key=True, autoincrement=False),
    Column("tenant_id", BigInteger, nullable=False),
    # A lane is one tenant at one priority, in one number: the priority above 2**40, the tenant below.
    Column("lane", BigInteger, nullable=False),
    Column("status", Text, nullable=False),
    # When a worker may next look at this: the time it is due, the end of a lock, or when a doubt is decided.
    Column("claimable_at", Moment, nullable=False),
    Column("next_attempt_at", Moment),
    Column("defer_reason", Text),
    Column("attempts", SmallInteger, nullable=False),
    Column("claims", SmallInteger, nullable=False),
    Column("resends", SmallInteger, nullable=False),
    Column("claim_token", BigInteger),
    Column("locked_by", Text),
    Column("locked_at", Moment),
    Column("attempted_at", Moment),
    Column("doubted_at", Moment),
    Column("provider", Text),
    Column("provider_message_id", Text),
    Column("error_code", Text),
    Column("error_category", Text),
    Column("error_reason", Text),
    Column("duration_ms", Integer),
    Column("sent_at", Moment),
    Column("failed_at", Moment),
    # Names the transaction that wrote the last mark or result: what else belongs to it joins on this.
    Column("settlement", BigInteger),
    # A claim takes a message out of the first of these and puts it into the second; the mark before a send touches
    # neither, and a result takes it out of the second. That is all the upkeep that a delivered mail costs.
    Index(
        "ix_deliveries_waiting",
        "lane",
        "claimable_at",
        "message_key",
        sqlite_where=_WAITING,
        postgresql_where=_WAITING,
    ),
    Index("ix_deliveries_locked", "claimable_at", sqlite_where=_LOCKED, postgresql_where=_LOCKED),
    Index("ix_deliveries_in_doubt", "claimable_at", sqlite_where=_IN_DOUBT, postgresql_where=_IN_DOUBT),
    # The states that people look for and that few messages reach: the happy road does not pay for this index.
    Index("ix_deliveries_rare", "tenant_id", "status", "message_key", sqlite_where=_RARE, postgresql_where=_RARE),
)

events = Table(
    "events",
    metadata,
    key_column(),
    Column("message_key", BigInteger, nullable=False),
    Column("tenant_id", BigInteger, nullable=False),
    Column("type", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("metadata", Text, nullable=False),
    Index("ix_events_message_key", "message_key"),
)

dead_letters = Table(
    "dead_letters",
    metadata,
    Column("message_key", Key, primary_key=True, autoincrement=False),
    Column("tenant_id", BigInteger, nullable=False),
    Column("code", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("attempts", SmallInteger, nullable=False),
    Column("created_at", Moment, nullable=False),
    Index("ix_dead_letters_tenant_id_created_at", "tenant_id", "created_at"),
)

# One row per accepting transaction: the audit's own count of what was accepted, apart from the messages themselves.
intake = Table(
    "intake",
    metadata,
    key_column(),
    Column("tenant_id", BigInteger, nullable=False),
    Column("source", Text, nullable=False),
    Column("accepted", Integer, nullable=False),
    Column("created_at", Moment, nullable=False),
)

# A lane that a policy holds: no worker claims from it before `until`.
holds = Table(
    "holds",
    metadata,
    Column("lane", BigInteger, primary_key=True, autoincrement=False),
    Column("defer_reason", Text, nullable=False),
    Column("deferred_until", Moment, nullable=False),
)

counters = Table(
    "counters",
    metadata,
    Column("name", Text, primary_key=True),
    Column("used", BigInteger, nullable=False),
    Column("expires_at", Moment, nullable=False),
)

workers = Table(
    "workers",
    metadata,
    Column("worker_id", Text, primary_key=True),
    Column("provider", Text, nullable=False),
    Column("started_at", Moment, nullable=False),
    Column("seen_at", Moment, nullable=False),
    Column("unavailable_until", Moment),
    Column("unavailable_reason", Text),
)

# What this installation made for itself and must keep, as the secret of its unsubscribe links.
installation = Table(
    "installation",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
)
