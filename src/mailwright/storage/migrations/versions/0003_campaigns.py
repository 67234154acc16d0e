"""Campaigns: what they say, their place in line, and more about the people whom they go to."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_RARE = sa.text("status IN ('FAILED', 'IN_DOUBT', 'CLOSED_UNKNOWN', 'CANCELLED')")
_OF_CAMPAIGN = sa.text("campaign_key IS NOT NULL")
_UNFINISHED = sa.text("completed_at IS NULL")


def upgrade() -> None:
    _widen_contacts()
    _widen_lists()
    _create_imports()
    _make_room_in_lanes()
    _widen_templates()
    _create_campaigns()
    _create_records()


def downgrade() -> None:
    raise RuntimeError("Campaigns and their messages would be lost; restore a backup instead.")


def _widen_contacts() -> None:
    op.add_column("contacts", sa.Column("timezone", sa.Text(), nullable=True))
    op.add_column("contacts", sa.Column("attributes", sa.Text(), server_default=sa.text("'{}'"), nullable=False))
    if op.get_bind().dialect.name == "postgresql":
        # Campaigns walk their audience in the order of addresses, which is the order of bytes on every engine.
        op.execute('ALTER TABLE contacts ALTER COLUMN email TYPE text COLLATE "C"')
        op.execute('ALTER TABLE messages ALTER COLUMN to_email TYPE text COLLATE "C"')  # their reports, too
    op.create_table(
        "contact_tags",
        sa.Column("contact_key", _key_type(), autoincrement=False, nullable=False),
        sa.Column("tag", sa.Text(), nullable=False),
        sa.Column("tenant_id", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("contact_key", "tag", name=op.f("pk_contact_tags")),
    )
    op.create_index("ix_contact_tags_of_tenant", "contact_tags", ["tenant_id", "tag", "contact_key"])
    op.create_table(
        "segments",
        _key(),
        sa.Column("tenant_id", sa.BigInteger(), nullable=False),
        sa.Column("segment_key", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("filter", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_segments")),
        sa.UniqueConstraint("tenant_id", "segment_key", name=op.f("uq_segments_tenant_id_segment_key")),
    )


def _widen_lists() -> None:
    no = sa.text("false")
    op.add_column("lists", sa.Column("requires_confirmation", sa.Boolean(), server_default=no, nullable=False))
    op.add_column("subscriptions", sa.Column("is_pending", sa.Boolean(), server_default=no, nullable=False))
    op.add_column("subscriptions", sa.Column("confirmed_at", sa.BigInteger(), nullable=True))


def _create_imports() -> None:
    numbers = ("records", "read_bytes", "report_bytes", "added", "changed", "unchanged", "refused")
    op.create_table(
        "imports",
        _key(),
        sa.Column("import_id", sa.Text(), nullable=False),
        sa.Column("tenant_id", sa.BigInteger(), nullable=False),
        sa.Column("file_name", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("plan", sa.Text(), nullable=False),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in numbers),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_imports")),
        sa.UniqueConstraint("import_id", name=op.f("uq_imports_import_id")),
    )
    op.create_index("ix_imports_tenant_id_id", "imports", ["tenant_id", "id"])


def _make_room_in_lanes() -> None:
    """A lane was priority and tenant; now a campaign fits in, too. What is still to be sent moves to its new number."""
    for table, column in (("deliveries", "lane"), ("holds", "lane")):
        op.execute(
            f"UPDATE {table} SET {column} = {column} / 1099511627776 * 4503599627370496"  # noqa: S608 - our own names
            f" + {column} % 1099511627776 * 268435456"
        )
    op.add_column("messages", sa.Column("campaign_key", sa.BigInteger(), nullable=True))
    op.create_index(
        "uq_messages_campaign_key_to_email",
        "messages",
        ["campaign_key", "to_email"],
        unique=True,
        sqlite_where=_OF_CAMPAIGN,
        postgresql_where=_OF_CAMPAIGN,
    )
    op.create_index(
        "ix_deliveries_rare_of_lane", "deliveries", ["lane", "status"], sqlite_where=_RARE, postgresql_where=_RARE
    )


def _widen_templates() -> None:
    op.add_column("templates", sa.Column("locale", sa.Text(), server_default=sa.text("''"), nullable=False))
    op.add_column("templates", sa.Column("format", sa.Text(), server_default=sa.text("'html'"), nullable=False))
    op.add_column("templates", sa.Column("source", sa.Text(), nullable=True))
    op.add_column("templates", sa.Column("variables", sa.Text(), server_default=sa.text("'[]'"), nullable=False))
    op.create_table(
        "images",
        _key(),
        sa.Column("tenant_id", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("extension", sa.Text(), nullable=False),
        sa.Column("size_bytes", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_images")),
        sa.UniqueConstraint("tenant_id", "name", name=op.f("uq_images_tenant_id_name")),
    )


def _create_campaigns() -> None:
    op.create_table(
        "campaigns",
        _key(),
        sa.Column("campaign_id", sa.Text(), nullable=False),
        sa.Column("tenant_id", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("definition", sa.Text(), nullable=False),
        sa.Column("scheduled_at", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=True),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_campaigns")),
        sa.UniqueConstraint("campaign_id", name=op.f("uq_campaigns_campaign_id")),
    )
    op.create_index("ix_campaigns_tenant_id_id", "campaigns", ["tenant_id", "id"])
    op.create_table(
        "queue_entries",
        _key(),
        sa.Column("campaign_key", sa.BigInteger(), nullable=False),
        sa.Column("tenant_id", sa.BigInteger(), nullable=False),
        sa.Column("lane", sa.BigInteger(), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("limits", sa.Text(), nullable=False),
        sa.Column("planned", sa.Integer(), nullable=False),
        sa.Column("walked", sa.Integer(), nullable=False),
        sa.Column("recipients", sa.Integer(), nullable=False),
        sa.Column("walked_to", sa.Text(), nullable=False),
        sa.Column("walk_ended_at", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("completed_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_queue_entries")),
        sa.UniqueConstraint("campaign_key", name=op.f("uq_queue_entries_campaign_key")),
    )
    op.create_index(
        "ix_queue_entries_open",
        "queue_entries",
        ["tenant_id", "id"],
        sqlite_where=_UNFINISHED,
        postgresql_where=_UNFINISHED,
    )


def _create_records() -> None:
    op.add_column("tenants", sa.Column("warmup_since", sa.Text(), nullable=True))
    op.add_column("workers", sa.Column("per_second", sa.Double(), server_default=sa.text("0"), nullable=False))
    op.create_table(
        "audit_log",
        _key(),
        sa.Column("tenant_id", sa.BigInteger(), nullable=True),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit_log")),
    )
    op.create_index("ix_audit_log_tenant_id_id", "audit_log", ["tenant_id", "id"])
    op.create_table(
        "quotas",
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("remaining", sa.BigInteger(), nullable=True),
        sa.Column("limit_per_day", sa.BigInteger(), nullable=True),
        sa.Column("rate_per_second", sa.BigInteger(), nullable=True),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("synced_at", sa.BigInteger(), nullable=False),
        sa.Column("under_way", sa.BigInteger(), nullable=False),
        sa.Column("previous_sync", sa.BigInteger(), nullable=True),
        sa.Column("counted_before", sa.BigInteger(), nullable=False),
        sa.Column("failed_at", sa.BigInteger(), nullable=True),
        sa.Column("failure", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("provider", name=op.f("pk_quotas")),
    )


def _key_type() -> sa.types.TypeEngine[int]:
    return sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _key() -> sa.Column[int]:
    return sa.Column("id", _key_type(), sa.Identity(always=False), nullable=False)
