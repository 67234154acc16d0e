"""The tables, once, for both engines. Times are integers: milliseconds since 1970, UTC.

`messages` holds what was asked and never changes; `deliveries` holds where each message stands and changes often. The
row that changes is narrow and has few indexes, so that a claim costs the same with ten thousand messages or ten
million.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
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
    Column("warmup_since", Text),  # a date; the tenant's mail grows day by day from then on
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
    # When the status became what it is, who said so, and how the mail came back, in the reporter's words.
    Column("status_updated_at", Moment),
    Column("status_source", Text),
    Column("bounce_type", Text),
    Column("bounce_subtype", Text),
    Column("locale", Text),
    Column("timezone", Text),
    Column("attributes", Text, nullable=False, server_default=text("'{}'")),
    UniqueConstraint("tenant_id", "email"),
)

contact_tags = Table(
    "contact_tags",
    metadata,
    Column("contact_key", Key, primary_key=True, autoincrement=False),
    Column("tag", Text, primary_key=True),
    Column("tenant_id", BigInteger, nullable=False),
    Index("ix_contact_tags_of_tenant", "tenant_id", "tag", "contact_key"),
)

# A saved question about contacts, asked anew each time: whoever answers to it now is in the segment now.
segments = Table(
    "segments",
    metadata,
    key_column(),
    Column("tenant_id", BigInteger, nullable=False),
    Column("segment_key", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("filter", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("updated_at", Moment, nullable=False),
    UniqueConstraint("tenant_id", "segment_key"),
)

lists = Table(
    "lists",
    metadata,
    key_column(),
    Column("tenant_id", BigInteger, nullable=False),
    Column("list_key", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("description", Text),
    Column("is_public", Boolean, nullable=False),
    Column("created_at", Moment, nullable=False),
    # Whoever is put on it gets a mail first, and nothing else until they follow its link.
    Column("requires_confirmation", Boolean, nullable=False, server_default=text("false")),
    UniqueConstraint("tenant_id", "list_key"),
)

_SUBSCRIBED = text("unsubscribed_at IS NULL")

subscriptions = Table(
    "subscriptions",
    metadata,
    key_column(),
    Column("tenant_id", BigInteger, nullable=False),
    Column("contact_key", BigInteger, nullable=False),
    Column("list_key", Text, nullable=False),
    # None for someone who left a list without ever having joined it.
    Column("subscribed_at", Moment),
    Column("unsubscribed_at", Moment),
    Column("source", Text, nullable=False),
    # Asked to confirm, and has not yet: on the list only by name.
    Column("is_pending", Boolean, nullable=False, server_default=text("false")),
    Column("confirmed_at", Moment),
    UniqueConstraint("contact_key", "list_key"),
    # Whoever walks a list meets only those who are on it.
    Index(
        "ix_subscriptions_of_list",
        "tenant_id",
        "list_key",
        "contact_key",
        sqlite_where=_SUBSCRIBED,
        postgresql_where=_SUBSCRIBED,
    ),
)

# Files of contacts on their way in. Each portion moves `records` and the counts in its own transaction.
imports = Table(
    "imports",
    metadata,
    key_column(),
    Column("import_id", Text, nullable=False, unique=True),
    Column("tenant_id", BigInteger, nullable=False),
    Column("file_name", Text, nullable=False),
    Column("fingerprint", Text, nullable=False),  # of the file's size and beginning
    Column("size_bytes", BigInteger, nullable=False),
    Column("plan", Text, nullable=False),  # how the file is read, and what for, as JSON
    Column("records", BigInteger, nullable=False),  # of the file that are done, the header not counted
    Column("read_bytes", BigInteger, nullable=False),
    Column("report_bytes", BigInteger, nullable=False),
    Column("added", BigInteger, nullable=False),
    Column("changed", BigInteger, nullable=False),
    Column("unchanged", BigInteger, nullable=False),
    Column("refused", BigInteger, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("updated_at", Moment, nullable=False),
    Column("finished_at", Moment),
    Index("ix_imports_tenant_id_id", "tenant_id", "id"),
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
    # What is not sent there: `*` no mail at all, `general` no bulk mail, any other no mail of that list.
    Column("list_key", Text, nullable=False, server_default=text("'*'")),
    UniqueConstraint("tenant_id", "email", "list_key"),
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
    # For whom this version is: `""` everyone who has none of their own. Numbers count over all locales of a template.
    Column("locale", Text, nullable=False, server_default=text("''")),
    # What the author wrote, where the HTML was made from it.
    Column("format", Text, nullable=False, server_default=text("'html'")),
    Column("source", Text),
    Column("variables", Text, nullable=False, server_default=text("'[]'")),  # as declared, as JSON
    UniqueConstraint("tenant_id", "template_id", "version"),
)

# Images by the names that authors use. The files themselves are named by their content, and never change.
images = Table(
    "images",
    metadata,
    key_column(),
    Column("tenant_id", BigInteger, nullable=False),
    Column("name", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("extension", Text, nullable=False),
    Column("size_bytes", Integer, nullable=False),
    Column("created_at", Moment, nullable=False),
    UniqueConstraint("tenant_id", "name"),
)

_OF_CAMPAIGN = text("campaign_key IS NOT NULL")

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
    # None for transactional mail; bulk mail has its list, or `general` where it is of none.
    Column("list_key", Text),
    Column("campaign_key", BigInteger),
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
    # A campaign writes to an address once.
    Index(
        "uq_messages_campaign_key_to_email",
        "campaign_key",
        "to_email",
        unique=True,
        sqlite_where=_OF_CAMPAIGN,
        postgresql_where=_OF_CAMPAIGN,
    ),
)

_WAITING = text("locked_by IS NULL AND status IN ('PENDING', 'RETRY_SCHEDULED')")
_LOCKED = text("locked_by IS NOT NULL")
_RARE = text("status IN ('FAILED', 'IN_DOUBT', 'CLOSED_UNKNOWN', 'CANCELLED')")
_IN_DOUBT = text("status = 'IN_DOUBT'")
_REPORTED = text("provider IN ('ses', 'sendgrid')")

deliveries = Table(
    "deliveries",
    metadata,
    Column("message_key", Key, primary_key=True, autoincrement=False),
    Column("tenant_id", BigInteger, nullable=False),
    # A lane is one tenant at one priority and one campaign, or none, in one number: see domain/lanes.py.
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
    # The same states of one campaign: with what still waits in its lane they tell how many of its mails were sent.
    Index("ix_deliveries_rare_of_lane", "lane", "status", sqlite_where=_RARE, postgresql_where=_RARE),
    # Reports name a mail by the provider's own id; other providers send none, and do not pay for this index.
    Index(
        "ix_deliveries_provider_message_id",
        "provider_message_id",
        sqlite_where=_REPORTED,
        postgresql_where=_REPORTED,
    ),
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

_SOFT = text("verdict = 'soft_bounce'")

# What was reported about a mail or an address, once each, however often it is told.
reports = Table(
    "reports",
    metadata,
    key_column(),
    Column("tenant_id", BigInteger, nullable=False),
    Column("key", Text, nullable=False),
    Column("message_key", BigInteger),
    Column("email", Text),
    Column("type", Text, nullable=False),
    Column("verdict", Text, nullable=False),
    Column("at", Moment, nullable=False),
    Column("received_at", Moment, nullable=False),
    # Whether it names the mail by an id, and so proves that the provider had it.
    Column("is_proof", Boolean, nullable=False),
    UniqueConstraint("tenant_id", "key"),
    Index("ix_reports_message_key", "message_key"),
    # Only these are counted later.
    Index("ix_reports_soft", "tenant_id", "email", "at", sqlite_where=_SOFT, postgresql_where=_SOFT),
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
    Column("per_second", Double, nullable=False, server_default=text("0")),  # mails, since the report before
)

# What this installation made for itself and must keep, as the secret of its unsubscribe links.
installation = Table(
    "installation",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
)

# What a campaign says and to whom. The content is frozen when it starts: `queue_entries` names the versions.
campaigns = Table(
    "campaigns",
    metadata,
    key_column(),
    Column("campaign_id", Text, nullable=False, unique=True),
    Column("tenant_id", BigInteger, nullable=False),
    Column("name", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("definition", Text, nullable=False),  # content, audience, sender and limits, as JSON
    Column("scheduled_at", Moment),
    Column("created_at", Moment, nullable=False),
    Column("updated_at", Moment, nullable=False),
    Column("started_at", Moment),
    Column("finished_at", Moment),
    Index("ix_campaigns_tenant_id_id", "tenant_id", "id"),
)

_UNFINISHED = text("completed_at IS NULL")

# A campaign's place in line. Its lane is made from its id; why the lane waits, and until when, stands in `holds` alone.
queue_entries = Table(
    "queue_entries",
    metadata,
    key_column(),
    Column("campaign_key", BigInteger, nullable=False, unique=True),
    Column("tenant_id", BigInteger, nullable=False),
    Column("lane", BigInteger, nullable=False),
    Column("content", Text, nullable=False),  # the frozen template versions, as JSON
    Column("limits", Text, nullable=False),  # of this campaign alone, as JSON
    Column("planned", Integer, nullable=False),  # how many people were in the audience at the start
    Column("walked", Integer, nullable=False),  # how many of them the walk has met
    Column("recipients", Integer, nullable=False),  # how many became messages
    Column("walked_to", Text, nullable=False),  # the last address that the walk has met
    Column("walk_ended_at", Moment),
    Column("created_at", Moment, nullable=False),
    Column("completed_at", Moment),
    Index("ix_queue_entries_open", "tenant_id", "id", sqlite_where=_UNFINISHED, postgresql_where=_UNFINISHED),
)

# Who did what, for people to read later. Nothing is decided from it.
audit_log = Table(
    "audit_log",
    metadata,
    key_column(),
    Column("tenant_id", BigInteger),
    Column("actor", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("detail", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
    Index("ix_audit_log_tenant_id_id", "tenant_id", "id"),
)

# What each provider said is left of its quota. Those that were asked together have one `synced_at`; what was sent since
# is in the counter of that name.
quotas = Table(
    "quotas",
    metadata,
    Column("provider", Text, primary_key=True),
    Column("remaining", BigInteger),  # as told; None where it has no limit
    Column("limit_per_day", BigInteger),
    Column("rate_per_second", BigInteger),
    Column("detail", Text, nullable=False),
    Column("synced_at", Moment, nullable=False),
    Column("under_way", BigInteger, nullable=False),  # mails that were on their way when it was asked
    Column("previous_sync", Moment),
    Column("counted_before", BigInteger, nullable=False),  # what the counter of the previous sync stood at
    # The last time that it did not tell, and why; None once it has told again.
    Column("failed_at", Moment),
    Column("failure", Text),
)
