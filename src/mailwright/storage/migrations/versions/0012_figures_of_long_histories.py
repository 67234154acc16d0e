"""Figures of long histories: what happened by the hour, and to the mails of each campaign, added up as it happens."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    op.create_table(
        "hourly_tallies",
        sa.Column("tenant_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("hour", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("events", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "hour", "type", name=op.f("pk_hourly_tallies")),
    )
    op.create_table(
        "campaign_tallies",
        sa.Column("campaign_key", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("length", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("begins_at", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("events", sa.BigInteger(), nullable=False),
        sa.Column("mails", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("campaign_key", "length", "begins_at", "type", name=op.f("pk_campaign_tallies")),
    )
    # Behind which key their mails lie; those that began before this form are looked for among all.
    op.add_column(
        "campaigns", sa.Column("messages_behind", sa.BigInteger(), nullable=False, server_default=sa.text("0"))
    )
    op.add_column(
        "campaign_runs", sa.Column("messages_behind", sa.BigInteger(), nullable=False, server_default=sa.text("0"))
    )
    # The hours of what is tallied already; campaigns are added up from their first event on by whoever serves next.
    op.execute(
        "INSERT INTO hourly_tallies (tenant_id, hour, type, events)"
        " SELECT tenant_id, minute - minute % 3600000, type, CAST(sum(events) AS bigint) FROM tallies"
        " GROUP BY tenant_id, minute - minute % 3600000, type"
    )


def downgrade() -> None:
    op.execute("DELETE FROM installation WHERE name = 'campaigns_tallied_up_to'")
    op.drop_column("campaign_runs", "messages_behind")
    op.drop_column("campaigns", "messages_behind")
    op.drop_table("campaign_tallies")
    op.drop_table("hourly_tallies")
