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
    TextClause,
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
Timestamp = BigInteger


def partial_index(name: str, *columns: str, where: TextClause, unique: bool = False) -> Index:
    """The migrations make it on both engines. Here PostgreSQL is left out: SQLAlchemy loads every engine that an index
    names, with 3 MB that whoever has SQLite need not have."""
    return Index(name, *columns, unique=unique, sqlite_where=where)


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
    Column("created_at", Timestamp, nullable=False),
    Column("warmup_since", Text),  # a date; the tenant's mail grows day by day from then on
    Column("interval_ms", Integer),
    Column("one_at_a_time", Boolean),
)

api_keys = Table(
    "api_keys",
    metadata,
    key_column(),
    Column("tenant_id", BigInteger, nullable=False),
    Column("name", Text, nullable=False),
    Column("hint", Text, nullable=False),
    Column("digest", Text, nullable=False, unique=True),
    Column("created_at", Timestamp, nullable=False),
    Column("revoked_at", Timestamp),
    # What it may do, as words with spaces; keys from before there were scopes may do everything.
    Column("scopes", Text, nullable=False, server_default=text("'send read manage'")),
)

_GONE = text("status <> 'active'")
_THERE = text("deleted_at IS NULL")

contacts = Table(
    "contacts",
    metadata,
    key_column(),
    Column("contact_id", Text, nullable=False, unique=True),
    Column("tenant_id", BigInteger, nullable=False),
    Column("email", Text, nullable=False),
    Column("name", Text),
    Column("status", Text, nullable=False, server_default=text("'active'")),
    Column("created_at", Timestamp, nullable=False),
    Column("deleted_at", Timestamp),
    # When the status became what it is, who said so, and how the mail came back, in the reporter's words.
    Column("status_updated_at", Timestamp),
    Column("status_source", Text),
    Column("bounce_type", Text),
    Column("bounce_subtype", Text),
    Column("locale", Text),
    Column("timezone", Text),
    Column("attributes", Text, nullable=False, server_default=text("'{}'")),
    UniqueConstraint("tenant_id", "email"),
    # Those who bounced or left, to be told of elsewhere: few, and looked for often.
    partial_index("ix_contacts_inactive", "tenant_id", "id", where=_GONE),
    # The latest of them, without sorting everyone. Whoever looks for an address does not go this way.
    partial_index("ix_contacts_not_deleted", "tenant_id", "id", where=_THERE),
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
    Column("created_at", Timestamp, nullable=False),
    Column("updated_at", Timestamp, nullable=False),
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
    Column("created_at", Timestamp, nullable=False),
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
    Column("subscribed_at", Timestamp),
    Column("unsubscribed_at", Timestamp),
    Column("source", Text, nullable=False),
    # Asked to confirm, and has not yet: on the list only by name.
    Column("is_pending", Boolean, nullable=False, server_default=text("false")),
    Column("confirmed_at", Timestamp),
    UniqueConstraint("contact_key", "list_key"),
    # Whoever walks a list meets only those who are on it.
    partial_index(
        "ix_subscriptions_of_list",
        "tenant_id",
        "list_key",
        "contact_key",
        where=_SUBSCRIBED,
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
    Column("created_at", Timestamp, nullable=False),
    Column("updated_at", Timestamp, nullable=False),
    Column("finished_at", Timestamp),
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
    Column("created_at", Timestamp, nullable=False),
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
    Column("created_at", Timestamp, nullable=False),
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
    Column("created_at", Timestamp, nullable=False),
    UniqueConstraint("tenant_id", "name"),
)

_OF_CAMPAIGN = text("campaign_key IS NOT NULL")
_OF_ARTICLE = text("source = 'article'")

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
    Column("expires_at", Timestamp),
    Column("scheduled_at", Timestamp),
    Column("created_at", Timestamp, nullable=False),
    # None for transactional mail; bulk mail has its list, or `general` where it is of none.
    Column("list_key", Text),
    Column("campaign_key", BigInteger),
    partial_index(
        "uq_messages_tenant_id_dedupe_key",
        "tenant_id",
        "dedupe_key",
        unique=True,
        where=text("dedupe_key IS NOT NULL"),
    ),
    Index("ix_messages_tenant_id_to_email", "tenant_id", "to_email", "id"),
    Index("ix_messages_tenant_id_id", "tenant_id", "id"),
    # A campaign writes to an address once.
    partial_index(
        "uq_messages_campaign_key_to_email",
        "campaign_key",
        "to_email",
        unique=True,
        where=_OF_CAMPAIGN,
    ),
    # So does a run of an article, whose id is the request's.
    partial_index(
        "uq_messages_of_article_run",
        "request_id",
        "to_email",
        unique=True,
        where=_OF_ARTICLE,
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
    Column("claimable_at", Timestamp, nullable=False),
    Column("next_attempt_at", Timestamp),
    Column("defer_reason", Text),
    Column("attempts", SmallInteger, nullable=False),
    Column("claims", SmallInteger, nullable=False),
    Column("resends", SmallInteger, nullable=False),
    Column("claim_token", BigInteger),
    Column("locked_by", Text),
    Column("locked_at", Timestamp),
    Column("attempted_at", Timestamp),
    Column("in_doubt_since", Timestamp),
    Column("provider", Text),
    Column("provider_message_id", Text),
    Column("error_code", Text),
    Column("error_category", Text),
    Column("error_reason", Text),
    Column("duration_ms", Integer),
    Column("sent_at", Timestamp),
    Column("failed_at", Timestamp),
    # Names the transaction that wrote the last mark or result: what else belongs to it joins on this.
    Column("settlement", BigInteger),
    # A claim takes a message out of the first of these and puts it into the second; the mark before a send touches
    # neither, and a result takes it out of the second. That is all the upkeep that a delivered mail costs.
    partial_index(
        "ix_deliveries_waiting",
        "lane",
        "claimable_at",
        "message_key",
        where=_WAITING,
    ),
    partial_index("ix_deliveries_leased", "claimable_at", where=_LOCKED),
    partial_index("ix_deliveries_in_doubt", "claimable_at", where=_IN_DOUBT),
    # The states that people look for and that few messages reach: the happy road does not pay for this index.
    partial_index("ix_deliveries_rare", "tenant_id", "status", "message_key", where=_RARE),
    # The same states of one campaign: with what still waits in its lane they tell how many of its mails were sent.
    partial_index("ix_deliveries_rare_of_lane", "lane", "status", where=_RARE),
    # Reports name a mail by the provider's own id; other providers send none, and do not pay for this index.
    partial_index(
        "ix_deliveries_provider_message_id",
        "provider_message_id",
        where=_REPORTED,
    ),
)

events = Table(
    "events",
    metadata,
    key_column(),
    Column("message_key", BigInteger, nullable=False),
    Column("tenant_id", BigInteger, nullable=False),
    Column("type", Text, nullable=False),
    Column("created_at", Timestamp, nullable=False),
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
    Column("at", Timestamp, nullable=False),
    Column("received_at", Timestamp, nullable=False),
    # Whether it names the mail by an id, and so proves that the provider had it.
    Column("is_proof", Boolean, nullable=False),
    UniqueConstraint("tenant_id", "key"),
    Index("ix_reports_message_key", "message_key"),
    Index("ix_reports_received_at", "received_at"),
    # Only these are counted later.
    partial_index("ix_reports_soft", "tenant_id", "email", "at", where=_SOFT),
)

dead_letters = Table(
    "dead_letters",
    metadata,
    Column("message_key", Key, primary_key=True, autoincrement=False),
    Column("tenant_id", BigInteger, nullable=False),
    Column("code", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("attempts", SmallInteger, nullable=False),
    Column("created_at", Timestamp, nullable=False),
    Index("ix_dead_letters_tenant_id_created_at", "tenant_id", "created_at"),
)

# One row per accepting transaction: the audit's own count of what was accepted, apart from the messages themselves.
accepted_counts = Table(
    "accepted_counts",
    metadata,
    key_column(),
    Column("tenant_id", BigInteger, nullable=False),
    Column("source", Text, nullable=False),
    Column("accepted", Integer, nullable=False),
    Column("created_at", Timestamp, nullable=False),
)

# A lane that a policy holds: no worker claims from it before `until`.
lane_deferrals = Table(
    "lane_deferrals",
    metadata,
    Column("lane", BigInteger, primary_key=True, autoincrement=False),
    Column("defer_reason", Text, nullable=False),
    Column("deferred_until", Timestamp, nullable=False),
)

counters = Table(
    "counters",
    metadata,
    Column("name", Text, primary_key=True),
    Column("used", BigInteger, nullable=False),
    Column("expires_at", Timestamp, nullable=False),
)

workers = Table(
    "workers",
    metadata,
    Column("worker_id", Text, primary_key=True),
    Column("provider", Text, nullable=False),
    Column("started_at", Timestamp, nullable=False),
    Column("seen_at", Timestamp, nullable=False),
    Column("unavailable_until", Timestamp),
    Column("unavailable_reason", Text),
    Column("per_second", Double, nullable=False, server_default=text("0")),  # mails, since the report before
)

# What this installation made or found out for itself and must keep: the secret of its unsubscribe links, its address.
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
    Column("scheduled_at", Timestamp),
    Column("created_at", Timestamp, nullable=False),
    Column("updated_at", Timestamp, nullable=False),
    Column("started_at", Timestamp),
    Column("finished_at", Timestamp),
    # Since when everyone may read it in the archive; None where only its readers may.
    Column("archived_at", Timestamp),
    # Its mails have keys behind this one: it was the newest when the campaign began.
    Column("messages_after_key", BigInteger, nullable=False, server_default=text("0")),
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
    Column("processed", Integer, nullable=False),  # how many of them the walk has met
    Column("recipients", Integer, nullable=False),  # how many became messages
    Column("enqueued_to", Text, nullable=False),  # the last address that the walk has met
    Column("enqueue_ended_at", Timestamp),
    Column("created_at", Timestamp, nullable=False),
    Column("completed_at", Timestamp),
    partial_index("ix_queue_entries_open", "tenant_id", "id", where=_UNFINISHED),
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
    Column("created_at", Timestamp, nullable=False),
    Index("ix_audit_log_tenant_id_id", "tenant_id", "id"),
    Index("ix_audit_log_subject", "subject", "tenant_id", "id"),
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
    Column("synced_at", Timestamp, nullable=False),
    Column("in_flight", BigInteger, nullable=False),  # mails that were on their way when it was asked
    Column("previous_sync", Timestamp),
    Column("counted_before", BigInteger, nullable=False),  # what the counter of the previous sync stood at
    # The last time that it did not tell, and why; None once it has told again.
    Column("failed_at", Timestamp),
    Column("failure", Text),
    Column("failed_syncs", Integer, nullable=False, server_default=text("0")),  # how often in a row it did not tell
)

# People who sign in. One without a tenant belongs to the installation and may look at each of them.
users = Table(
    "users",
    metadata,
    key_column(),
    Column("login", Text, nullable=False, unique=True),
    Column("role", Text, nullable=False),
    Column("tenant_id", BigInteger),
    Column("password_hash", Text, nullable=False),
    Column("password_changed_at", Timestamp, nullable=False),
    # Set while a second factor is being set up, and in force from `totp_enabled_at` on.
    Column("totp_secret", Text),
    Column("totp_enabled_at", Timestamp),
    Column("totp_step", BigInteger, nullable=False),  # of the last code that was taken: none is taken twice
    Column("created_at", Timestamp, nullable=False),
    Column("seen_at", Timestamp),
    Column("disabled_at", Timestamp),
)

# Each opens the door once, where the second factor is lost.
recovery_codes = Table(
    "recovery_codes",
    metadata,
    Column("user_key", Key, primary_key=True, autoincrement=False),
    Column("digest", Text, primary_key=True),
)

sessions = Table(
    "sessions",
    metadata,
    key_column(),
    Column("digest", Text, nullable=False, unique=True),
    Column("user_key", BigInteger, nullable=False),
    Column("tenant_id", BigInteger, nullable=False),  # whose data it looks at
    Column("awaits_code", Boolean, nullable=False),  # the password was right, the second factor is still to come
    Column("created_at", Timestamp, nullable=False),
    Column("seen_at", Timestamp, nullable=False),
    Column("ends_at", Timestamp, nullable=False),
    Column("address", Text, nullable=False),
    Column("agent", Text, nullable=False),
    Index("ix_sessions_user_key", "user_key"),
    Index("ix_sessions_ends_at", "ends_at"),
)

# Wrong passwords and codes, by the account that they were meant for and by the address that they came from.
failed_sign_ins = Table(
    "failed_sign_ins",
    metadata,
    Column("subject", Text, primary_key=True),
    Column("failures", Integer, nullable=False),
    Column("last_failed_at", Timestamp, nullable=False),
    Column("blocked_until", Timestamp, nullable=False),
)

# How many events of each type a tenant's messages had in each minute: what charts are drawn from.
tallies = Table(
    "tallies",
    metadata,
    Column("tenant_id", BigInteger, primary_key=True, autoincrement=False),
    Column("minute", BigInteger, primary_key=True, autoincrement=False),
    Column("type", Text, primary_key=True),
    Column("events", BigInteger, nullable=False),
    Index("ix_tallies_minute", "minute"),
)

# Whom to tell what happens to a tenant's mail. Secrets are kept as they are: each request is signed with them.
webhook_endpoints = Table(
    "webhook_endpoints",
    metadata,
    key_column(),
    Column("webhook_id", Text, nullable=False, unique=True),
    Column("tenant_id", BigInteger, nullable=False),
    Column("url", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("types", Text, nullable=False),  # of events, as JSON
    Column("secrets", Text, nullable=False),  # the newest first, each with its end, as JSON
    Column("is_active", Boolean, nullable=False),
    Column("after_event", BigInteger, nullable=False),  # only later ones are told
    Column("paused_at", Timestamp),
    Column("pause_reason", Text),
    Column("failing_since", Timestamp),
    Column("failures", Integer, nullable=False),  # in a row
    Column("deferred_until", Timestamp, nullable=False),
    Column("created_at", Timestamp, nullable=False),
    Column("updated_at", Timestamp, nullable=False),
    Index("ix_webhook_endpoints_tenant_id", "tenant_id", "id"),
)

_TO_DELIVER = text("status = 'PENDING'")

# What is told to an endpoint. The words are read from the event and its message when they are sent: nothing of a person
# is copied here.
webhook_deliveries = Table(
    "webhook_deliveries",
    metadata,
    key_column(),
    Column("delivery_id", Text, nullable=False, unique=True),
    Column("endpoint_key", BigInteger, nullable=False),
    Column("tenant_id", BigInteger, nullable=False),
    Column("event_key", BigInteger),  # None for a test
    Column("event_at", Timestamp, nullable=False),
    Column("message_key", BigInteger),
    Column("type", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("due_at", Timestamp, nullable=False),  # the next attempt, or the end of the claim that is under way
    Column("claim_token", BigInteger),
    Column("attempts", Integer, nullable=False),
    Column("log", Text, nullable=False),  # what came of each attempt, as JSON
    Column("created_at", Timestamp, nullable=False),
    Column("ended_at", Timestamp),
    UniqueConstraint("endpoint_key", "event_key"),
    Index("ix_webhook_deliveries_of_endpoint", "endpoint_key", "id"),
    partial_index(
        "ix_webhook_deliveries_due",
        "endpoint_key",
        "due_at",
        where=_TO_DELIVER,
    ),
    Index("ix_webhook_deliveries_ended_at", "ended_at"),
)

# How far the events have been looked through for webhooks: one row.
webhook_cursor = Table(
    "webhook_cursor",
    metadata,
    Column("name", Text, primary_key=True),
    Column("position", BigInteger, nullable=False),
    # The newest event at some moment, and what must have ended before all events up to it can be seen.
    Column("seen", BigInteger, nullable=False),
    Column("seen_before", BigInteger, nullable=False),
)

# Pieces of articles. Which readers get which of them is decided by `scope_ocd_id` alone; `""` is everyone, so that the
# key below holds for those, too.
slices = Table(
    "slices",
    metadata,
    key_column(),
    Column("slice_id", Text, nullable=False, unique=True),
    Column("tenant_id", BigInteger, nullable=False),
    Column("article_key", Text, nullable=False),
    Column("section_order", Integer, nullable=False),
    Column("sort_index", Integer, nullable=False),
    Column("scope_ocd_id", Text, nullable=False),
    Column("is_headline", Boolean, nullable=False),
    Column("title", Text),
    Column("dek", Text),
    Column("body_md", Text, nullable=False),
    Column("link_url", Text),
    Column("tags", Text, nullable=False),  # as JSON
    Column("publish_status", Text, nullable=False),
    Column("publish_at", Timestamp),
    Column("expires_at", Timestamp),
    Column("created_at", Timestamp, nullable=False),
    Column("updated_at", Timestamp, nullable=False),
    UniqueConstraint("tenant_id", "article_key", "section_order", "scope_ocd_id", "sort_index", name="uq_slices_place"),
)

_BEING_WALKED = text("enqueue_ended_at IS NULL")

# One row for each sending of an article. Its slices are frozen in it: whoever takes it up goes on with the same.
campaign_runs = Table(
    "campaign_runs",
    metadata,
    key_column(),
    Column("run_id", Text, nullable=False, unique=True),
    Column("tenant_id", BigInteger, nullable=False),
    Column("campaign_tag", Text, nullable=False),
    Column("article_key", Text, nullable=False),
    Column("actor", Text, nullable=False),
    Column("send_batch_id", Text, nullable=False),
    Column("audience_filter", Text, nullable=False),  # as JSON
    Column("list_key", Text, nullable=False),
    Column("content", Text, nullable=False),  # the slices, as JSON
    Column("recipients", Integer, nullable=False),  # how many became messages
    Column("skipped", Integer, nullable=False),  # how many of the audience get none of the slices
    Column("enqueued_to", Text, nullable=False),  # the last address that the walk has met
    Column("started_at", Timestamp, nullable=False),
    Column("enqueue_ended_at", Timestamp),
    Column("failure", Text),  # why the walk could not go on
    # Its letters have keys behind this one, as a campaign's mails have.
    Column("messages_after_key", BigInteger, nullable=False, server_default=text("0")),
    UniqueConstraint("tenant_id", "campaign_tag", "send_batch_id"),
    Index("ix_campaign_runs_tenant_id_id", "tenant_id", "id"),
    partial_index("ix_campaign_runs_open", "id", where=_BEING_WALKED),
)

# What the readers of a run get: one row for each set of slices, whatever the number of its readers.
run_variants = Table(
    "run_variants",
    metadata,
    Column("run_key", BigInteger, primary_key=True, autoincrement=False),
    Column("slices", Text, primary_key=True),  # their ids in the order of the body, as JSON
    Column("template_key", BigInteger, nullable=False),
    Column("recipients", Integer, nullable=False),
)

_UNDONE = text("due_at IS NOT NULL")

# Runs of mailouts: a page of Notion on its way to its readers, and what of it is still to be told there.
mailouts = Table(
    "mailouts",
    metadata,
    key_column(),
    Column("mailout_id", Text, nullable=False, unique=True),  # its campaign has the same id, once there is one
    Column("tenant_id", BigInteger, nullable=False),
    Column("page_id", Text, nullable=False),
    # The page again, in the one run that sends it to everybody; None in tests and before that is known.
    Column("sent_page", Text, unique=True),
    Column("actor", Text, nullable=False),
    Column("fingerprint", Text),  # of what the page said of itself, where it was found by looking
    Column("is_test", Boolean),
    Column("subject", Text),
    Column("status", Text, nullable=False),
    Column("template_key", BigInteger),
    Column("campaign_key", BigInteger),
    Column("planned", Integer),
    Column("error_code", Text),
    Column("error_message", Text),
    Column("created_at", Timestamp, nullable=False),
    Column("finished_at", Timestamp),  # when every mail of it had left or failed
    Column("figures", Text, nullable=False, server_default=text("'{}'")),  # as Notion has them, as JSON
    Column("reported_at", Timestamp),
    # When somebody is to look at it next; None when nothing is left to do.
    Column("due_at", Timestamp),
    Column("failures", Integer, nullable=False),  # in a row, of whatever it needs from elsewhere
    Column("leased_by", BigInteger),
    Column("leased_until", Timestamp, nullable=False),
    # Why it waits until `due_at`, where that is for a failure.
    Column("delay_code", Text),
    Column("delay_reason", Text),
    partial_index("ix_mailouts_due_at", "due_at", where=_UNDONE),
    Index("ix_mailouts_tenant_id_id", "tenant_id", "id"),
    Index("ix_mailouts_page_id", "page_id"),
)

# Who is to get a mailout and has no message yet. A row becomes a message and is gone.
mailout_recipients = Table(
    "mailout_recipients",
    metadata,
    Column("mailout_key", Key, primary_key=True, autoincrement=False),
    Column("email", Text, primary_key=True),
    Column("from_name", Text),
)

_UNWRITTEN = text("written_at IS NULL")

# What went wrong with a mailout, on its way into the table of errors in Notion.
mailout_errors = Table(
    "mailout_errors",
    metadata,
    key_column(),
    Column("mailout_key", BigInteger, nullable=False),
    Column("key", Text, nullable=False),  # the same for the same error, however often it is found
    Column("stage", Text, nullable=False),
    Column("code", Text, nullable=False),
    Column("message", Text, nullable=False),
    Column("email", Text),  # forgotten once Notion has it
    Column("provider", Text),
    Column("retry_count", Integer, nullable=False),
    Column("at", Timestamp, nullable=False),
    Column("is_in_doubt", Boolean, nullable=False),  # Notion may have it although it did not say so
    Column("written_at", Timestamp),
    UniqueConstraint("mailout_key", "key"),
    partial_index("ix_mailout_errors_unwritten", "mailout_key", "id", where=_UNWRITTEN),
)

# What Supabase's `send_logs` was told of each mail.
mailout_logs = Table(
    "mailout_logs",
    metadata,
    Column("message_key", Key, primary_key=True, autoincrement=False),
    Column("mailout_key", BigInteger, nullable=False),
    Column("status", Text, nullable=False),
    Column("is_confirmed", Boolean, nullable=False),  # false from before it is told until it was answered
    Index("ix_mailout_logs_mailout_key", "mailout_key"),
)

# What Supabase's `subscribers` was told of each person who bounced, left or came back.
supabase_status_updates = Table(
    "supabase_status_updates",
    metadata,
    Column("contact_key", Key, primary_key=True, autoincrement=False),
    Column("status", Text, nullable=False),
    Column("status_at", Timestamp),
    Column("reported_at", Timestamp, nullable=False),
)

_UNDER_WAY = text("state = 'sending'")

# Which row of somebody else's queue became which message, and how far its result has been told there.
notification_links = Table(
    "notification_links",
    metadata,
    key_column(),
    Column("tenant_id", BigInteger, nullable=False),
    Column("queue", Text, nullable=False),
    Column("queue_schema", Text),  # where the queue's tables are in this very database; None where they are elsewhere
    Column("notification_id", BigInteger, nullable=False),
    Column("row_key", Text, nullable=False),  # the row, also where its number was given to another one later
    Column("generation", Integer, nullable=False),  # a row that was requeued after its end becomes another message
    Column("subscription_id", BigInteger, nullable=False),
    Column("outbox_id", Text, nullable=False, unique=True),
    Column("state", Text, nullable=False),  # sending, waiting for the row's next try, or closed
    Column("locked_by", Text, nullable=False),  # as the row says, while it is sent: only this lock's holder may write
    Column("locked_at", Text, nullable=False),
    Column("attempts_before", Integer, nullable=False),  # what the row said when it was locked
    Column("max_attempts", Integer, nullable=False),
    Column("sent_event", Text, nullable=False),  # what the row's timeline is told when the mail is sent, as JSON
    # Of the message's attempts, those that ended in a try again later: none is told twice.
    Column("completed_attempts", Integer, nullable=False),
    Column("result_at", Timestamp),
    Column("retry_after", BigInteger),  # milliseconds, as the provider asked
    Column("created_at", Timestamp, nullable=False),
    UniqueConstraint("queue", "row_key", "generation"),
    partial_index("ix_notification_links_sending", "queue", "id", where=_UNDER_WAY),
    partial_index(
        "ix_notification_links_in_flight",
        "queue",
        "subscription_id",
        where=_UNDER_WAY,
    ),
)

# The tallies again by the hour, for charts of weeks.
hourly_tallies = Table(
    "hourly_tallies",
    metadata,
    Column("tenant_id", BigInteger, primary_key=True, autoincrement=False),
    Column("hour", BigInteger, primary_key=True, autoincrement=False),
    Column("type", Text, primary_key=True),
    Column("events", BigInteger, nullable=False),
)

# What happened to the mails of each campaign, by the minute and by the hour.
campaign_tallies = Table(
    "campaign_tallies",
    metadata,
    Column("campaign_key", BigInteger, primary_key=True, autoincrement=False),
    Column("bucket_ms", Integer, primary_key=True, autoincrement=False),  # of the stretch, in milliseconds
    Column("begins_at", Timestamp, primary_key=True, autoincrement=False),
    Column("type", Text, primary_key=True),
    Column("events", BigInteger, nullable=False),
    Column("unique_messages", BigInteger, nullable=False),  # to which this happened for the first time
)

# How the versions of each campaign did; a version has a template for each locale.
variant_tallies = Table(
    "variant_tallies",
    metadata,
    Column("campaign_key", BigInteger, primary_key=True, autoincrement=False),
    Column("template_key", BigInteger, primary_key=True, autoincrement=False),
    Column("sent", BigInteger, nullable=False),
    Column("opened", BigInteger, nullable=False),  # mails: whoever clicked has opened theirs
    Column("clicked", BigInteger, nullable=False),
)
