"""Webhooks: whom to tell what happened, and what was told. Campaigns that everyone may read."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

_TO_DELIVER = sa.text("status = 'PENDING'")


def upgrade() -> None:
    op.add_column("campaigns", sa.Column("archived_at", sa.BigInteger(), nullable=True))
    _create_endpoints()
    _create_deliveries()
    op.create_table(
        "webhook_cursor",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("seen", sa.BigInteger(), nullable=False),
        sa.Column("seen_before", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_webhook_cursor")),
    )


def downgrade() -> None:
    raise RuntimeError("Endpoints and their secrets would be lost; restore a backup instead.")


def _create_endpoints() -> None:
    op.create_table(
        "webhook_endpoints",
        _key(),
        sa.Column("webhook_id", sa.Text(), nullable=False),
        sa.Column("tenant_id", sa.BigInteger(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("types", sa.Text(), nullable=False),
        sa.Column("secrets", sa.Text(), nullable=False),
        sa.Column("is_active", sa.Boolean(), nullable=False),
        sa.Column("since_event", sa.BigInteger(), nullable=False),
        sa.Column("paused_at", sa.BigInteger(), nullable=True),
        sa.Column("pause_reason", sa.Text(), nullable=True),
        sa.Column("failing_since", sa.BigInteger(), nullable=True),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("held_until", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhook_endpoints")),
        sa.UniqueConstraint("webhook_id", name=op.f("uq_webhook_endpoints_webhook_id")),
    )
    op.create_index("ix_webhook_endpoints_tenant_id", "webhook_endpoints", ["tenant_id", "id"])


def _create_deliveries() -> None:
    op.create_table(
        "webhook_deliveries",
        _key(),
        sa.Column("delivery_id", sa.Text(), nullable=False),
        sa.Column("endpoint_key", sa.BigInteger(), nullable=False),
        sa.Column("tenant_id", sa.BigInteger(), nullable=False),
        sa.Column("event_key", sa.BigInteger(), nullable=True),
        sa.Column("event_at", sa.BigInteger(), nullable=False),
        sa.Column("message_key", sa.BigInteger(), nullable=True),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("due_at", sa.BigInteger(), nullable=False),
        sa.Column("claim_token", sa.BigInteger(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("log", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhook_deliveries")),
        sa.UniqueConstraint("delivery_id", name=op.f("uq_webhook_deliveries_delivery_id")),
        sa.UniqueConstraint("endpoint_key", "event_key", name=op.f("uq_webhook_deliveries_endpoint_key_event_key")),
    )
    op.create_index("ix_webhook_deliveries_of_endpoint", "webhook_deliveries", ["endpoint_key", "id"])
    op.create_index(
        "ix_webhook_deliveries_due",
        "webhook_deliveries",
        ["endpoint_key", "due_at"],
        sqlite_where=_TO_DELIVER,
        postgresql_where=_TO_DELIVER,
    )
    op.create_index("ix_webhook_deliveries_ended_at", "webhook_deliveries", ["ended_at"])


def _key() -> sa.Column[int]:
    kind = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    return sa.Column("id", kind, sa.Identity(), nullable=False)
