"""Mailouts: runs that are triggered from elsewhere, and what is still to be reported back."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

_GONE = sa.text("status <> 'active'")
_UNDONE = sa.text("due_at IS NOT NULL")
_UNWRITTEN = sa.text("written_at IS NULL")


def upgrade() -> None:
    op.create_index("ix_contacts_gone", "contacts", ["tenant_id", "id"], sqlite_where=_GONE, postgresql_where=_GONE)
    _create_runs()
    _create_recipients()
    _create_reports()


def downgrade() -> None:
    raise RuntimeError("What it holds would be lost; restore a backup instead.")


def _create_runs() -> None:
    op.create_table(
        "mailouts",
        _key(),
        sa.Column("mailout_id", sa.Text(), nullable=False),
        sa.Column("tenant_id", sa.BigInteger(), nullable=False),
        sa.Column("page_id", sa.Text(), nullable=False),
        sa.Column("sent_page", sa.Text(), nullable=True),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=True),
        sa.Column("is_test", sa.Boolean(), nullable=True),
        sa.Column("subject", sa.Text(), nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("template_key", sa.BigInteger(), nullable=True),
        sa.Column("campaign_key", sa.BigInteger(), nullable=True),
        sa.Column("planned", sa.Integer(), nullable=True),
        sa.Column("error_code", sa.Text(), nullable=True),
        sa.Column("error_message", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.Column("figures", sa.Text(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("reported_at", sa.BigInteger(), nullable=True),
        sa.Column("due_at", sa.BigInteger(), nullable=True),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("held_by", sa.BigInteger(), nullable=True),
        sa.Column("held_until", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_mailouts")),
        sa.UniqueConstraint("mailout_id", name=op.f("uq_mailouts_mailout_id")),
        sa.UniqueConstraint("sent_page", name=op.f("uq_mailouts_sent_page")),
    )
    op.create_index("ix_mailouts_due_at", "mailouts", ["due_at"], sqlite_where=_UNDONE, postgresql_where=_UNDONE)
    op.create_index("ix_mailouts_tenant_id_id", "mailouts", ["tenant_id", "id"])
    op.create_index("ix_mailouts_page_id", "mailouts", ["page_id"])


def _create_recipients() -> None:
    # They are taken in the order of addresses, which is the order of bytes on every engine.
    email = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    op.create_table(
        "mailout_recipients",
        sa.Column("mailout_key", _key_type(), autoincrement=False, nullable=False),
        sa.Column("email", email, nullable=False),
        sa.Column("from_name", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("mailout_key", "email", name=op.f("pk_mailout_recipients")),
    )


def _create_reports() -> None:
    op.create_table(
        "mailout_errors",
        _key(),
        sa.Column("mailout_key", sa.BigInteger(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("stage", sa.Text(), nullable=False),
        sa.Column("code", sa.Text(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("email", sa.Text(), nullable=True),
        sa.Column("provider", sa.Text(), nullable=True),
        sa.Column("retry_count", sa.Integer(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("is_in_doubt", sa.Boolean(), nullable=False),
        sa.Column("written_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_mailout_errors")),
        sa.UniqueConstraint("mailout_key", "key", name=op.f("uq_mailout_errors_mailout_key_key")),
    )
    op.create_index(
        "ix_mailout_errors_unwritten",
        "mailout_errors",
        ["mailout_key", "id"],
        sqlite_where=_UNWRITTEN,
        postgresql_where=_UNWRITTEN,
    )
    op.create_table(
        "mailout_logs",
        sa.Column("message_key", _key_type(), autoincrement=False, nullable=False),
        sa.Column("mailout_key", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("is_certain", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("message_key", name=op.f("pk_mailout_logs")),
    )
    op.create_index("ix_mailout_logs_mailout_key", "mailout_logs", ["mailout_key"])
    op.create_table(
        "told_standings",
        sa.Column("contact_key", _key_type(), autoincrement=False, nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("status_at", sa.BigInteger(), nullable=True),
        sa.Column("told_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("contact_key", name=op.f("pk_told_standings")),
    )


def _key() -> sa.Column[int]:
    return sa.Column("id", _key_type(), sa.Identity(), nullable=False)


def _key_type() -> sa.types.TypeEngine[int]:
    return sa.BigInteger().with_variant(sa.Integer(), "sqlite")
