"""The tables, defined once for both engines. Times are integers: milliseconds since 1970, UTC.

`messages` holds accepted messages, which only an erasure changes; `deliveries` holds their states and changes often.
The rows of `deliveries` are narrow and have few indexes, so that a claim takes as long with ten thousand messages as
with ten million.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    Identity,
    Index,
    Integer,
    LargeBinary,
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

# SQLite assigns rowids only to INTEGER keys; PostgreSQL needs bigint.
Key = BigInteger().with_variant(Integer, "sqlite")
Timestamp = BigInteger
# Audiences are enqueued in the order of their addresses, which must be the same on both engines.
ByteOrderedText = Text().with_variant(Text(collation="C"), "postgresql")


def partial_index(name: str, *columns: str, where: TextClause, unique: bool = False) -> Index:
    """Define a partial index. The migrations create it on both engines.

    The definition does not mention PostgreSQL, because SQLAlchemy would then load the PostgreSQL dialect (3 MB) on
    SQLite too.
    """
    return Index(name, *columns, unique=unique, sqlite_where=where)


def key_column(name: str = "id") -> Column[int]:
    return Column(name, Key, Identity(), primary_key=True)


# Only revisions define these: views for reporting tools, and indexes on expressions.
EXPRESSION_INDEXES = ("ix_messages_by_time",)
VIEWS = (
    *("dead_letters", "delivery_events", "delivery_history"),
    *("email_events", "email_logs", "email_outbox", "recipients"),
)

# The revisions that the database has: see `migrate.py`.
schema_revisions = Table(
    "schema_revisions",
    metadata,
    Column("revision", Text, primary_key=True),
    Column("mailwright_version", Text, nullable=False),  # that applied it; of the newest, that upgraded last
    Column("oldest_compatible", Text, nullable=False),  # The oldest revision whose processes can run beside it.
    Column("started_at", Timestamp, nullable=False),
    Column("finished_at", Timestamp),  # None while it is unfinished:
    Column("step", Integer, nullable=False, server_default=text("0")),  # the number of finished steps,
    Column("position", BigInteger),  # and the key up to which the current step has changed rows.
)

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
    Column("warmup_since", Text),  # An ISO date.
    Column("interval_ms", Integer),
    Column("one_at_a_time", Boolean),
    # The strictest tracking mode of all levels applies; None restricts nothing.
    Column("tracking", Text),
    Column("tracking_host", Text),  # The URL of tracked links; None for the public URL.
    Column("guard_rails", Text),  # The tenant's own thresholds, as JSON.
    Column("frequency_cap", Text),  # At most this many bulk emails to a contact: `3 per 7 days`, or `off`.
    Column("reply_forward_to", Text),  # The address that replies are forwarded to; None for the installation's.
    Column("sections", Text, nullable=False, server_default=text("''")),  # Switched on, separated by spaces.
    Column("brand", Text),  # The brand kit, as JSON.
    Column("requires_second_factor", Boolean, nullable=False, server_default=text("false")),
    Column("approval_over", Integer),  # Campaigns with more recipients need the approval of a second person.
    # Since when the tenant may send only from its verified sender domains; None if it never had one, or if the
    # restriction was lifted.
    Column("senders_restricted_since", Timestamp),
)

api_keys = Table(
    "api_keys",
    metadata,
    key_column(),
    Column("tenant_id", BigInteger),  # None: a platform key, which belongs to the installation.
    Column("name", Text, nullable=False),
    Column("hint", Text, nullable=False),
    Column("digest", Text, nullable=False, unique=True),
    Column("created_at", Timestamp, nullable=False),
    Column("revoked_at", Timestamp),
    # Scopes separated by spaces.
    Column("scopes", Text, nullable=False, server_default=text("'send read manage'")),
    # Addresses and @domains that the key may send from, separated by spaces; null for every sender.
    Column("senders", Text),
    # Set if the key also signs requests to the API of SES: the id of the pair, and the key itself, encrypted.
    Column("access_key_id", Text, unique=True),
    Column("encrypted_key", Text),
    # The user who is responsible for the key; null if unknown.
    Column("owner", Text),
)

# Emails that shadow mode passed on, one row for each recipient, without contents and without complete addresses.
shadow_emails = Table(
    "shadow_emails",
    metadata,
    key_column(),
    Column("tenant_id", BigInteger, nullable=False),
    Column("created_at", Timestamp, nullable=False),
    # The digest of the deduplication key, which includes the recipient; null if the email has no Message-ID.
    Column("key_digest", Text),
    Column("body_digest", Text, nullable=False),
    Column("recipient", ByteOrderedText, nullable=False),  # masked
    Column("from_domain", Text),
    Column("size_bytes", BigInteger, nullable=False),
    Column("is_accepted", Boolean, nullable=False),  # by the relay
    Column("relay_reply", Text, nullable=False),
    Column("findings", Text, nullable=False),  # separated by spaces
    Column("detail", Text, nullable=False),
    Index("ix_shadow_emails_time", "tenant_id", "created_at"),
    Index("ix_shadow_emails_key", "tenant_id", "key_digest"),
)

_GONE = text("status <> 'active'")
_THERE = text("deleted_at IS NULL")
_ASKED = text("consents_to_tracking IS NOT NULL")

contacts = Table(
    "contacts",
    metadata,
    key_column(),
    Column("contact_id", Text, nullable=False, unique=True),
    Column("tenant_id", BigInteger, nullable=False),
    Column("email", ByteOrderedText, nullable=False),
    Column("name", Text),
    Column("status", Text, nullable=False, server_default=text("'active'")),
    Column("created_at", Timestamp, nullable=False),
    Column("deleted_at", Timestamp),
    # When the status was set and by which source, and the bounce type that the provider reported.
    Column("status_updated_at", Timestamp),
    Column("status_source", Text),
    Column("bounce_type", Text),
    Column("bounce_subtype", Text),
    Column("locale", Text),
    Column("timezone", Text),
    Column("attributes", Text, nullable=False, server_default=text("'{}'")),
    # The legal basis for bulk email without a subscription, with its source, the user who recorded it, and the time.
    Column("legal_basis", Text),
    Column("legal_basis_source", Text),
    Column("legal_basis_by", Text),
    Column("legal_basis_at", Timestamp),
    # Whether the contact's opens and clicks may be recorded (None if they were never asked), and the wording they saw.
    Column("consents_to_tracking", Boolean),
    Column("tracking_consent_wording", Text),
    Column("tracking_consent_source", Text),
    Column("tracking_consent_at", Timestamp),
    # Until when the contact has paused bulk email.
    Column("snoozed_until", Timestamp),
    UniqueConstraint("tenant_id", "email"),
    # Few contacts have a pause, so that looking for one costs almost nothing.
    partial_index("ix_contacts_snoozed", "email", "snoozed_until", where=text("snoozed_until IS NOT NULL")),
    # Contacts that bounced or unsubscribed, for the sync with other systems.
    partial_index("ix_contacts_inactive", "tenant_id", "id", where=_GONE),
    # Lists the newest contacts without a sort. Lookups by address do not use it.
    partial_index("ix_contacts_not_deleted", "tenant_id", "id", where=_THERE),
    # Counts those who consent to tracking, for the dashboard.
    partial_index("ix_contacts_asked", "tenant_id", "consents_to_tracking", where=_ASKED),
)

contact_tags = Table(
    "contact_tags",
    metadata,
    Column("contact_key", Key, primary_key=True, autoincrement=False),
    Column("tag", Text, primary_key=True),
    Column("tenant_id", BigInteger, nullable=False),
    Index("ix_contact_tags_of_tenant", "tenant_id", "tag", "contact_key"),
)

# Actions of contacts in the tenant's own systems. An event belongs to an address, which need not be a contact yet.
contact_events = Table(
    "contact_events",
    metadata,
    key_column(),
    Column("tenant_id", BigInteger, nullable=False),
    # The ID that the caller gave, or a generated one. An event that arrives several times is stored once.
    Column("event_id", Text, nullable=False),
    Column("email", ByteOrderedText, nullable=False),
    Column("name", Text, nullable=False),
    Column("properties", Text, nullable=False),
    Column("occurred_at", Timestamp, nullable=False),
    Column("received_at", Timestamp, nullable=False),
    UniqueConstraint("event_id", "tenant_id"),
    # The events of one contact, for segments and the contact's page.
    Index("ix_contact_events_of_contact", "tenant_id", "email", "name", "occurred_at"),
    # The latest events of a tenant, and the oldest ones, which retention deletes.
    Index("ix_contact_events_received", "tenant_id", "received_at"),
)

# The IDs that the tenant's own systems use for contacts, so that an event can name one of them instead of an address.
contact_external_ids = Table(
    "contact_external_ids",
    metadata,
    Column("tenant_id", BigInteger, primary_key=True, autoincrement=False),
    Column("external_id", Text, primary_key=True),
    Column("email", ByteOrderedText, nullable=False),
    Index("ix_contact_external_ids_email", "tenant_id", "email"),
)

# The names of a tenant's contact events, and the types of their properties, counted as events are accepted.
contact_event_names = Table(
    "contact_event_names",
    metadata,
    Column("tenant_id", BigInteger, primary_key=True, autoincrement=False),
    Column("name", Text, primary_key=True),
    Column("events", BigInteger, nullable=False),
    Column("first_at", Timestamp, nullable=False),
    Column("last_at", Timestamp, nullable=False),
)

contact_event_properties = Table(
    "contact_event_properties",
    metadata,
    Column("tenant_id", BigInteger, primary_key=True, autoincrement=False),
    Column("name", Text, primary_key=True),
    Column("property", Text, primary_key=True),
    Column("type", Text, primary_key=True),
    Column("events", BigInteger, nullable=False),
    Column("last_at", Timestamp, nullable=False),
)

# Saved filters. A segment always contains the contacts that match now.
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
    # Double opt-in: new subscribers get a confirmation email first, and nothing else until they confirm.
    Column("requires_confirmation", Boolean, nullable=False, server_default=text("false")),
    Column("tracking", Text),
    # When the list was archived; None if it is in use. An archived list keeps its subscriptions but is no longer
    # offered.
    Column("archived_at", Timestamp),
    UniqueConstraint("tenant_id", "list_key"),
)

# Sign-up forms. The id is in public links.
forms = Table(
    "forms",
    metadata,
    key_column(),
    Column("form_id", Text, nullable=False, unique=True),
    Column("tenant_id", BigInteger, nullable=False),
    Column("name", Text, nullable=False),
    Column("list_key", Text, nullable=False),
    Column("content", Text, nullable=False),  # Texts, fields and consents, as JSON.
    Column("version", Integer, nullable=False),  # Of the content.
    Column("created_at", Timestamp, nullable=False),
    Column("updated_at", Timestamp, nullable=False),
    Index("ix_forms_tenant_id", "tenant_id"),
)

# Submitted forms: the wording that people saw, and their answers. They change a contact only when it confirms.
form_submissions = Table(
    "form_submissions",
    metadata,
    key_column(),
    Column("submission_id", Text, nullable=False, unique=True),
    Column("tenant_id", BigInteger, nullable=False),
    Column("contact_key", BigInteger, nullable=False),
    Column("form_id", Text, nullable=False),
    Column("form_version", Integer, nullable=False),
    Column("list_key", Text, nullable=False),
    Column("attributes", Text, nullable=False),  # As JSON.
    Column("consents", Text, nullable=False),  # Wording and answer of each box, as JSON.
    Column("locale", Text, nullable=False),
    Column("source", Text, nullable=False),  # The site or page of the form.
    Column("created_at", Timestamp, nullable=False),
    Column("confirmed_at", Timestamp),
    Index("ix_form_submissions_contact_key", "contact_key"),
    Index("ix_form_submissions_form_id", "tenant_id", "form_id"),
)

_SUBSCRIBED = text("unsubscribed_at IS NULL")
_UNSUBSCRIBED = text("unsubscribed_at IS NOT NULL")

subscriptions = Table(
    "subscriptions",
    metadata,
    key_column(),
    Column("tenant_id", BigInteger, nullable=False),
    Column("contact_key", BigInteger, nullable=False),
    Column("list_key", Text, nullable=False),
    # None for a contact that unsubscribed without ever having subscribed.
    Column("subscribed_at", Timestamp),
    Column("unsubscribed_at", Timestamp),
    Column("source", Text, nullable=False),
    # True until the contact confirms the subscription (double opt-in).
    Column("is_pending", Boolean, nullable=False, server_default=text("false")),
    Column("confirmed_at", Timestamp),
    # The wording of the consent to tracking that the last sign-up form contained, until the contact confirms it.
    Column("requested_consent", Text),
    UniqueConstraint("contact_key", "list_key"),
    # The subscribers of a list, in the order in which they are enqueued.
    partial_index(
        "ix_subscriptions_of_list",
        "tenant_id",
        "list_key",
        "contact_key",
        where=_SUBSCRIBED,
    ),
    # The contacts that left a list, to write that to a table of another program.
    partial_index("ix_subscriptions_left", "tenant_id", "contact_key", where=_UNSUBSCRIBED),
)

_ENROLLED = text("ended_at IS NULL")
_RUN_ENDED = text("ended_at IS NOT NULL")
_RUN_FINISHED = text("end_reason = 'finished'")
_STEP_DUE = text("ended_at IS NULL AND due_at IS NOT NULL")

# Sequences. Users edit the draft; the columns after it belong to the published version.
sequences = Table(
    "sequences",
    metadata,
    key_column(),
    Column("sequence_id", Text, nullable=False, unique=True),
    Column("tenant_id", BigInteger, nullable=False),
    Column("name", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("draft", Text, nullable=False),  # As JSON.
    Column("revision", Integer, nullable=False),
    Column("version", Integer),  # None before the first publication.
    Column("trigger_kind", Text),
    Column("trigger_value", Text),
    Column("reentry_days", Integer),  # None: never; 0: each time.
    Column("list_key", Text),
    # When the conditions of triggers and exits were last compared, and the last day of a date trigger that was handled.
    Column("compared_at", Timestamp),
    Column("last_day", Text),
    Column("events_after", BigInteger),  # The last contact event that was read; None if the version needs none.
    Column("next_entry_at", Timestamp),  # When the schedule of the trigger is due next.
    Column("created_at", Timestamp, nullable=False),
    Column("updated_at", Timestamp, nullable=False),
    Index("ix_sequences_tenant_id_id", "tenant_id", "id"),
    Index("ix_sequences_trigger", "tenant_id", "trigger_kind", "trigger_value"),
)

sequence_versions = Table(
    "sequence_versions",
    metadata,
    key_column(),
    Column("sequence_key", BigInteger, nullable=False),
    Column("version", Integer, nullable=False),
    Column("document", Text, nullable=False),  # As JSON.
    Column("published_at", Timestamp, nullable=False),
    Column("published_by", Text, nullable=False),
    UniqueConstraint("sequence_key", "version"),
)

# One row for each person and run of a sequence.
sequence_enrolments = Table(
    "sequence_enrolments",
    metadata,
    key_column(),
    Column("tenant_id", BigInteger, nullable=False),
    Column("sequence_key", BigInteger, nullable=False),
    Column("contact_key", BigInteger, nullable=False),
    Column("run", Integer, nullable=False),
    Column("entered_at", Timestamp, nullable=False),
    Column("entered_because", Text, nullable=False),
    Column("node", Text),  # None at the start.
    Column("visit", Integer, nullable=False, server_default=text("0")),  # How many steps were recorded.
    Column("waits_since", Timestamp),  # None unless the person waits at the node.
    Column("due_at", Timestamp),  # None if the run waits for an event without a time limit.
    Column("skips_email", Boolean, nullable=False, server_default=text("false")),
    # The emails that the run skips, as JSON: the person already received them before a new version moved their steps.
    Column("received_steps", Text),
    Column("failure", Text),
    Column("ended_at", Timestamp),
    Column("end_reason", Text),
    # The contact event or the feed item that started the run.
    Column("event_key", BigInteger),
    Column("item_key", BigInteger),
    # Only later contact events are exits and goals: keys order events reliably, unlike times and delayed workers.
    Column("events_after", BigInteger, nullable=False),
    # A person is in a sequence at most once at the same time.
    partial_index("uq_sequence_enrolments_running", "sequence_key", "contact_key", unique=True, where=_ENROLLED),
    partial_index("ix_sequence_enrolments_due", "sequence_key", "due_at", where=_STEP_DUE),
    Index("ix_sequence_enrolments_contact_key", "contact_key", "sequence_key"),
    Index("ix_sequence_enrolments_sequence_key_id", "sequence_key", "id"),
    partial_index("ix_sequence_enrolments_ended_at", "ended_at", where=_RUN_ENDED),
    # Finished runs that can still reach the goal.
    partial_index("ix_sequence_enrolments_finished", "sequence_key", "ended_at", where=_RUN_FINISHED),
)

# The steps that happened. The unique constraint makes a step happen once.
sequence_steps = Table(
    "sequence_steps",
    metadata,
    key_column(),
    Column("enrolment_key", BigInteger, nullable=False),
    Column("visit", Integer, nullable=False),
    Column("version", Integer, nullable=False),
    Column("node", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("at", Timestamp, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("outbox_id", Text),
    UniqueConstraint("enrolment_key", "visit"),
)

# The contacts who matched the trigger of a sequence at its last comparison.
sequence_members = Table(
    "sequence_members",
    metadata,
    Column("sequence_key", Key, primary_key=True, autoincrement=False),
    Column("contact_key", Key, primary_key=True, autoincrement=False),
)

# Feeds that sequences and recurring campaigns follow.
followed_feeds = Table(
    "followed_feeds",
    metadata,
    key_column(),
    Column("tenant_id", BigInteger, nullable=False),
    Column("owner_kind", Text, nullable=False),
    Column("owner_key", BigInteger, nullable=False),
    Column("url", Text, nullable=False),
    Column("due_at", Timestamp, nullable=False),
    Column("read_at", Timestamp),  # When it was last read successfully; None before the first time.
    Column("error", Text),  # Why the last attempt failed.
    Column("newest", Text),  # Its newest items when it was last read, as JSON.
    Column("validators", Text),  # ETag and Last-Modified of the last response, as JSON.
    UniqueConstraint("owner_kind", "owner_key"),
    Index("ix_followed_feeds_due_at", "due_at"),
)

# Items that appeared in a feed after it was followed.
feed_items = Table(
    "feed_items",
    metadata,
    key_column(),
    Column("feed_key", BigInteger, nullable=False),
    Column("content", Text, nullable=False),  # As JSON.
    Column("found_at", Timestamp, nullable=False),
    Column("used_at", Timestamp),
    Index("ix_feed_items_feed_key_id", "feed_key", "id"),
)

# Digests of the ID, the link and the content of items, by which known items are recognised.
feed_item_marks = Table(
    "feed_item_marks",
    metadata,
    Column("feed_key", Key, primary_key=True, autoincrement=False),
    Column("mark", Text, primary_key=True),
    Column("seen_at", Timestamp, nullable=False),
)

# Deleted lists and their subscriptions, which can be restored for some time. They are moved here, so that no query
# about lists or audiences can find them.
deleted_lists = Table(
    "deleted_lists",
    metadata,
    key_column(),
    Column("tenant_id", BigInteger, nullable=False),
    Column("list_key", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("description", Text),
    Column("is_public", Boolean, nullable=False),
    Column("created_at", Timestamp, nullable=False),
    Column("requires_confirmation", Boolean, nullable=False),
    Column("tracking", Text),
    Column("archived_at", Timestamp),
    Column("deleted_at", Timestamp, nullable=False),
    Column("deleted_by", Text, nullable=False),
    UniqueConstraint("tenant_id", "list_key"),
)

deleted_subscriptions = Table(
    "deleted_subscriptions",
    metadata,
    Column("deleted_list", Key, primary_key=True, autoincrement=False),
    Column("contact_key", Key, primary_key=True, autoincrement=False),
    Column("subscribed_at", Timestamp),
    Column("source", Text, nullable=False),
    Column("is_pending", Boolean, nullable=False),
    Column("confirmed_at", Timestamp),
    Column("requested_consent", Text),
    Index("ix_deleted_subscriptions_contact_key", "contact_key"),
)

# Imports of contact files. Each batch updates `records` and the counts in its transaction.
imports = Table(
    "imports",
    metadata,
    key_column(),
    Column("import_id", Text, nullable=False, unique=True),
    Column("tenant_id", BigInteger, nullable=False),
    Column("file_name", Text, nullable=False),
    Column("fingerprint", Text, nullable=False),  # A hash of the file's size and beginning.
    Column("size_bytes", BigInteger, nullable=False),
    Column("plan", Text, nullable=False),  # Import options, as JSON.
    Column("records", BigInteger, nullable=False),  # Processed so far, without the header.
    Column("read_bytes", BigInteger, nullable=False),
    Column("report_bytes", BigInteger, nullable=False),
    Column("added", BigInteger, nullable=False),
    Column("changed", BigInteger, nullable=False),
    Column("unchanged", BigInteger, nullable=False),
    Column("refused", BigInteger, nullable=False),
    # Contacts whom the import subscribed or asked for a confirmation, and the answers of its rows to the newsletter.
    Column("subscribed", BigInteger, nullable=False, server_default=text("0")),
    Column("asked", BigInteger, nullable=False, server_default=text("0")),
    Column("said_no", BigInteger, nullable=False, server_default=text("0")),
    Column("unanswered", BigInteger, nullable=False, server_default=text("0")),
    Column("unreadable", BigInteger, nullable=False, server_default=text("0")),
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
    Column("email", ByteOrderedText, nullable=False),
    Column("reason", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("created_at", Timestamp, nullable=False),
    # The scope: `*` suppresses all messages, `general` all bulk messages, and a list key the messages of that list.
    Column("list_key", Text, nullable=False, server_default=text("'*'")),
    UniqueConstraint("tenant_id", "email", "list_key"),
)

# Erasures that are not finished, because a message to the contact has no result yet.
erasures = Table(
    "erasures",
    metadata,
    key_column(),
    Column("tenant_id", BigInteger, nullable=False),
    Column("email", ByteOrderedText, nullable=False),
    Column("requested_by", Text, nullable=False),
    Column("requested_at", Timestamp, nullable=False),
    Column("waits_for", Text),  # The outbox ID of the message; null until one is found.
    Column("expected_at", Timestamp),  # When the message has a result or is closed, at the latest.
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
    Column("created_at", Timestamp, nullable=False),
    # `""` is the default for contacts without a version in their locale. Versions are numbered across locales.
    Column("locale", Text, nullable=False, server_default=text("''")),
    # The format of the source text, and the source text if the HTML was rendered from it.
    Column("format", Text, nullable=False, server_default=text("'html'")),
    Column("source", Text),
    Column("variables", Text, nullable=False, server_default=text("'[]'")),  # As JSON.
    # The keys of the segments whose members see other content, as JSON, so that accepting reads no HTML.
    Column("segments", Text, nullable=False, server_default=text("'[]'")),
    Column("brand", Text),  # The brand kit that the HTML of a design was made with, as JSON.
    # Set on every version of a template that a user archived or deleted. Messages still use their versions.
    Column("archived_at", Timestamp),
    Column("deleted_at", Timestamp),
    UniqueConstraint("tenant_id", "template_id", "version"),
)

# Drafts that the composer saved. The row stays after the draft is published, because its revision must never go back:
# a browser with an old revision would otherwise overwrite a newer draft.
template_drafts = Table(
    "template_drafts",
    metadata,
    key_column(),
    Column("tenant_id", BigInteger, nullable=False),
    Column("template_id", Text, nullable=False),
    Column("locale", Text, nullable=False, server_default=text("''")),
    Column("revision", Integer, nullable=False),
    Column("base_version", Integer, nullable=False),
    Column("subject", Text, nullable=False),
    Column("document", Text),  # As JSON; NULL after the draft was published or discarded.
    Column("saved_by", Text, nullable=False),
    Column("saved_at", Timestamp, nullable=False),
    UniqueConstraint("tenant_id", "template_id", "locale"),
)

# Open composers, so that two people who edit the same draft know of each other.
template_editors = Table(
    "template_editors",
    metadata,
    key_column(),
    Column("tenant_id", BigInteger, nullable=False),
    Column("template_id", Text, nullable=False),
    Column("locale", Text, nullable=False, server_default=text("''")),
    Column("editor", Text, nullable=False),  # A random name of the browser tab.
    Column("login", Text, nullable=False),
    Column("seen_at", Timestamp, nullable=False),
    UniqueConstraint("tenant_id", "template_id", "locale", "editor"),
)

# Images by the names that templates use. A file's name is derived from its content, so a file never changes.
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
    Column("width", Integer, nullable=False),
    Column("height", Integer, nullable=False),
    Column("alt", Text, nullable=False, server_default=text("''")),
    # The image can be restored for 30 days; then its row and its file are deleted.
    Column("deleted_at", Timestamp),
    UniqueConstraint("tenant_id", "name"),
)

# Files that all machines need, in parts: images, uploaded files and import reports of installations on PostgreSQL.
stored_files = Table(
    "stored_files",
    metadata,
    Column("name", Text, primary_key=True),
    Column("position", BigInteger, primary_key=True, autoincrement=False),  # of the part's first byte
    Column("content", LargeBinary, nullable=False),
    Column("stored_at", Timestamp, nullable=False),
)

# Emails that applications composed themselves: the bytes as sent, stored once for all recipients. `digest` is the key
# of `RawContent`: the SHA-256, and in front of it the time if the email is small.
raw_contents = Table(
    "raw_contents",
    metadata,
    key_column(),
    Column("tenant_id", BigInteger, nullable=False),
    Column("digest", Text, nullable=False),
    Column("created_at", Timestamp, nullable=False),
    Column("content", LargeBinary, nullable=False),
    UniqueConstraint("tenant_id", "digest"),
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
    Column("to_email", ByteOrderedText, nullable=False),
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
    # None for transactional messages; `general` for bulk messages without a list.
    Column("list_key", Text),
    Column("campaign_key", BigInteger),
    # The key of the email's bytes in `raw_contents`; None if Mailwright builds the email from the payload.
    Column("content_digest", Text),
    partial_index(
        "ix_messages_content_digest",
        "tenant_id",
        "content_digest",
        where=text("content_digest IS NOT NULL"),
    ),
    partial_index(
        "uq_messages_tenant_id_dedupe_key",
        "tenant_id",
        "dedupe_key",
        unique=True,
        where=text("dedupe_key IS NOT NULL"),
    ),
    Index("ix_messages_tenant_id_to_email", "tenant_id", "to_email", "id"),
    Index("ix_messages_tenant_id_id", "tenant_id", "id"),
    # A campaign sends one message per address.
    partial_index(
        "uq_messages_campaign_key_to_email",
        "campaign_key",
        "to_email",
        unique=True,
        where=_OF_CAMPAIGN,
    ),
    # An article run also sends one message per address. The run's ID is the request ID of its messages.
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
_FAILED = text("status = 'FAILED'")
_BOUNCED = text("bounced_at IS NOT NULL")
_DEFERRED = text("deferred_since IS NOT NULL AND status = 'RETRY_SCHEDULED'")
_REPORTED = text("provider NOT IN ('mailbox', 'smtp', 'smtpbz')")

deliveries = Table(
    "deliveries",
    metadata,
    Column("message_key", Key, primary_key=True, autoincrement=False),
    Column("tenant_id", BigInteger, nullable=False),
    # One number for tenant, priority and campaign: see domain/lanes.py.
    Column("lane", BigInteger, nullable=False),
    Column("status", Text, nullable=False),
    # When a worker may claim the message: its due time, the end of its lease, or the time to resolve it if in doubt.
    Column("claimable_at", Timestamp, nullable=False),
    Column("next_attempt_at", Timestamp),
    Column("defer_reason", Text),
    # Completed calls of a provider, and how many of them do not count towards the maximum of the retry policy.
    Column("attempts", Integer, nullable=False),
    Column("excused_attempts", Integer, nullable=False, server_default=text("0")),
    Column("claims", SmallInteger, nullable=False),
    Column("resends", SmallInteger, nullable=False),
    # Deferrals by the receiving server or an outage: their number, the time of the first, and when the message expires.
    Column("deferrals", Integer, nullable=False, server_default=text("0")),
    Column("deferred_since", Timestamp),
    Column("retry_until", Timestamp),
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
    # When a bounce of the accepted message was first reported.
    Column("bounced_at", Timestamp),
    # The subject as it was rendered; None if it is that of the message, or the message was never attempted.
    Column("subject", Text),
    # Identifies the transaction that wrote the last attempt or result, for statements that join on it.
    Column("settlement", BigInteger),
    Column("permits", Text),  # The counters with permits of a claimed message, to return them if its worker is lost.
    # A claim moves a message from the first index to the second, beginning an attempt changes neither index, and a
    # result removes the message from the second. A delivered message costs no other index maintenance.
    partial_index(
        "ix_deliveries_waiting",
        "lane",
        "claimable_at",
        "message_key",
        where=_WAITING,
    ),
    partial_index("ix_deliveries_leased", "claimable_at", where=_LOCKED),
    partial_index("ix_deliveries_delayed", "tenant_id", "deferred_since", where=_DEFERRED),
    partial_index("ix_deliveries_in_doubt", "claimable_at", where=_IN_DOUBT),
    # States that people search for and few messages reach: successful messages never touch this index.
    partial_index("ix_deliveries_rare", "tenant_id", "status", "message_key", where=_RARE),
    partial_index("ix_deliveries_failed", "tenant_id", "failed_at", where=_FAILED),
    # The same states by campaign. Every other finished message of a lane was sent and needs no index.
    partial_index("ix_deliveries_rare_of_lane", "lane", "status", where=_RARE),
    # Messages that were sent and bounced later, by campaign and by tenant.
    partial_index("ix_deliveries_bounced_of_lane", "lane", where=_BOUNCED),
    partial_index("ix_deliveries_bounced", "tenant_id", "message_key", where=_BOUNCED),
    # All other providers, including named ones, report with their own message ID.
    partial_index(
        "ix_deliveries_provider_message_id",
        "provider_message_id",
        where=_REPORTED,
    ),
)

# Matches the index of waiting messages. SQLite uses a partial index only for a condition with the same literal values.
IS_WAITING = text("deliveries.locked_by IS NULL AND deliveries.status IN ('PENDING', 'RETRY_SCHEDULED')")

# Not `IN`, which SQLite evaluates ten times as slowly for every event that is written.
_RESPONSES = text("type = 'open' OR type = 'click' OR type = 'bounce' OR type = 'complaint' OR type = 'unsubscribe'")

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
    # Responses of recipients. They are few, so that a report reads them without the other events.
    partial_index("ix_events_responses", "message_key", where=_RESPONSES),
)

_SOFT = text("verdict = 'soft_bounce'")

# Provider reports about messages and addresses. A report that arrives several times is stored once.
reports = Table(
    "reports",
    metadata,
    key_column(),
    Column("tenant_id", BigInteger, nullable=False),
    Column("key", Text, nullable=False),
    Column("message_key", BigInteger),
    Column("email", ByteOrderedText),
    Column("type", Text, nullable=False),
    Column("verdict", Text, nullable=False),
    Column("at", Timestamp, nullable=False),
    Column("received_at", Timestamp, nullable=False),
    # Whether the report contains the message ID, which proves that the provider had the message.
    Column("is_proof", Boolean, nullable=False),
    UniqueConstraint("tenant_id", "key"),
    Index("ix_reports_message_key", "message_key"),
    Index("ix_reports_received_at", "received_at"),
    # Soft bounces are counted per address.
    partial_index("ix_reports_soft", "tenant_id", "email", "at", where=_SOFT),
)

message_dead_letters = Table(
    "message_dead_letters",
    metadata,
    Column("message_key", Key, primary_key=True, autoincrement=False),
    Column("tenant_id", BigInteger, nullable=False),
    Column("code", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("created_at", Timestamp, nullable=False),
    Index("ix_message_dead_letters_tenant_id_created_at", "tenant_id", "created_at"),
)

# The number of messages that each transaction accepted, counted independently for the audit. Old rows are merged.
accepted_counts = Table(
    "accepted_counts",
    metadata,
    key_column(),
    Column("tenant_id", BigInteger, nullable=False),
    Column("source", Text, nullable=False),
    Column("accepted", BigInteger, nullable=False),
    Column("created_at", Timestamp, nullable=False),
)

# Deferred lanes: no worker claims from them before `deferred_until`.
lane_deferrals = Table(
    "lane_deferrals",
    metadata,
    Column("lane", BigInteger, primary_key=True, autoincrement=False),
    Column("defer_reason", Text, nullable=False),
    Column("deferred_until", Timestamp, nullable=False),
)

# When bulk messages of tenants with a frequency cap began their attempts, by recipient. Whether one counts depends on
# its delivery: a message that was rejected does not.
bulk_sends = Table(
    "bulk_sends",
    metadata,
    Column("tenant_id", BigInteger, primary_key=True, autoincrement=False),
    Column("email", ByteOrderedText, primary_key=True),
    Column("message_key", BigInteger, primary_key=True, autoincrement=False),
    Column("sent_at", Timestamp, nullable=False),
    Index("ix_bulk_sends_sent_at", "sent_at"),
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
    Column("defer_reason", Text),  # Whether the provider is unavailable or throttles. Null while it is available.
    Column(
        "per_second", Double, nullable=False, server_default=text("0")
    ),  # Messages per second since the last report.
    Column("learned_rate", Double),  # Messages per second that a throttling provider accepts; otherwise null.
    Column("clock_skew", BigInteger),  # Milliseconds that its clock is behind the server's; null on SQLite.
    Column("settings_version", Text),  # The stored settings that the worker uses.
)

# Values that the installation generated: for example the secret of its unsubscribe links, its URL and tally cursors.
installation = Table(
    "installation",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
)

# Settings that administrators change in the dashboard. Secret values are encrypted.
stored_settings = Table(
    "stored_settings",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
    Column("updated_at", Timestamp, nullable=False),
    Column("updated_by", Text, nullable=False),
)

# Named providers with their own credentials and limits, in addition to the provider of the installation.
provider_configurations = Table(
    "provider_configurations",
    metadata,
    key_column(),
    Column("name", Text, nullable=False, unique=True),
    Column("kind", Text, nullable=False),
    Column("settings", Text, nullable=False),  # The settings by name as JSON, encrypted.
    # A random number of the server and account. It changes with them, and attempts begin only with the current one.
    Column("account", BigInteger, nullable=False),
    Column("created_at", Timestamp, nullable=False),
    Column("updated_at", Timestamp, nullable=False),
    Column("updated_by", Text, nullable=False),
)

# The provider that sends the messages of a tenant. Messages without a route go through the provider of the
# installation.
provider_routes = Table(
    "provider_routes",
    metadata,
    Column("tenant_id", BigInteger, primary_key=True, autoincrement=False),
    Column("source", Text, primary_key=True),  # `all`: every source without its own route.
    Column("provider", Text, nullable=False),  # `installation`: the provider of the installation.
    Column("updated_at", Timestamp, nullable=False),
    Column("updated_by", Text, nullable=False),
)

# Report sources: systems that report what happened to messages, for example your own mail server.
report_sources = Table(
    "report_sources",
    metadata,
    key_column(),
    Column("name", Text, nullable=False, unique=True),
    Column("tenant_id", BigInteger),  # None: it may report about the messages of all tenants.
    Column("provider", Text),  # None: it may report about messages of all providers, but not by provider ID.
    Column("secret", Text, nullable=False),  # Encrypted.
    Column("created_at", Timestamp, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("last_used_at", Timestamp),
)

_IS_VERIFIED = text("verified_at IS NOT NULL")

# The domains that tenants send from. Several tenants may add a domain; one of them can verify it.
sender_domains = Table(
    "sender_domains",
    metadata,
    key_column(),
    Column("tenant_id", BigInteger, nullable=False),
    Column("domain", Text, nullable=False),  # In ASCII lower case.
    Column("sender", Text, nullable=False),  # The tenant's default From address.
    Column("keys", Text, nullable=False),  # The DKIM keys with their dates, as JSON. Private keys are encrypted.
    Column("verified_at", Timestamp),
    Column("checked_at", Timestamp),
    Column("results", Text, nullable=False),  # What the last check found for each DNS record, as JSON.
    Column("return_path", Text),  # The domain of the envelope sender, if its records were visible.
    Column("created_at", Timestamp, nullable=False),
    Column("updated_at", Timestamp, nullable=False),
    UniqueConstraint("tenant_id", "domain"),
    partial_index("ix_sender_domains_verified", "domain", where=_IS_VERIFIED, unique=True),
)

# Signatures of inbound webhooks that do not cover the body, until they are too old to be accepted.
used_signatures = Table(
    "used_signatures",
    metadata,
    Column("signature", Text, primary_key=True),
    Column("body", Text, nullable=False),  # The digest of the body that came with it first.
    Column("ends_at", Timestamp, nullable=False),
    Index("ix_used_signatures_ends_at", "ends_at"),
)

# DMARC aggregate reports about the domains of tenants. A report is stored once for each domain that it is about.
dmarc_reports = Table(
    "dmarc_reports",
    metadata,
    key_column(),
    Column("tenant_id", BigInteger, nullable=False),
    Column("domain", Text, nullable=False),  # The sender domain of the tenant.
    Column("policy_domain", Text, nullable=False),  # The domain whose DMARC record applied.
    Column("reporter", Text, nullable=False),
    Column("report_id", Text, nullable=False),
    Column("begins_at", Timestamp, nullable=False),
    Column("ends_at", Timestamp, nullable=False),
    Column("policy", Text, nullable=False),
    Column("is_partial", Boolean, nullable=False),  # Whether the policy applied to some of the messages only.
    Column("messages", BigInteger, nullable=False),
    Column("aligned", BigInteger, nullable=False),
    Column("skipped_rows", Integer, nullable=False),
    # How many messages Mailwright sent to the reporter's domains in the interval; None if that cannot be compared.
    Column("sent", BigInteger),
    Column("not_compared", Text),  # Why not: see outbox/dmarc_reports.py.
    Column("received_at", Timestamp, nullable=False),
    UniqueConstraint("tenant_id", "domain", "reporter", "report_id"),
    Index("ix_dmarc_reports_time", "tenant_id", "domain", "ends_at"),
)

# The rows of these reports: messages from one source with the same results.
dmarc_sources = Table(
    "dmarc_sources",
    metadata,
    key_column(),
    Column("report_key", BigInteger, nullable=False),
    Column("source_ip", Text, nullable=False),
    Column("header_from", Text, nullable=False),
    Column("disposition", Text, nullable=False),
    Column("dkim", Boolean, nullable=False),  # Passed and aligned.
    Column("spf", Boolean, nullable=False),
    # Whether keys of the domain in Mailwright signed the messages; None if the report does not name selectors.
    Column("is_signed", Boolean),
    Column("results", Text, nullable=False),  # The results of DKIM and SPF, for people.
    Column("messages", BigInteger, nullable=False),
    Index("ix_dmarc_sources_report_key", "report_key"),
)

# Refused reports from the mailbox. Reports without a tenant are about a domain that no tenant has.
dmarc_refusals = Table(
    "dmarc_refusals",
    metadata,
    key_column(),
    Column("tenant_id", BigInteger),
    Column("domain", Text, nullable=False),
    Column("reporter", Text, nullable=False),
    Column("name", Text, nullable=False),  # Of the file.
    Column("reason", Text, nullable=False),
    Column("received_at", Timestamp, nullable=False),
    Index("ix_dmarc_refusals_tenant_id", "tenant_id", "id"),
)

_IS_RESEND = text("resend_of IS NOT NULL AND (status <> 'CANCELLED' OR started_at IS NOT NULL)")

# Campaigns. The content is frozen at the start: `queue_entries` holds the template versions.
campaigns = Table(
    "campaigns",
    metadata,
    key_column(),
    Column("campaign_id", Text, nullable=False, unique=True),
    Column("tenant_id", BigInteger, nullable=False),
    Column("name", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("definition", Text, nullable=False),  # Content, audience, sender and limits, as JSON.
    Column("scheduled_at", Timestamp),
    Column("created_at", Timestamp, nullable=False),
    Column("updated_at", Timestamp, nullable=False),
    Column("started_at", Timestamp),
    Column("finished_at", Timestamp),
    # When it was published in the public archive; None if it is not public.
    Column("published_at", Timestamp),
    # The newest message key when the campaign started: its messages have larger keys.
    Column("messages_after_key", BigInteger, nullable=False, server_default=text("0")),
    # The key of the campaign that this one sends again to those who did not open it.
    Column("resend_of", BigInteger),
    # When a user hid it from the list of campaigns.
    Column("archived_at", Timestamp),
    # When a user deleted it. It can be restored. Only campaigns that never started are deleted.
    Column("deleted_at", Timestamp),
    Column("changed_by", Text),  # Who last changed its content, audience or send time, as in the audit log.
    Column("repeat_of", Text),  # The ID of the draft whose schedule created it.
    Index("ix_campaigns_tenant_id_id", "tenant_id", "id"),
    # A campaign is sent again at most once. A draft that was cancelled before its start does not count.
    partial_index("uq_campaigns_resend_of", "resend_of", where=_IS_RESEND, unique=True),
)

# Recurring drafts: at each time of the schedule, a campaign is created from the draft and started.
campaign_repeats = Table(
    "campaign_repeats",
    metadata,
    key_column(),
    Column("tenant_id", BigInteger, nullable=False),
    Column("campaign_key", BigInteger, nullable=False, unique=True),
    Column("schedule", Text, nullable=False),  # As JSON.
    Column("feed", Text),  # The feed whose new items the campaign contains.
    Column("digest", Text, nullable=False),  # Of the draft when its schedule was set; a changed draft is not sent.
    Column("next_at", Timestamp, nullable=False),
    Column("starting_key", BigInteger),  # A campaign that was made and is not started yet.
    Column("starting_digest", Text),  # The digest of that campaign's content. It does not start with other content.
    Column("last_at", Timestamp),
    Column("last_campaign_key", BigInteger),
    Column("last_result", Text),
    Column("failed_at", Timestamp),  # Since when its emails are not sent although they are due.
    Column("paused_at", Timestamp),
    Column("updated_at", Timestamp, nullable=False),
    Index("ix_campaign_repeats_next_at", "next_at"),
)

# The files that every message of a campaign carries. A row never changes; a draft adds and removes rows.
campaign_attachments = Table(
    "campaign_attachments",
    metadata,
    key_column(),
    Column("attachment_id", Text, nullable=False, unique=True),
    Column("tenant_id", BigInteger, nullable=False),
    Column("campaign_key", BigInteger, nullable=False),
    Column("filename", Text, nullable=False),
    Column("content_type", Text, nullable=False),
    Column("content_id", Text),
    Column("size_bytes", Integer, nullable=False),
    Column("created_at", Timestamp, nullable=False),
    Column("content", LargeBinary, nullable=False),
    Index("ix_campaign_attachments_campaign_key_id", "campaign_key", "id"),
)

_UNFINISHED = text("completed_at IS NULL")

# Started campaigns in the order of the queue. The lane is derived from the ID; its deferral is in `lane_deferrals`.
queue_entries = Table(
    "queue_entries",
    metadata,
    key_column(),
    Column("campaign_key", BigInteger, nullable=False, unique=True),
    Column("tenant_id", BigInteger, nullable=False),
    Column("lane", BigInteger, nullable=False),
    Column("position", BigInteger),  # The position in the queue if a user moved the entry; otherwise its ID.
    Column("content", Text, nullable=False),  # The frozen template versions, as JSON.
    Column("limits", Text, nullable=False),  # As JSON.
    Column("planned", Integer, nullable=False),  # Size of the audience at the start.
    Column("processed", Integer, nullable=False),  # Members of the audience processed so far.
    Column("recipients", Integer, nullable=False),  # Messages accepted so far.
    Column("enqueued_to", Text, nullable=False),  # The last address that was processed.
    Column("enqueue_ended_at", Timestamp),
    Column("created_at", Timestamp, nullable=False),
    Column("completed_at", Timestamp),
    # The state of the queue: see outbox/queue_states.py, which alone writes these four columns.
    Column("status", Text, nullable=False, server_default="PENDING"),
    Column("defer_reason", Text),
    Column("deferred_until", Timestamp),
    Column("expected_at", Timestamp),  # When the forecast expects its next message, if it is not being sent.
    Column("announced", Text),  # The last state that webhooks were notified of: see sources/campaigns/announce.py.
    Column("guard", Text),  # What the guard rails have found, as JSON.
    Column("wave", Integer),  # The number of the open wave, from 1, while later waves follow.
    Column("digests", Text),  # At the start, see sources/campaigns/review.py; None for other sources.
    partial_index("ix_queue_entries_open", "tenant_id", "id", where=_UNFINISHED),
)

# Requests for the approval of a campaign by a second person. The newest request of a campaign counts.
campaign_approvals = Table(
    "campaign_approvals",
    metadata,
    key_column(),
    Column("tenant_id", BigInteger, nullable=False),
    Column("campaign_key", BigInteger, nullable=False),
    Column("status", Text, nullable=False),
    Column("digest", Text, nullable=False),  # Of the digests and the number of recipients, which the approver signs.
    Column("digests", Text, nullable=False),  # The digests of the content, by part: see sources/campaigns/review.py.
    Column("recipients", Integer, nullable=False),
    Column("plan", Text, nullable=False),  # As JSON, to show what was changed since.
    Column("requested_by", Text, nullable=False),
    Column("requested_at", Timestamp, nullable=False),
    Column("decided_by", Text),
    Column("decided_at", Timestamp),
    Column("comment", Text),
    Column("voided_at", Timestamp),
    Column("void_reason", Text),
    Column("notified", Text),  # The last status that emails were sent about.
    Index("ix_campaign_approvals_campaign_key", "campaign_key", "id"),
    Index("ix_campaign_approvals_tenant_id_status", "tenant_id", "status"),
)

# Requests for the approval of other sends by a second person: see sources/send_approvals.py.
send_approvals = Table(
    "send_approvals",
    metadata,
    key_column(),
    Column("tenant_id", BigInteger, nullable=False),
    Column("kind", Text, nullable=False),
    Column("subject", Text, nullable=False),  # The same for each attempt of one send.
    Column("name", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("digest", Text, nullable=False),  # Of the content, which the approver signs.
    Column("recipients", Integer, nullable=False),
    Column("content", Text, nullable=False),  # As JSON, as the approver sees it.
    Column("requested_by", Text, nullable=False),
    Column("requested_at", Timestamp, nullable=False),
    Column("decided_by", Text),
    Column("decided_at", Timestamp),
    Column("comment", Text),
    Column("notified", Text),  # The last status that emails were sent about.
    Index("ix_send_approvals_tenant_id_kind_subject", "tenant_id", "kind", "subject"),
    Index("ix_send_approvals_tenant_id_status", "tenant_id", "status"),
)

# Sends that people started within a day without an approval: see sources/campaigns/unapproved_sends.py.
unapproved_sends = Table(
    "unapproved_sends",
    metadata,
    key_column(),
    Column("tenant_id", BigInteger, nullable=False),
    Column("kind", Text, nullable=False),
    Column("subject", Text, nullable=False),  # The same for each attempt of one send.
    Column("people", Text, nullable=False),  # What identifies the person, as a JSON array.
    Column("recipients", Integer, nullable=False),
    Column("at", Timestamp, nullable=False),
    Index("ix_unapproved_sends_tenant_id_at", "tenant_id", "at"),
)

# The messages of campaigns that bounced permanently or were reported as spam, for the guard rails.
campaign_incidents = Table(
    "campaign_incidents",
    metadata,
    Column("campaign_key", BigInteger, primary_key=True, autoincrement=False),
    Column("kind", Text, primary_key=True),
    Column("message_key", BigInteger, primary_key=True, autoincrement=False),
    Column("attempted_at", Timestamp, nullable=False),
)

# The audit log. It is only displayed; no code depends on its entries.
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

# The quotas that providers reported. Providers of one sync share `synced_at`, which identifies the counter of the
# messages sent since that sync.
quotas = Table(
    "quotas",
    metadata,
    Column("provider", Text, primary_key=True),
    Column("remaining", BigInteger),  # None if the provider has no limit.
    Column("limit_per_day", BigInteger),
    Column("left_today", BigInteger),
    Column("limit_per_hour", BigInteger),
    Column("left_this_hour", BigInteger),
    Column("left_in_plan", BigInteger),
    Column("rate_per_second", BigInteger),
    Column("detail", Text, nullable=False),
    Column("synced_at", Timestamp, nullable=False),
    Column("in_flight", BigInteger, nullable=False),  # Messages in flight at the time of the sync.
    Column("previous_sync", Timestamp),
    Column("counted_before", BigInteger, nullable=False),  # Final value of the previous sync's counter.
    # The last failed sync, and its error; None after a successful sync.
    Column("failed_at", Timestamp),
    Column("failure", Text),
    Column("failed_syncs", Integer, nullable=False, server_default=text("0")),  # In a row.
)

# Dashboard users. A user without a tenant has access to all tenants.
users = Table(
    "users",
    metadata,
    key_column(),
    Column("login", Text, nullable=False, unique=True),
    Column("role", Text, nullable=False),
    Column("tenant_id", BigInteger),
    Column("password_hash", Text),  # None: the user signs in with an identity provider only.
    Column("password_changed_at", Timestamp, nullable=False),
    # Stored during the set-up of the second factor, and required once `totp_enabled_at` is set.
    Column("totp_secret", Text),
    Column("totp_enabled_at", Timestamp),
    Column("totp_step", BigInteger, nullable=False),  # Time step of the last accepted code; each code works once.
    Column("created_at", Timestamp, nullable=False),
    Column("seen_at", Timestamp),
    Column("disabled_at", Timestamp),
    # The addresses of the last test email that the user sent.
    Column("test_addresses", Text),
    # Where links to reset the password and notices about sign-ins go; None if the user name is the address, or unknown.
    Column("email", Text),
    Column("language", Text),  # The language of the dashboard; None: the language of the browser.
)

# Single-use links for people: invitations, resets of forgotten passwords and confirmations of addresses.
account_links = Table(
    "account_links",
    metadata,
    key_column(),
    Column("digest", Text, nullable=False, unique=True),
    Column("kind", Text, nullable=False),
    Column("email", Text, nullable=False),
    Column("user_key", BigInteger),  # The user whose password is reset or address confirmed; None for invitations.
    # The role and the tenant of an invited user. Without a tenant, the user belongs to the whole installation.
    Column("role", Text),
    Column("tenant_id", BigInteger),
    # False if the inviter passed the link on. Then nothing proves that the address belongs to the person.
    Column("is_emailed", Boolean, nullable=False, server_default=text("true")),
    Column("created_by", Text, nullable=False),
    Column("created_at", Timestamp, nullable=False),
    Column("ends_at", Timestamp, nullable=False),
    Index("ix_account_links_email", "email"),
)

# Single-use codes that replace a lost second factor.
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
    Column("tenant_id", BigInteger, nullable=False),  # The tenant that the session shows.
    Column("awaits_code", Boolean, nullable=False),  # The password was correct; the second factor is missing.
    # The sign-in itself proved two factors: a passkey, or an identity provider that is trusted with this.
    Column("proved_two_factors", Boolean, nullable=False, server_default=text("false")),
    Column("created_at", Timestamp, nullable=False),
    Column("seen_at", Timestamp, nullable=False),
    Column("ends_at", Timestamp, nullable=False),
    Column("address", Text, nullable=False),
    Column("agent", Text, nullable=False),
    Index("ix_sessions_user_key", "user_key"),
    Index("ix_sessions_ends_at", "ends_at"),
)

# Accounts of identity providers (OpenID Connect) with which users sign in.
identities = Table(
    "identities",
    metadata,
    key_column(),
    Column("issuer", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("user_key", BigInteger, nullable=False),
    Column("email", Text),  # As the provider stated it last, for display.
    # The provider's claims created the user, so they decide on the role and the tenant at every sign-in.
    Column("is_managed", Boolean, nullable=False),
    Column("created_at", Timestamp, nullable=False),
    Column("seen_at", Timestamp),
    UniqueConstraint("issuer", "subject"),
    Index("ix_identities_user_key", "user_key"),
)

# Passkeys (WebAuthn): public keys of devices with which users sign in.
passkeys = Table(
    "passkeys",
    metadata,
    key_column(),
    Column("user_key", BigInteger, nullable=False),
    Column("credential_id", Text, nullable=False, unique=True),
    Column("credential", Text, nullable=False),  # The id and the public key, as the device sent them.
    Column("name", Text, nullable=False),
    # Some devices count their signatures. A count that does not grow reveals a copy of the key.
    Column("sign_count", BigInteger, nullable=False),
    Column("created_at", Timestamp, nullable=False),
    Column("used_at", Timestamp),
    Index("ix_passkeys_user_key", "user_key"),
)

# Challenges of sign-ins that were answered. Each works once; the row is deleted when the challenge has expired.
used_challenges = Table(
    "used_challenges",
    metadata,
    Column("digest", Text, primary_key=True),
    Column("ends_at", Timestamp, nullable=False),
)

# Failed sign-ins, by account and by IP address.
failed_sign_ins = Table(
    "failed_sign_ins",
    metadata,
    Column("subject", Text, primary_key=True),
    Column("failures", Integer, nullable=False),
    Column("last_failed_at", Timestamp, nullable=False),
    Column("blocked_until", Timestamp, nullable=False),
)

# Networks from which an account has signed in. Failed sign-ins from other networks do not block the account on these.
known_networks = Table(
    "known_networks",
    metadata,
    Column("account", Text, primary_key=True),
    Column("network", Text, primary_key=True),
    Column("seen_at", Timestamp, nullable=False),
)

# Events of each type per tenant and minute, for charts.
tallies = Table(
    "tallies",
    metadata,
    Column("tenant_id", BigInteger, primary_key=True, autoincrement=False),
    Column("minute", BigInteger, primary_key=True, autoincrement=False),
    Column("type", Text, primary_key=True),
    Column("events", BigInteger, nullable=False),
    Index("ix_tallies_minute", "minute"),
)

# Outbound webhooks. Secrets are encrypted and not hashed, because each request is signed with them.
webhook_endpoints = Table(
    "webhook_endpoints",
    metadata,
    key_column(),
    Column("webhook_id", Text, nullable=False, unique=True),
    Column("tenant_id", BigInteger, nullable=False),
    Column("url", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("types", Text, nullable=False),  # Event types, as JSON.
    Column("format", Text, nullable=False, server_default="mailwright"),  # See `events/outbound/formats`.
    Column("secrets", Text, nullable=False),  # Newest first, each with its expiry, as JSON.
    Column("is_active", Boolean, nullable=False),
    Column("after_event", BigInteger, nullable=False),  # Only later events are sent.
    Column("paused_at", Timestamp),
    Column("pause_reason", Text),
    Column("failing_since", Timestamp),
    Column("failures", Integer, nullable=False),  # In a row.
    Column("deferred_until", Timestamp, nullable=False),
    Column("created_at", Timestamp, nullable=False),
    Column("updated_at", Timestamp, nullable=False),
    Index("ix_webhook_endpoints_tenant_id", "tenant_id", "id"),
)

_TO_DELIVER = text("status = 'PENDING'")

# Events to send to an endpoint. The body is built from the event when it is sent, so that no personal data is copied
# here.
webhook_deliveries = Table(
    "webhook_deliveries",
    metadata,
    key_column(),
    Column("delivery_id", Text, nullable=False, unique=True),
    Column("endpoint_key", BigInteger, nullable=False),
    Column("tenant_id", BigInteger, nullable=False),
    Column("event_key", BigInteger),  # None for a test delivery.
    Column("event_at", Timestamp, nullable=False),
    Column("message_key", BigInteger),
    Column("type", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("due_at", Timestamp, nullable=False),  # The next attempt, or the end of the current claim.
    Column("claim_token", BigInteger),
    Column("attempts", Integer, nullable=False),
    Column("log", Text, nullable=False),  # The result of each attempt, as JSON.
    Column("created_at", Timestamp, nullable=False),
    Column("ended_at", Timestamp),
    Column("metadata", Text),  # What a step of a sequence sends, as JSON; None for an event.
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

# The position up to which events were read for webhooks: one row.
webhook_cursor = Table(
    "webhook_cursor",
    metadata,
    Column("name", Text, primary_key=True),
    Column("position", BigInteger, nullable=False),
    # The newest event when the cursor last looked, and the transactions that were writing events then, separated by
    # spaces. When they have ended, every event up to `seen` is visible.
    Column("seen", BigInteger, nullable=False),
    Column("writers", Text, nullable=False),
)

# Parts of articles. `scope_ocd_id` selects their recipients. The empty string selects everyone; it is used instead of
# null, so that the unique constraint applies to it.
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
    Column("tags", Text, nullable=False),  # As JSON.
    Column("publish_status", Text, nullable=False),
    Column("publish_at", Timestamp),
    Column("expires_at", Timestamp),
    Column("created_at", Timestamp, nullable=False),
    Column("updated_at", Timestamp, nullable=False),
    UniqueConstraint("tenant_id", "article_key", "section_order", "scope_ocd_id", "sort_index", name="uq_slices_place"),
)

_BEING_WALKED = text("enqueue_ended_at IS NULL")

# Runs of articles. The slices are frozen here, so that an interrupted run continues with the same content.
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
    Column("audience_filter", Text, nullable=False),  # As JSON.
    Column("list_key", Text, nullable=False),
    Column("content", Text, nullable=False),  # The slices, as JSON.
    Column("recipients", Integer, nullable=False),  # Messages accepted so far.
    Column("skipped", Integer, nullable=False),  # Members of the audience for whom there is no slice.
    Column("enqueued_to", Text, nullable=False),  # The last address that was processed.
    Column("started_at", Timestamp, nullable=False),
    Column("enqueue_ended_at", Timestamp),
    Column("failure", Text),  # Why the run stopped.
    # The decision about the large mailbox providers' rules, and the rules that are not met while the run is held.
    Column("sender_rules", Text),
    Column("hold_reason", Text),
    # The newest message key when the run started, as for campaigns.
    Column("messages_after_key", BigInteger, nullable=False, server_default=text("0")),
    Column("max_recipients", Integer),  # The number that was approved or needs no approval; None if there is no limit.
    UniqueConstraint("tenant_id", "campaign_tag", "send_batch_id"),
    Index("ix_campaign_runs_tenant_id_id", "tenant_id", "id"),
    # The views of articles are read by these. Without an index, SQLite reads the messages of all runs.
    Index("ix_campaign_runs_campaign_tag", "campaign_tag"),
    Index("ix_campaign_runs_send_batch_id", "send_batch_id"),
    partial_index("ix_campaign_runs_open", "id", where=_BEING_WALKED),
)

# The variants of a run: one row for each combination of slices.
run_variants = Table(
    "run_variants",
    metadata,
    Column("run_key", BigInteger, primary_key=True, autoincrement=False),
    Column("slices", Text, primary_key=True),  # Slice IDs in the order of the body, as JSON.
    Column("template_key", BigInteger, nullable=False),
    Column("recipients", Integer, nullable=False),
)

# Runs whose recipients come from a table of another program. Nothing is enqueued before the whole table was read.
profile_reads = Table(
    "profile_reads",
    metadata,
    Column("run_key", BigInteger, primary_key=True, autoincrement=False),
    Column("source", Text, nullable=False),  # The table and its server.
    Column("read_to", Text),  # The last address that was read; None before the first and after the last one.
    Column("ended_at", Timestamp),
    Column("rows_read", Integer, nullable=False),
    Column("matched", Integer, nullable=False),  # Different addresses that match the filter.
    Column("refused", Integer, nullable=False),  # Rows that cannot be used, for example without a valid address.
    Column("excluded", Integer, nullable=False),  # Rows with the status unsubscribed or bounced.
    Column("suppressed", Integer, nullable=False),  # Matching addresses that get no bulk email from Mailwright.
    Column("refusals", Text, nullable=False),  # The first refused rows with their reasons, as JSON.
    Column("problem", Text),  # Why the table could not be read at the last attempt.
)

# Recipients that were read for a run and have no message yet. A row is deleted when its message is accepted.
profile_recipients = Table(
    "profile_recipients",
    metadata,
    Column("run_key", BigInteger, primary_key=True, autoincrement=False),
    Column("email", ByteOrderedText, primary_key=True),
    Column("name", Text),
    Column("attributes", Text, nullable=False),  # As JSON.
    Column("is_excluded", Boolean, nullable=False),  # A row of this address has the status unsubscribed or bounced.
)

# Statuses that Mailwright wrote to another program's table.
profile_status_updates = Table(
    "profile_status_updates",
    metadata,
    Column("contact_key", Key, primary_key=True, autoincrement=False),
    Column("status", Text, nullable=False),
    Column("status_at", Timestamp),
    Column("reported_at", Timestamp, nullable=False),
)

# Unsubscribes from single lists that Mailwright wrote to the same table.
profile_list_updates = Table(
    "profile_list_updates",
    metadata,
    Column("contact_key", Key, primary_key=True, autoincrement=False),
    Column("list_key", Text, primary_key=True),
    Column("unsubscribed_at", Timestamp, nullable=False),
    Column("was_removed", Boolean, nullable=False),  # False if no row of the contact was on the list.
)

_UNDONE = text("due_at IS NOT NULL")

# Runs of mailouts (Notion pages that are sent to subscribers), and the results that are not yet reported to Notion.
mailouts = Table(
    "mailouts",
    metadata,
    key_column(),
    Column("mailout_id", Text, nullable=False, unique=True),  # Also the ID of its campaign.
    Column("tenant_id", BigInteger, nullable=False),
    Column("page_id", Text, nullable=False),
    # The page ID if this is the run that sends the page to all recipients; None for tests and until the kind is known.
    Column("sent_page", Text, unique=True),
    Column("actor", Text, nullable=False),
    Column("fingerprint", Text),  # A hash of the page's properties, if polling found the page.
    Column("is_test", Boolean),
    Column("is_local", Boolean, nullable=False, server_default=text("false")),  # Sent only to the local mailbox.
    # A user decided to send although the rules of the large mailbox providers are not met.
    Column("overrides_rules", Boolean, nullable=False, server_default=text("false")),
    Column("subject", Text),
    Column("status", Text, nullable=False),
    Column("template_key", BigInteger),
    Column("campaign_key", BigInteger),
    Column("planned", Integer),
    Column("error_code", Text),
    Column("error_message", Text),
    Column("created_at", Timestamp, nullable=False),
    Column("finished_at", Timestamp),  # When all messages were sent or failed.
    Column("figures", Text, nullable=False, server_default=text("'{}'")),  # As reported to Notion, as JSON.
    Column("reported_at", Timestamp),
    # When it is processed next; None if it is done.
    Column("due_at", Timestamp),
    Column("failures", Integer, nullable=False),  # Failed requests to other systems, in a row.
    Column("leased_by", BigInteger),
    Column("leased_until", Timestamp, nullable=False),
    # Why it waits until `due_at` after a failure.
    Column("delay_code", Text),
    Column("delay_reason", Text),
    partial_index("ix_mailouts_due_at", "due_at", where=_UNDONE),
    Index("ix_mailouts_tenant_id_id", "tenant_id", "id"),
    Index("ix_mailouts_page_id", "page_id"),
)

# Recipients of mailouts that have no message yet. A row is deleted when its message is accepted.
mailout_recipients = Table(
    "mailout_recipients",
    metadata,
    Column("mailout_key", Key, primary_key=True, autoincrement=False),
    Column("email", ByteOrderedText, primary_key=True),
    Column("from_name", Text),
)

_UNWRITTEN = text("written_at IS NULL")

# Errors of mailouts, to be written to Notion.
mailout_errors = Table(
    "mailout_errors",
    metadata,
    key_column(),
    Column("mailout_key", BigInteger, nullable=False),
    Column("key", Text, nullable=False),  # Identifies the error, so that it is stored once even if it occurs again.
    Column("stage", Text, nullable=False),
    Column("code", Text, nullable=False),
    Column("message", Text, nullable=False),
    Column("email", ByteOrderedText),  # Deleted once Notion has it.
    Column("provider", Text),
    Column("retry_count", Integer, nullable=False),
    Column("at", Timestamp, nullable=False),
    Column("is_in_doubt", Boolean, nullable=False),  # Notion may have it, but has not confirmed it.
    Column("written_at", Timestamp),
    UniqueConstraint("mailout_key", "key"),
    partial_index("ix_mailout_errors_unwritten", "mailout_key", "id", where=_UNWRITTEN),
)

# The log entry about each message that was written to `send_logs` in Supabase.
mailout_logs = Table(
    "mailout_logs",
    metadata,
    Column("message_key", Key, primary_key=True, autoincrement=False),
    Column("mailout_key", BigInteger, nullable=False),
    Column("status", Text, nullable=False),
    Column("is_confirmed", Boolean, nullable=False),  # False until Supabase has responded.
    Index("ix_mailout_logs_mailout_key", "mailout_key"),
)

# The status of bounced, unsubscribed and resubscribed contacts that was written to `subscribers` in Supabase.
supabase_status_updates = Table(
    "supabase_status_updates",
    metadata,
    Column("contact_key", Key, primary_key=True, autoincrement=False),
    Column("status", Text, nullable=False),
    Column("status_at", Timestamp),
    Column("reported_at", Timestamp, nullable=False),
)

# Reports from a trusted provider about addresses without a message here. The addresses may be subscribers in Supabase,
# so Mailwright looks each one up there and then deletes the report.
subscriber_reports = Table(
    "subscriber_reports",
    metadata,
    Column("key", Text, primary_key=True),
    Column("email", ByteOrderedText, nullable=False),
    Column("source", Text, nullable=False),
    Column("verdict", Text, nullable=False),
    Column("at", Timestamp, nullable=False),
    Column("bounce_type", Text),
    Column("bounce_subtype", Text),
)

_UNDER_WAY = text("state = 'sending'")

# The message of each row of a notification queue, and how much of its result has been written back to the row.
notification_links = Table(
    "notification_links",
    metadata,
    key_column(),
    Column("tenant_id", BigInteger, nullable=False),
    Column("queue", Text, nullable=False),
    Column("queue_schema", Text),  # Schema of the queue if it is in this database; else None.
    Column("notification_id", BigInteger, nullable=False),
    Column("row_key", Text, nullable=False),  # Identifies the row even if its number is reused.
    Column("generation", Integer, nullable=False),  # Incremented when a finished row is requeued.
    Column("subscription_id", BigInteger, nullable=False),
    Column("outbox_id", Text, nullable=False, unique=True),
    Column("state", Text, nullable=False),  # Sending, waiting for the row's next attempt, or closed.
    Column("locked_by", Text, nullable=False),  # The row's lock during the send; only its holder may write.
    Column("locked_at", Text, nullable=False),
    Column("attempts_before", Integer, nullable=False),  # The row's attempts when it was locked.
    # The attempts of the message that counted when the row was locked. Later ones are added to the row's.
    Column("counted_before", Integer, nullable=False, server_default=text("0")),
    Column("max_attempts", Integer, nullable=False),
    Column("sent_event", Text, nullable=False),  # The event for the row's timeline once the message is sent, as JSON.
    # Attempts that ended in a retry and were already counted for the row, so that none is counted twice.
    Column("completed_attempts", Integer, nullable=False),
    Column("result_at", Timestamp),
    Column("retry_after", BigInteger),  # Milliseconds, as requested by the provider.
    Column("noted", Text),  # The doubt or the outage that the locked row states already.
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

# Events of each type per tenant and hour, for charts that span weeks.
hourly_tallies = Table(
    "hourly_tallies",
    metadata,
    Column("tenant_id", BigInteger, primary_key=True, autoincrement=False),
    Column("hour", BigInteger, primary_key=True, autoincrement=False),
    Column("type", Text, primary_key=True),
    Column("events", BigInteger, nullable=False),
)

# Events of campaigns per minute and per hour.
campaign_tallies = Table(
    "campaign_tallies",
    metadata,
    Column("campaign_key", BigInteger, primary_key=True, autoincrement=False),
    Column("bucket_ms", Integer, primary_key=True, autoincrement=False),  # A minute or an hour.
    Column("begins_at", Timestamp, primary_key=True, autoincrement=False),
    Column("type", Text, primary_key=True),
    Column("events", BigInteger, nullable=False),
    # Messages with their first event of this type. For SENT: messages that are tracked individually.
    Column("unique_messages", BigInteger, nullable=False),
)

# Results of the A/B test variants of each campaign. A variant has a template per locale.
variant_tallies = Table(
    "variant_tallies",
    metadata,
    Column("campaign_key", BigInteger, primary_key=True, autoincrement=False),
    Column("template_key", BigInteger, primary_key=True, autoincrement=False),
    Column("sent", BigInteger, nullable=False),
    Column("opened", BigInteger, nullable=False),  # A click counts as an open.
    Column("clicked", BigInteger, nullable=False),
)

# The targets of tracked links, keyed by their content. Mailwright redirects only to these URLs.
tracked_links = Table(
    "tracked_links",
    metadata,
    Column("link_id", Text, primary_key=True),
    Column("tenant_id", BigInteger, nullable=False),
    Column("url", Text, nullable=False),
    Column("used_at", Timestamp, nullable=False),  # When it was last written into an email, to the day.
    Index("ix_tracked_links_used_at", "used_at"),
)

# Opens and clicks of each campaign by link. Opens have an empty URL. Anonymous opens and clicks belong to no message.
link_tallies = Table(
    "link_tallies",
    metadata,
    Column("campaign_key", BigInteger, primary_key=True, autoincrement=False),
    Column("type", Text, primary_key=True),
    Column("url", Text, primary_key=True),
    Column("events", BigInteger, nullable=False),
    Column("unique_messages", BigInteger, nullable=False),
)

# Retention rules: a tenant's data of one kind is deleted after a number of days. Without a row, nothing is deleted.
retention_rules = Table(
    "retention_rules",
    metadata,
    Column("tenant_id", BigInteger, primary_key=True, autoincrement=False),
    Column("kind", Text, primary_key=True),
    Column("days", Integer, nullable=False),
    Column("exports", Boolean, nullable=False),  # Whether rows are exported before they are deleted.
    Column("position", BigInteger, nullable=False),  # The last message key of the current pass.
    Column("finished_at", Timestamp),  # The end of the last complete pass.
    Column("deleted", BigInteger, nullable=False),  # Rows deleted since the rule was set.
    Column("bytes", BigInteger, nullable=False),
    Column("updated_at", Timestamp, nullable=False),
)

# The number of deleted rows by day. The audit and campaign reports add the messages to those that still exist.
retention_tombstones = Table(
    "retention_tombstones",
    metadata,
    Column("tenant_id", BigInteger, primary_key=True, autoincrement=False),
    Column("kind", Text, primary_key=True),
    Column("day", Timestamp, primary_key=True, autoincrement=False),
    Column("lane", BigInteger, primary_key=True, autoincrement=False),  # 0 unless whole messages were deleted.
    Column("bucket", Text, primary_key=True),  # The result of the messages; empty for other kinds.
    Column("deleted", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("resends", BigInteger, nullable=False),
    Index("ix_retention_tombstones_lane", "lane"),
)

# The recipients of messages that retention deleted, so that a late complaint or bounce still reaches its contact.
deleted_messages = Table(
    "deleted_messages",
    metadata,
    Column("outbox_id", Text, primary_key=True),
    Column("to_email", ByteOrderedText, primary_key=True),
    Column("tenant_id", BigInteger, nullable=False),
    Column("is_copy", Integer, nullable=False),  # 1 for a recipient in Cc or Bcc, who is stored with the body.
    Column("provider", Text),
    Column("created_at", Timestamp, nullable=False),
    Column("deleted_at", Timestamp, nullable=False),
    Index("ix_deleted_messages_to_email", "to_email"),
    Index("ix_deleted_messages_deleted_at", "deleted_at"),
)

# Files with exported rows. Bytes after `bytes` come from a batch that was not committed, and are overwritten.
retention_exports = Table(
    "retention_exports",
    metadata,
    Column("file", Text, primary_key=True),
    Column("tenant_id", BigInteger, nullable=False),
    Column("kind", Text, nullable=False),
    Column("host", Text, nullable=False),  # The machine that has the file.
    Column("bytes", BigInteger, nullable=False),
    Column("exported", BigInteger, nullable=False),
    Column("created_at", Timestamp, nullable=False),
    Column("updated_at", Timestamp, nullable=False),
    Column("replaced_at", Timestamp),  # When Parquet files replaced the file.
    Index("ix_retention_exports_of_rule", "tenant_id", "kind", "created_at"),
)
