"""Articles: slices, runs, what readers of a run get, and what became of it in the words of their operators."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

_OF_ARTICLE = sa.text("source = 'article'")
_BEING_WALKED = sa.text("walk_ended_at IS NULL")

_FROM_MAILS = """
FROM campaign_runs AS r
JOIN messages AS m ON m.request_id = r.run_id AND m.source = 'article'
JOIN deliveries AS d ON d.message_key = m.id
"""
# Nothing is stored twice: each of these is a way of looking at the outbox.
_VIEWS = {
    "delivery_history": "SELECT m.outbox_id AS id, r.tenant_id, m.to_email AS email, r.campaign_tag, r.send_batch_id,"
    " d.provider_message_id, d.sent_at" + _FROM_MAILS + "WHERE d.status = 'SENT'",
    "delivery_events": "SELECT e.id, r.tenant_id, m.to_email AS email,"
    " CASE e.type WHEN 'complaint' THEN 'spamreport' ELSE e.type END AS event_type,"
    " d.provider_message_id, e.created_at AS event_at, r.campaign_tag, r.send_batch_id"
    + _FROM_MAILS
    + "JOIN events AS e ON e.message_key = m.id"
    " WHERE e.type IN ('delivered', 'open', 'click', 'bounce', 'complaint', 'unsubscribe')",
    "article_dead_letters": "SELECT m.outbox_id AS id, r.tenant_id, 'send' AS topic, m.to_email AS email,"
    " r.campaign_tag, r.send_batch_id, m.payload, d.error_code || ': ' || COALESCE(d.error_reason, '') AS error,"
    " d.failed_at AS created_at"
    + _FROM_MAILS
    # Whoever left, or was deleted, before their turn is no failure.
    + "WHERE d.status = 'FAILED' AND d.error_code NOT IN ('RECIPIENT_SUPPRESSED', 'RECIPIENT_NOT_FOUND')",
}


def upgrade() -> None:
    _create_slices()
    _create_runs()
    for name, query in _VIEWS.items():
        op.execute(f"CREATE VIEW {name} AS {query}")


def downgrade() -> None:
    raise RuntimeError("What it holds would be lost; restore a backup instead.")


def _create_slices() -> None:
    op.create_table(
        "slices",
        _key(),
        sa.Column("slice_id", sa.Text(), nullable=False),
        sa.Column("tenant_id", sa.BigInteger(), nullable=False),
        sa.Column("article_key", sa.Text(), nullable=False),
        sa.Column("section_order", sa.Integer(), nullable=False),
        sa.Column("sort_index", sa.Integer(), nullable=False),
        sa.Column("scope_ocd_id", sa.Text(), nullable=False),
        sa.Column("is_headline", sa.Boolean(), nullable=False),
        sa.Column("title", sa.Text(), nullable=True),
        sa.Column("dek", sa.Text(), nullable=True),
        sa.Column("body_md", sa.Text(), nullable=False),
        sa.Column("link_url", sa.Text(), nullable=True),
        sa.Column("tags", sa.Text(), nullable=False),
        sa.Column("publish_status", sa.Text(), nullable=False),
        sa.Column("publish_at", sa.BigInteger(), nullable=True),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_slices")),
        sa.UniqueConstraint("slice_id", name=op.f("uq_slices_slice_id")),
        sa.UniqueConstraint(
            "tenant_id",
            "article_key",
            "section_order",
            "scope_ocd_id",
            "sort_index",
            name="uq_slices_place",
        ),
    )


def _create_runs() -> None:
    op.create_table(
        "campaign_runs",
        _key(),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("tenant_id", sa.BigInteger(), nullable=False),
        sa.Column("campaign_tag", sa.Text(), nullable=False),
        sa.Column("article_key", sa.Text(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("send_batch_id", sa.Text(), nullable=False),
        sa.Column("audience_filter", sa.Text(), nullable=False),
        sa.Column("list_key", sa.Text(), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("recipients", sa.Integer(), nullable=False),
        sa.Column("skipped", sa.Integer(), nullable=False),
        sa.Column("walked_to", sa.Text(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("walk_ended_at", sa.BigInteger(), nullable=True),
        sa.Column("failure", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_campaign_runs")),
        sa.UniqueConstraint("run_id", name=op.f("uq_campaign_runs_run_id")),
        sa.UniqueConstraint(
            "tenant_id",
            "campaign_tag",
            "send_batch_id",
            name=op.f("uq_campaign_runs_tenant_id_campaign_tag_send_batch_id"),
        ),
    )
    op.create_index("ix_campaign_runs_tenant_id_id", "campaign_runs", ["tenant_id", "id"])
    op.create_index(
        "ix_campaign_runs_open",
        "campaign_runs",
        ["id"],
        sqlite_where=_BEING_WALKED,
        postgresql_where=_BEING_WALKED,
    )
    op.create_table(
        "run_variants",
        sa.Column("run_key", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("slices", sa.Text(), nullable=False),
        sa.Column("template_key", sa.BigInteger(), nullable=False),
        sa.Column("recipients", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("run_key", "slices", name=op.f("pk_run_variants")),
    )
    op.create_index(
        "uq_messages_of_article_run",
        "messages",
        ["request_id", "to_email"],
        unique=True,
        sqlite_where=_OF_ARTICLE,
        postgresql_where=_OF_ARTICLE,
    )


def _key() -> sa.Column[int]:
    kind = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    return sa.Column("id", kind, sa.Identity(always=False), nullable=False)
