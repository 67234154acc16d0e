"""Notifications: which row of somebody else's queue became which message."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

_UNDER_WAY = sa.text("state = 'sending'")


def upgrade() -> None:
    op.create_table(
        "notification_links",
        sa.Column(
            "id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), sa.Identity(always=False), nullable=False
        ),
        sa.Column("tenant_id", sa.BigInteger(), nullable=False),
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("queue_schema", sa.Text(), nullable=True),
        sa.Column("notification_id", sa.BigInteger(), nullable=False),
        sa.Column("row_key", sa.Text(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("subscription_id", sa.BigInteger(), nullable=False),
        sa.Column("outbox_id", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("locked_by", sa.Text(), nullable=False),
        sa.Column("locked_at", sa.Text(), nullable=False),
        sa.Column("attempts_before", sa.Integer(), nullable=False),
        sa.Column("max_attempts", sa.Integer(), nullable=False),
        sa.Column("told", sa.Text(), nullable=False),
        sa.Column("concluded", sa.Integer(), nullable=False),
        sa.Column("result_at", sa.BigInteger(), nullable=True),
        sa.Column("retry_after", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notification_links")),
        sa.UniqueConstraint("outbox_id", name=op.f("uq_notification_links_outbox_id")),
        sa.UniqueConstraint(
            "queue", "row_key", "generation", name=op.f("uq_notification_links_queue_row_key_generation")
        ),
    )
    op.create_index(
        "ix_notification_links_sending",
        "notification_links",
        ["queue", "id"],
        sqlite_where=_UNDER_WAY,
        postgresql_where=_UNDER_WAY,
    )
    op.create_index(
        "ix_notification_links_under_way",
        "notification_links",
        ["queue", "subscription_id"],
        sqlite_where=_UNDER_WAY,
        postgresql_where=_UNDER_WAY,
    )


def downgrade() -> None:
    raise RuntimeError("What it holds would be lost; restore a backup instead.")
