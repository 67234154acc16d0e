"""Why a mailout waits: what its last try failed of, until it succeeds."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.add_column("mailouts", sa.Column("delay_code", sa.Text(), nullable=True))
    op.add_column("mailouts", sa.Column("delay_reason", sa.Text(), nullable=True))


def downgrade() -> None:
    op.drop_column("mailouts", "delay_reason")
    op.drop_column("mailouts", "delay_code")
