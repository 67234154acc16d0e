"""Who may be written to: lists, subscriptions, the scope of suppressions, and reports."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    _widen_contacts()
    _create_lists()
    _scope_suppressions()
    _name_the_list_of_messages()
    _create_reports()
    op.create_index(
        "ix_deliveries_provider_message_id",
        "deliveries",
        ["provider_message_id"],
        sqlite_where=sa.text("provider IN ('ses', 'sendgrid')"),
        postgresql_where=sa.text("provider IN ('ses', 'sendgrid')"),
    )


def downgrade() -> None:
    raise RuntimeError("Who left which list would be forgotten, and written to again; restore a backup instead.")


def _widen_contacts() -> None:
    op.add_column("contacts", sa.Column("status_updated_at", sa.BigInteger(), nullable=True))
    for name in ("status_source", "bounce_type", "bounce_subtype", "locale"):
        op.add_column("contacts", sa.Column(name, sa.Text(), nullable=True))


def _create_lists() -> None:
    op.create_table(
        "lists",
        _key(),
        sa.Column("tenant_id", sa.BigInteger(), nullable=False),
        sa.Column("list_key", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("is_public", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_lists")),
        sa.UniqueConstraint("tenant_id", "list_key", name=op.f("uq_lists_tenant_id_list_key")),
    )
    op.create_table(
        "subscriptions",
        _key(),
        sa.Column("tenant_id", sa.BigInteger(), nullable=False),
        sa.Column("contact_key", sa.BigInteger(), nullable=False),
        sa.Column("list_key", sa.Text(), nullable=False),
        sa.Column("subscribed_at", sa.BigInteger(), nullable=True),
        sa.Column("unsubscribed_at", sa.BigInteger(), nullable=True),
        sa.Column("source", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_subscriptions")),
        sa.UniqueConstraint("contact_key", "list_key", name=op.f("uq_subscriptions_contact_key_list_key")),
    )
    op.create_index(
        "ix_subscriptions_of_list",
        "subscriptions",
        ["tenant_id", "list_key", "contact_key"],
        sqlite_where=sa.text("unsubscribed_at IS NULL"),
        postgresql_where=sa.text("unsubscribed_at IS NULL"),
    )


def _scope_suppressions() -> None:
    """Whoever was suppressed was suppressed altogether, and stays so."""
    with op.batch_alter_table("suppressions") as table:
        table.add_column(sa.Column("list_key", sa.Text(), server_default=sa.text("'*'"), nullable=False))
        table.drop_constraint("uq_suppressions_tenant_id_email", type_="unique")
        table.create_unique_constraint(
            op.f("uq_suppressions_tenant_id_email_list_key"), ["tenant_id", "email", "list_key"]
        )


def _name_the_list_of_messages() -> None:
    op.add_column("messages", sa.Column("list_key", sa.Text(), nullable=True))
    op.execute("UPDATE messages SET list_key = 'general' WHERE is_bulk")


def _create_reports() -> None:
    op.create_table(
        "reports",
        _key(),
        sa.Column("tenant_id", sa.BigInteger(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("message_key", sa.BigInteger(), nullable=True),
        sa.Column("email", sa.Text(), nullable=True),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("received_at", sa.BigInteger(), nullable=False),
        sa.Column("is_proof", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_reports")),
        sa.UniqueConstraint("tenant_id", "key", name=op.f("uq_reports_tenant_id_key")),
    )
    op.create_index("ix_reports_message_key", "reports", ["message_key"])
    op.create_index(
        "ix_reports_soft",
        "reports",
        ["tenant_id", "email", "at"],
        sqlite_where=sa.text("verdict = 'soft_bounce'"),
        postgresql_where=sa.text("verdict = 'soft_bounce'"),
    )


def _key() -> sa.Column[int]:
    return sa.Column(
        "id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), sa.Identity(always=False), nullable=False
    )
