"""Rates that nobody confirms: how often in a row a provider did not tell what it takes."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.add_column("quotas", sa.Column("missed", sa.Integer(), nullable=False, server_default=sa.text("0")))


def downgrade() -> None:
    op.drop_column("quotas", "missed")
