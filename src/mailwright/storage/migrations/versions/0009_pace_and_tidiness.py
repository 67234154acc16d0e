"""The pace of tenants, and what makes old reports quick to find."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.add_column("tenants", sa.Column("interval_ms", sa.Integer(), nullable=True))
    op.add_column("tenants", sa.Column("one_at_a_time", sa.Boolean(), nullable=True))
    op.create_index("ix_reports_received_at", "reports", ["received_at"])


def downgrade() -> None:
    op.drop_index("ix_reports_received_at", "reports")
    op.drop_column("tenants", "one_at_a_time")
    op.drop_column("tenants", "interval_ms")
