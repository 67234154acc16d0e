"""Who may enter: users, their sessions, what a key may do, and guesses that are counted."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.add_column(
        "api_keys", sa.Column("scopes", sa.Text(), server_default=sa.text("'send read manage'"), nullable=False)
    )
    _create_users()
    _create_sessions()
    op.create_table(
        "guesses",
        sa.Column("whom", sa.Text(), nullable=False),
        sa.Column("wrong", sa.Integer(), nullable=False),
        sa.Column("last_at", sa.BigInteger(), nullable=False),
        sa.Column("blocked_until", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("whom", name=op.f("pk_guesses")),
    )
    op.create_table(
        "tallies",
        sa.Column("tenant_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("minute", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("events", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "minute", "type", name=op.f("pk_tallies")),
    )
    op.create_index("ix_tallies_minute", "tallies", ["minute"])


def downgrade() -> None:
    raise RuntimeError("What it holds would be lost; restore a backup instead.")


def _create_users() -> None:
    op.create_table(
        "users",
        _key(),
        sa.Column("login", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("tenant_id", sa.BigInteger(), nullable=True),
        sa.Column("password_hash", sa.Text(), nullable=False),
        sa.Column("password_changed_at", sa.BigInteger(), nullable=False),
        sa.Column("totp_secret", sa.Text(), nullable=True),
        sa.Column("totp_since", sa.BigInteger(), nullable=True),
        sa.Column("totp_step", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("seen_at", sa.BigInteger(), nullable=True),
        sa.Column("disabled_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_users")),
        sa.UniqueConstraint("login", name=op.f("uq_users_login")),
    )
    op.create_table(
        "recovery_codes",
        sa.Column("user_key", _key_type(), autoincrement=False, nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("user_key", "digest", name=op.f("pk_recovery_codes")),
    )


def _create_sessions() -> None:
    op.create_table(
        "sessions",
        _key(),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("user_key", sa.BigInteger(), nullable=False),
        sa.Column("tenant_id", sa.BigInteger(), nullable=False),
        sa.Column("awaits_code", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("seen_at", sa.BigInteger(), nullable=False),
        sa.Column("ends_at", sa.BigInteger(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sessions")),
        sa.UniqueConstraint("digest", name=op.f("uq_sessions_digest")),
    )
    op.create_index("ix_sessions_user_key", "sessions", ["user_key"])
    op.create_index("ix_sessions_ends_at", "sessions", ["ends_at"])


def _key_type() -> sa.types.TypeEngine[int]:
    return sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _key() -> sa.Column[int]:
    return sa.Column("id", _key_type(), sa.Identity(always=False), nullable=False)
