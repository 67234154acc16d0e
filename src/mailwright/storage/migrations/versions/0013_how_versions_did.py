"""How the versions of campaigns did, added up as it happens."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"

# What is added up of campaigns already, of those that have versions.
_BEFORE = """
INSERT INTO version_tallies (campaign_key, template_key, sent, opened, clicked)
SELECT m.campaign_key, COALESCE(m.template_key, 0),
  count(DISTINCT CASE WHEN e.type = 'SENT' THEN m.id END),
  count(DISTINCT CASE WHEN e.type IN ('open', 'click') THEN m.id END),
  count(DISTINCT CASE WHEN e.type = 'click' THEN m.id END)
FROM campaigns AS c
JOIN messages AS m ON m.campaign_key = c.id
JOIN events AS e ON e.message_key = m.id
WHERE c.definition LIKE '%"experiment":%' AND e.type IN ('SENT', 'open', 'click')
  AND e.id <= (SELECT COALESCE(max(CAST(value AS bigint)), 0) FROM installation WHERE name = 'campaigns_tallied_up_to')
GROUP BY m.campaign_key, COALESCE(m.template_key, 0)
"""


def upgrade() -> None:
    op.create_table(
        "version_tallies",
        sa.Column("campaign_key", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("template_key", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("sent", sa.BigInteger(), nullable=False),
        sa.Column("opened", sa.BigInteger(), nullable=False),
        sa.Column("clicked", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("campaign_key", "template_key", name=op.f("pk_version_tallies")),
    )
    op.execute(_BEFORE)


def downgrade() -> None:
    op.drop_table("version_tallies")
