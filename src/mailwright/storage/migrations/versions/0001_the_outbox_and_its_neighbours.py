"""The outbox and its neighbours."""

import time

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "api_keys",
        sa.Column(
            "id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), sa.Identity(always=False), nullable=False
        ),
        sa.Column("tenant_id", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("hint", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("revoked_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_keys")),
        sa.UniqueConstraint("digest", name=op.f("uq_api_keys_digest")),
    )
    op.create_table(
        "contacts",
        sa.Column(
            "id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), sa.Identity(always=False), nullable=False
        ),
        sa.Column("contact_id", sa.Text(), nullable=False),
        sa.Column("tenant_id", sa.BigInteger(), nullable=False),
        sa.Column("email", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("status", sa.Text(), server_default=sa.text("'active'"), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("deleted_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_contacts")),
        sa.UniqueConstraint("contact_id", name=op.f("uq_contacts_contact_id")),
        sa.UniqueConstraint("tenant_id", "email", name=op.f("uq_contacts_tenant_id_email")),
    )
    op.create_table(
        "counters",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("used", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_counters")),
    )
    op.create_table(
        "dead_letters",
        sa.Column(
            "message_key", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False
        ),
        sa.Column("tenant_id", sa.BigInteger(), nullable=False),
        sa.Column("code", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("attempts", sa.SmallInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("message_key", name=op.f("pk_dead_letters")),
    )
    with op.batch_alter_table("dead_letters", schema=None) as batch_op:
        batch_op.create_index("ix_dead_letters_tenant_id_created_at", ["tenant_id", "created_at"], unique=False)

    op.create_table(
        "deliveries",
        sa.Column(
            "message_key", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False
        ),
        sa.Column("tenant_id", sa.BigInteger(), nullable=False),
        sa.Column("lane", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("claimable_at", sa.BigInteger(), nullable=False),
        sa.Column("next_attempt_at", sa.BigInteger(), nullable=True),
        sa.Column("defer_reason", sa.Text(), nullable=True),
        sa.Column("attempts", sa.SmallInteger(), nullable=False),
        sa.Column("claims", sa.SmallInteger(), nullable=False),
        sa.Column("resends", sa.SmallInteger(), nullable=False),
        sa.Column("claim_token", sa.BigInteger(), nullable=True),
        sa.Column("locked_by", sa.Text(), nullable=True),
        sa.Column("locked_at", sa.BigInteger(), nullable=True),
        sa.Column("attempted_at", sa.BigInteger(), nullable=True),
        sa.Column("doubted_at", sa.BigInteger(), nullable=True),
        sa.Column("provider", sa.Text(), nullable=True),
        sa.Column("provider_message_id", sa.Text(), nullable=True),
        sa.Column("error_code", sa.Text(), nullable=True),
        sa.Column("error_category", sa.Text(), nullable=True),
        sa.Column("error_reason", sa.Text(), nullable=True),
        sa.Column("duration_ms", sa.Integer(), nullable=True),
        sa.Column("sent_at", sa.BigInteger(), nullable=True),
        sa.Column("failed_at", sa.BigInteger(), nullable=True),
        sa.Column("settlement", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("message_key", name=op.f("pk_deliveries")),
    )
    with op.batch_alter_table("deliveries", schema=None) as batch_op:
        batch_op.create_index(
            "ix_deliveries_in_doubt",
            ["claimable_at"],
            unique=False,
            sqlite_where=sa.text("status = 'IN_DOUBT'"),
            postgresql_where=sa.text("status = 'IN_DOUBT'"),
        )
        batch_op.create_index(
            "ix_deliveries_locked",
            ["claimable_at"],
            unique=False,
            sqlite_where=sa.text("locked_by IS NOT NULL"),
            postgresql_where=sa.text("locked_by IS NOT NULL"),
        )
        batch_op.create_index(
            "ix_deliveries_rare",
            ["tenant_id", "status", "message_key"],
            unique=False,
            sqlite_where=sa.text("status IN ('FAILED', 'IN_DOUBT', 'CLOSED_UNKNOWN', 'CANCELLED')"),
            postgresql_where=sa.text("status IN ('FAILED', 'IN_DOUBT', 'CLOSED_UNKNOWN', 'CANCELLED')"),
        )
        batch_op.create_index(
            "ix_deliveries_waiting",
            ["lane", "claimable_at", "message_key"],
            unique=False,
            sqlite_where=sa.text("locked_by IS NULL AND status IN ('PENDING', 'RETRY_SCHEDULED')"),
            postgresql_where=sa.text("locked_by IS NULL AND status IN ('PENDING', 'RETRY_SCHEDULED')"),
        )

    _create_events()
    op.create_table(
        "holds",
        sa.Column("lane", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("defer_reason", sa.Text(), nullable=False),
        sa.Column("deferred_until", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("lane", name=op.f("pk_holds")),
    )
    op.create_table(
        "installation",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_installation")),
    )
    op.create_table(
        "intake",
        sa.Column(
            "id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), sa.Identity(always=False), nullable=False
        ),
        sa.Column("tenant_id", sa.BigInteger(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("accepted", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_intake")),
    )
    op.create_table(
        "messages",
        sa.Column(
            "id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), sa.Identity(always=False), nullable=False
        ),
        sa.Column("outbox_id", sa.Text(), nullable=False),
        sa.Column("tenant_id", sa.BigInteger(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("request_id", sa.Text(), nullable=False),
        sa.Column("dedupe_key", sa.Text(), nullable=True),
        sa.Column("body_digest", sa.Text(), nullable=True),
        sa.Column("to_email", sa.Text(), nullable=False),
        sa.Column("contact_key", sa.BigInteger(), nullable=True),
        sa.Column("recipient_id", sa.Text(), nullable=True),
        sa.Column("external_id", sa.Text(), nullable=True),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("template_key", sa.BigInteger(), nullable=True),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("retry_policy", sa.Text(), nullable=False),
        sa.Column("on_doubt", sa.Text(), nullable=False),
        sa.Column("is_bulk", sa.Boolean(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("scheduled_at", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_messages")),
        sa.UniqueConstraint("outbox_id", name=op.f("uq_messages_outbox_id")),
    )
    with op.batch_alter_table("messages", schema=None) as batch_op:
        batch_op.create_index("ix_messages_tenant_id_id", ["tenant_id", "id"], unique=False)
        batch_op.create_index("ix_messages_tenant_id_to_email", ["tenant_id", "to_email", "id"], unique=False)
        batch_op.create_index(
            "uq_messages_tenant_id_dedupe_key",
            ["tenant_id", "dedupe_key"],
            unique=True,
            sqlite_where=sa.text("dedupe_key IS NOT NULL"),
            postgresql_where=sa.text("dedupe_key IS NOT NULL"),
        )

    op.create_table(
        "suppressions",
        sa.Column(
            "id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), sa.Identity(always=False), nullable=False
        ),
        sa.Column("tenant_id", sa.BigInteger(), nullable=False),
        sa.Column("email", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_suppressions")),
        sa.UniqueConstraint("tenant_id", "email", name=op.f("uq_suppressions_tenant_id_email")),
    )
    op.create_table(
        "templates",
        sa.Column(
            "id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), sa.Identity(always=False), nullable=False
        ),
        sa.Column("tenant_id", sa.BigInteger(), nullable=False),
        sa.Column("template_id", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("html", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_templates")),
        sa.UniqueConstraint(
            "tenant_id", "template_id", "version", name=op.f("uq_templates_tenant_id_template_id_version")
        ),
    )
    op.create_table(
        "tenants",
        sa.Column(
            "id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), sa.Identity(always=False), nullable=False
        ),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("weight", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.Column("max_in_flight", sa.Integer(), nullable=True),
        sa.Column("rate_per_second", sa.Integer(), nullable=True),
        sa.Column("rate_per_hour", sa.Integer(), nullable=True),
        sa.Column("daily_limit", sa.Integer(), nullable=True),
        sa.Column("working_hours", sa.Text(), nullable=True),
        sa.Column("timezone", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tenants")),
        sa.UniqueConstraint("name", name=op.f("uq_tenants_name")),
    )
    op.create_table(
        "workers",
        sa.Column("worker_id", sa.Text(), nullable=False),
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("seen_at", sa.BigInteger(), nullable=False),
        sa.Column("unavailable_until", sa.BigInteger(), nullable=True),
        sa.Column("unavailable_reason", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("worker_id", name=op.f("pk_workers")),
    )
    # There is one tenant from the start, so that a laptop with one team needs no set-up.
    tenants = sa.table("tenants", sa.column("name", sa.Text()), sa.column("created_at", sa.BigInteger()))
    op.bulk_insert(tenants, [{"name": "default", "created_at": time.time_ns() // 1_000_000}])


def downgrade() -> None:
    raise RuntimeError("The first form of the database has none before it; restore a backup instead.")


def _create_events() -> None:
    """Partitioned by time on PostgreSQL, so that old events are dropped by the month and not row by row."""
    columns = (
        sa.Column("message_key", sa.BigInteger(), nullable=False),
        sa.Column("tenant_id", sa.BigInteger(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("metadata", sa.Text(), nullable=False),
    )
    if op.get_context().dialect.name == "postgresql":
        op.create_table(
            "events",
            sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
            *columns,
            sa.PrimaryKeyConstraint("id", "created_at", name="pk_events"),
            postgresql_partition_by="RANGE (created_at)",
        )
        op.execute("CREATE TABLE events_default PARTITION OF events DEFAULT")
    else:
        op.create_table(
            "events",
            sa.Column("id", sa.Integer(), nullable=False),
            *columns,
            sa.PrimaryKeyConstraint("id", name="pk_events"),
        )
    op.create_index("ix_events_message_key", "events", ["message_key"])
